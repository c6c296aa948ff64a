"""A request that was rejected before anything started, or a gate that was cancelled, in every format that a verdict has (pure).

Neither is a verdict.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape as safe
from pathlib import Path
from xml.etree import ElementTree as xml

from checks.exit_codes import RejectionKind
from tasks.gate_file.read import GateFileError, OverrideError
from tasks.render.html import HERE, security
from tasks.render.markdown import escape
from tasks.text.inert import one_line

LABEL = "REJECTED"
MEANING = "The request was rejected before anything started. No machine was tested, and this says nothing about any machine."
REMEDY = "Correct the problem and run the gate again."
CANCELLED = "CANCELLED"
CANCELLED_MEANING = "The gate was ended before there was a verdict. This says nothing about any machine."
RUN_CANCELLED_MEANING = (
    "The run was cancelled. If the gate had a verdict by then, Prefect and the store of the gate have it."
)
AGAIN = "Run the gate again."
LATER = "Nothing has to be corrected: run the gate again when the other one has ended."


@dataclass(frozen=True)
class Rejection:
    """What was wrong, and where: `path` is a dotted key. "" and None where there is no such place.

    `word` heads it; `meaning` says what it means for the machines, and `remedy` what to do. `is_file`: `file` is one, and not the
    words for what was typed. `also` is what else is wrong.
    """

    file: str
    line: int | None
    path: str
    message: str
    nearest: str | None
    label: str = LABEL
    meaning: str = MEANING
    remedy: str = REMEDY
    is_file: bool = True
    also: tuple[str, ...] = ()


def from_error(error: Exception | str, rejection_kind: RejectionKind | None = None) -> Rejection:
    """The rejection that an error is, or that is known only in words."""
    if isinstance(error, GateFileError):
        fields = error.file, error.line, error.path, error.message, error.nearest
        also = tuple(f"{other.path or other.file}: {other.account}" for other in error.more)
        return Rejection(*fields, is_file=not isinstance(error, OverrideError), also=also)
    remedy = LATER if rejection_kind is RejectionKind.BUSY else REMEDY
    return Rejection("", None, "", str(error), None, remedy=remedy)


def cancelled(reason: str, elsewhere: bool = False) -> Rejection:
    """A gate that was cancelled; `reason` is why, and what had been measured by then. `elsewhere`: it ran on another machine, so that
    nobody here knows how far it had come.
    """
    meaning = RUN_CANCELLED_MEANING if elsewhere else CANCELLED_MEANING
    return Rejection("", None, "", reason, None, CANCELLED, meaning, AGAIN)


def sentence(error: Rejection) -> str:
    """Such as "gates/a.toml, line 5: cluster.lancher: unknown key. Did you mean 'launcher'?" """
    line = f", line {error.line}" if error.line else ""
    prefix = f"{one_line(error.file, 400)}{line}: " if error.file else ""
    sentences = [f"{prefix}{_reason(error)}", *(one_line(other, 400) for other in error.also)]
    return " Also wrong: ".join(sentences)


def markdown(error: Rejection, name: str) -> str:
    """A summary."""
    return "\n\n".join(
        (f"# {error.label} {escape(name, 80)}", escape(sentence(error)), error.meaning, f"{error.remedy}\n")
    )


def junit(error: Rejection, name: str) -> str:
    """One test suite with one error."""
    suite = xml.Element("testsuite", name=one_line(f"prelaunch {name}", 200))
    suite.attrib |= {"tests": "1", "failures": "0", "errors": "1", "skipped": "0", "time": "0.000"}
    case = xml.SubElement(suite, "testcase", classname="request", name=one_line(name, 200), time="0.000")
    case.attrib |= {"file": one_line(error.file, 400)} if error.file and error.is_file else {}
    case.attrib |= {"line": str(error.line)} if error.line and error.is_file else {}
    text = sentence(error)
    element = xml.SubElement(case, "error", type=error.label, message=text)
    element.text = f"{text}\n{error.meaning} {error.remedy}"
    xml.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(suite, encoding="unicode") + "\n"


def html(error: Rejection, name: str) -> str:
    """A page."""
    style = (HERE / "report.css").read_text(encoding="utf-8")
    title, text = safe(f"{error.label} {one_line(name, 80)}"), safe(sentence(error))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{safe(security(style))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<header class="answer unknown">\n<h1>{error.label}</h1>\n<p class="said"><strong>{text}</strong></p>\n'
        f"<p>{error.meaning} {error.remedy}</p>\n</header>\n</body>\n</html>\n"
    )


def annotation(error: Rejection, workspace: str) -> str:
    """The workflow command with which GitHub shows the rejection at its line of the file; `workspace` is the checkout's folder.

    The log shows only its text, which names file and line for that reason.
    As docs.github.com, "Workflow commands for GitHub Actions", writes them: a property may hold no comma and no colon.
    """
    file = error.file if error.is_file else ""
    if workspace and Path(file).is_absolute():
        file = os.path.relpath(file, workspace)
    if file.startswith(".."):
        file = ""  # GitHub shows lines of the checkout alone
    places = {
        "file": one_line(file, 400),
        "line": str(error.line or "") if file else "",
        "title": "Prelaunch rejected the request",
    }
    properties = ",".join(f"{key}={_property(value)}" for key, value in places.items() if value)
    return f"::error {properties}::{_data(sentence(replace(error, file=file or error.file, also=())))}"


def end_annotation(line: str, notes: Sequence[str] = (), *, is_error: bool) -> str:
    """The workflow command with which GitHub shows the first line about the end of a gate, and `notes` below it."""
    text = "\n".join(one_line(each, 1000) for each in (line, *notes))
    level, title = ("error", "the gate did not end well") if is_error else ("warning", "a GO with warnings")
    return f"::{level} title={_property(f'Prelaunch: {title}')}::{_data(text)}"


def _reason(error: Rejection) -> str:
    prefix = f"{one_line(error.path, 200)}: " if error.path else ""
    hint = f" Did you mean {one_line(error.nearest, 80)!r}?" if error.nearest else ""
    message = one_line(error.message, 4000)
    return f"{prefix}{message if message.endswith('?') else message.rstrip('.') + '.'}{hint}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
