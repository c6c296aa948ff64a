"""Markup, control characters and endless text in every text of a report: no page acts on them, in any format.

Nor is text from a node a command to the pipeline in whose log it is printed, or markup in a cell of Prefect's tables.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from checks.documents.report import digest, dump, load
from checks.judge.trend.numbers import gate_numbers
from checks.judge.trend.trend import follow
from checks.judge.verdict import decide, unreadable
from checks.model import Report, Verdict
from checks.value_types import DecodeError
from flows.cli.main import main
from tasks.render.context import GateHistory, VerdictContext
from tasks.render.html import html
from tasks.render.markdown import inert
from tasks.render.trend_text import worse_lines
from tasks.reports.explained_input import ExplainedInput, explanation_text
from tasks.text.inert import clean, one_line
from tests.sample_reports import FACTS, POLICY, healthy, verdict_of, with_metric, with_row, wrong_sums
from tests.tasks.render.test_terminal import pages_of

ATTACK = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(1)> [bold red]x[/] \x1b[2J\x1b]0;t\x07\x9b31m \u202egnp\u2066 "
    "\x00\x7f\u2028 \ud800 &amp; | `a` ```\n**b** [c](javascript:d) https://evil.example @team ]]> --> \r\n# h\n\n| x | y |\ufffe"
)
LONG = "A" * 50_000 + " " + "b " * 5_000
BIDIRECTIONAL = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufffe"
Path_ = tuple[str | int, ...]


def _sample() -> dict[str, Any]:
    """A report with a text in each place that has one."""
    texts: dict[str, Any] = {"evidence": "a line", "reason": "a reason"}
    report = wrong_sums(healthy(2, 2))
    report = with_row(report, "compute.gemm", "node-0/rank-0", lambda row: replace(row, **texts))
    made: dict[str, Any] = json.loads(dump(replace(report, collection=("a problem",))))
    return made


def _texts(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The place of every text; of a table's own names too, as ("...", "name of KEY")."""
    if isinstance(value, str):
        yield path
    for key, item in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        if isinstance(key, str):
            yield (*path, f"name of {key}")
        yield from _texts(item, (*path, key))


def _places() -> list[Path_]:
    """One place of each kind: any element of a list, any check, any rule of skipping."""
    found: dict[tuple[str, ...], Path_] = {}
    for path in _texts(_sample()):
        steps = ["[]" if isinstance(step, int) else step for step in path]
        if steps[0] == "checks" and "metrics" not in steps and len(steps) > 2:
            steps[1] = "any check"
        if steps[0] == "checks" and steps[-1].startswith("name of "):
            steps[1:] = ["any check", "name", str(len(steps))]
        found.setdefault(tuple(steps), path)
    return list(found.values())


def _with(paths: Sequence[Path_], text: str) -> dict[str, Any]:
    """The sample with the text in these places; names of tables last, because they lead to the others."""
    document = _sample()
    for path in sorted(paths, key=lambda path: (str(path[-1]).startswith("name of "), -len(path))):
        here: Any = document
        for step in path[:-1]:
            here = here[step]
        last = path[-1]
        if isinstance(last, str) and last.startswith("name of "):
            here[text] = here.pop(last.removeprefix("name of "))
        else:
            here[last] = text
    return document


@functools.cache
def _parts() -> dict[str, list[Path_]]:
    """The places that a reader takes, by the part of the report that they are in; a place that it refuses is by itself."""
    parts: dict[str, list[Path_]] = {}
    for path in _places():
        is_read = _judged(_with([path], ATTACK))[0] is not None
        parts.setdefault(str(path[0]) if is_read else ".".join(map(str, path)), []).append(path)
    return parts


def _judged(document: dict[str, Any]) -> tuple[Report | None, Verdict]:
    """As `prelaunch judge` does: what is refused is a verdict too."""
    data = json.dumps(document).encode()
    try:
        report = load(data)
    except DecodeError as error:
        return None, unreadable(str(error), POLICY, FACTS, data)
    return report, decide(report, POLICY, FACTS)


def _pages(report: Report | None, verdict: Verdict, name: str, over_time: bool = True) -> dict[str, str]:
    told = explanation_text(ExplainedInput(name, name, None, name, verdict, (name,), (name,)))
    made = {**pages_of(report, verdict, name), "explain": told}
    if report is not None and over_time:
        days = [replace(report, measured_at=f"2026-11-{day:02d}T08:00:00Z") for day in range(1, 7)]
        seen = follow([gate_numbers(one, digest(dump(one)), POLICY) for one in days])
        past = GateHistory(worse=worse_lines(seen))
        made["html"] = html(report, verdict, name, VerdictContext(past=past))
    return made


class _Seen(HTMLParser):
    """What a browser would make of a page: its elements, and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.targets: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.targets |= {value or "" for name, value in attrs if name in ("href", "src", "action")}


def _require_inert(pages: dict[str, str], usual: dict[str, str]) -> None:
    for kind, page in pages.items():
        page.encode("utf-8")
        acting = {c for c in page if (c < " " and c != "\n") or "\x7f" <= c < "\xa0" or c in BIDIRECTIONAL}
        assert set() == acting, kind
        if kind == "html":
            seen, known = _Seen(page), _Seen(usual[kind])
            assert seen.tags.count("script") == known.tags.count("script"), kind
            assert "img" not in seen.tags
            assert not [name for name in seen.attributes if name.startswith("on")], kind
            assert not [target for target in seen.targets if "javascript" in target or "//" in target], kind
        elif kind == "junit":
            known_tags = {"testsuites", "testsuite", "testcase", "properties", "property", "failure", "error",
                          "skipped", "system-out", "system-err"}  # fmt: skip
            assert {element.tag for element in xml.fromstring(page).iter()} <= known_tags
        elif kind == "markdown":
            outside = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", page)
            acts = r"(?m)<script|<img|\]\(javascript|https://|@team|^# h|^\| x \| y"
            assert not re.search(acts, outside), kind


@functools.cache
def _usual() -> dict[str, str]:
    """The pages without anything hostile; made by the first test, not by each worker that collects this file."""
    return _pages(*_judged(_sample()), "local")


def test_report_text_with_markup_is_inert_in_every_page() -> None:
    """Tags, attributes, escapes, bidirectional marks, table cells, fences, links, ends of lines."""
    pages = [_judged(_with(paths, ATTACK)) for paths in _parts().values()]
    refused = [verdict for report, verdict in pages if report is None]
    findings = tuple(finding for verdict in refused for finding in verdict.findings)

    assert any(report is not None for report, _ in pages) and len(refused) > 10
    for report, verdict in [pair for pair in pages if pair[0] is not None]:
        _require_inert(_pages(report, verdict, "local"), _usual())
    _require_inert(_pages(None, replace(refused[0], findings=findings), "local"), _usual())


def test_report_text_without_end_is_cut_in_every_page() -> None:
    """60,000 characters neither widen a terminal nor make a page of megabytes."""
    for paths in _parts().values():
        report, verdict = _judged(_with(paths, LONG))
        pages = _pages(report, verdict, "local", over_time=False)

        assert max(map(len, pages["terminal"].splitlines())) <= 400
        for kind, page in pages.items():
            assert len(page) <= len(_usual().get(kind, "")) + 10 * len(LONG), kind


def test_the_places_are_those_that_a_report_has() -> None:
    """A walk that found nothing would try nothing."""
    kinds = {".".join("[]" if isinstance(step, int) else step for step in path) for path in _places()}
    wanted = {
        "gate_id", "measured_at", "collection.[]", "nodes.[].name", "nodes.[].identity.host", "plan.[].check",
        "nodes.[].identity.name of host", "checks.system.identity.metrics.kernel.[]", "declared.instance_type",
    }  # fmt: skip

    assert wanted <= kinds
    thirds = {str(path[2]) for path in _places() if len(path) > 2}
    assert {"evidence", "reasons", "subjects", "outcomes"} <= thirds


def test_the_name_of_a_file_is_no_better() -> None:
    """What a report is called in the pages."""
    _require_inert(_pages(*_judged(_sample()), ATTACK), _usual())


def _forged() -> Report:
    """What no file can hold, since a strict reader refuses such names."""
    report = wrong_sums(healthy(), "node-1/rank-3")
    row = ("collective.all_reduce", "node-1/rank-3")
    report = with_row(report, *row, lambda one: replace(one, evidence=ATTACK))
    report = with_metric(report, "system.identity", "node-0", "kernel", ATTACK)
    report = with_metric(report, "network.pairs", "node-0", "peers", (ATTACK,))
    node = replace(report.nodes[0], identity={"host": ATTACK, ATTACK: "x"}, attempt=ATTACK)
    strange = replace(report.observations[0], check=ATTACK, subject=ATTACK)
    report = replace(report, gate_id=ATTACK, measured_at=ATTACK, collection=(ATTACK,))
    rows = (*report.observations, strange)
    return replace(report, nodes=(node, *report.nodes[1:]), observations=rows)


def test_forged_names_and_markup_are_inert_in_every_page() -> None:
    """Names that a reader refuses; rich markup stays as it was written, and no cell of a table is closed."""
    report = _forged()
    pages = _pages(report, verdict_of(report), ATTACK, over_time=False)
    rows = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", pages["markdown"]).splitlines()

    _require_inert(pages, _usual())
    assert "[bold red]x[/]" in pages["terminal"]
    assert {6, 7} >= {row.count("|") for row in rows if row.startswith("| FAIL")}


LOGS: dict[str, str] = {
    "kernel": "[ 100.000000] NVRM: Xid (PCI:0000:53:00): 79, pid=1, name={}, GPU has fallen off the bus.\n",
    "kernel, another code": "[ 100.000000] NVRM: Xid (PCI:0000:53:00): 9999, {}\n",
}


@pytest.mark.parametrize("log", LOGS)
def test_a_log_with_markup_is_explained_inertly(
    log: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """What a program calls itself reaches the kernel's log, and from there the page."""
    file = tmp_path / "dmesg.txt"
    name = ATTACK.replace("\n", " ").replace("\r", " ").replace("\ud800", "?")
    file.write_text(LOGS[log].format(name), encoding="utf-8")
    code = main(["explain", str(file)])
    out = capfdbinary.readouterr().out.decode()

    assert code in (1, 3)
    _require_inert({"explain": out}, {})


READER = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
PIECES = (
    "[", "]", "(", ")", "!", ":", "/", "a", "1", "12.", "3)", ". ", " ", "-", "+", "=", "#", "*", "_", "`", "~~", "<b>", "&amp;", "|",
    "\\", "https://x.y", "[a]: /b", "javascript:x",
)  # fmt: skip


@pytest.mark.parametrize(
    "text", ["3.527", "12.5 GB/s", "6.18.44-fc", "node-0, rank 1", "3 of 4 (75 %)", "2026.11"]
)
def test_numbers_and_versions_stay_as_they_are(text: str) -> None:
    """They come from the API as people wrote them."""
    assert text == inert(text)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_cell_is_a_paragraph_of_text(text: str) -> None:
    """To a reader of CommonMark with HTML."""
    tags = set(re.findall(r"<([a-z0-9]+)", READER.render(inert(text))))

    assert tags <= {"p"}, inert(text)


COMMANDS = (
    "::set-output name=go::true", "::stop-commands::x", "::add-mask::GO", "::error file=a.py,line=1::broken", "::endgroup::",
    "::ERROR::x", "  ::debug::x", "word::warning title=x::y", "x ::set-env name=PATH::/tmp", "##[error]x", "##[set-output name=a;]b",
    "##vso[task.setvariable variable=go]true", "##teamcity[blockOpened name='x']", "::notice\n::x",
    "section_start:1560896352:x\r\x1b[0Kheader", "a\rb::group::c",
)  # fmt: skip
# What a runner acts on: actions/runner's ActionCommand, Azure's agent (CommandBase), GitLab's runner log.
READERS = re.compile(
    r"::[a-z-]+(?: [^\n]*)?::|##\[|##vso\[|##teamcity\[|section_start:\d+:[\w.-]+\r\x1b", re.IGNORECASE
)


@pytest.mark.parametrize("text", COMMANDS)
def test_no_command_is_left(text: str) -> None:
    """Neither in a text of several lines nor in one line, wherever it is broken."""
    assert READERS.search(text.replace("\n", " "))
    for shown in (clean(text), one_line(text), clean(text).replace("\n", " ")):
        assert not READERS.search(shown)


@pytest.mark.parametrize(
    "text",
    [
        "c10::Error: out of memory",
        "std::vector<int>",
        "::1",
        "::ffff:10.0.0.1",
        "# a note",
        "## Heading",
        "errors::x",
    ],
)
def test_other_text_stays(text: str) -> None:
    """Names of C++, addresses, headings."""
    assert clean(text) == text
