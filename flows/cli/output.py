"""What every command prints and returns: formats, files that are written as well, exit codes, rejections.

With --format json stdout has one JSON document for every exit code; everything else goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from checks.command_line import InputError
from checks.exit_codes import Exit, RejectionKind
from checks.process.stderr import silence
from tasks.reports.command_line import OutputError, StdoutUnwritable, write_file
from tasks.text.inert import one_line

if TYPE_CHECKING:  # --help would wait for the import of them
    from checks.model import Report, Verdict
    from tasks.render.context import VerdictContext
    from tasks.render.rejected import Rejection

# The content of a page until there is a verdict. A process that is killed leaves it behind.
UNENDED = "the gate has not finished, or was killed"
FORMATS = ("text", "json", "markdown", "junit")


def rejection(
    file: str | Path | None,
    path: str | None,
    message: str,
    nearest: str | None = None,
    category: RejectionKind = RejectionKind.REQUEST,
    line: int | None = None,
    more: Sequence[InputError] = (),
) -> dict[str, object]:
    """An input that was refused before anything started: {"error": {kind, file, path, line, message, nearest}}; what else is wrong
    is in `more`.
    """
    where = None if file is None else str(file)
    error = {"file": where, "path": path or None, "line": line, "message": message, "nearest": nearest}
    others = [rejection(e.file, e.path, e.message, e.nearest, line=e.line)["error"] for e in more]
    return {"error": {"kind": category.value, **error, **({"more": others} if others else {})}}


def json_text(document: Mapping[str, object], by_name: bool = True) -> str:
    """One JSON document, ASCII, the same bytes for the same content; its keys by their names, or in their own order."""
    return json.dumps(document, indent=2, sort_keys=by_name, allow_nan=False) + "\n"


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """--format for stdout; --junit, --summary and --html for files beside it."""
    parser.add_argument("--format", choices=FORMATS, default="text", help="format of stdout (default text)")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write JUnit XML")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="also write a Markdown summary")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the HTML report")


def add_logs(parser: argparse.ArgumentParser) -> None:
    """--logs FILE."""
    text = "if the exit code is not 0, also write the last lines of the training's logs, or of the checks' if nothing was trained"
    parser.add_argument("--logs", type=Path, metavar="FILE", help=text)


def write_logs(arguments: argparse.Namespace, address: str, gate_id: str, training: str, code: int) -> bool:
    """Write what --logs asks for, of a gate that did not end well; nothing if no log was kept. A failure is said on stderr. Returns
    whether something was written.
    """
    if getattr(arguments, "logs", None) is None or code == Exit.GO or not gate_id:
        return False
    from tasks.gate.outcome import kept_logs
    from tasks.store.base import StoreError
    from tasks.store.open import open_store

    try:
        if text := kept_logs(open_store(address), gate_id, training):
            write_file(arguments.logs, text)
        return bool(text)
    except (OutputError, StoreError) as error:
        write_stderr(f"prelaunch: the logs could not be written to {arguments.logs}: {error}")
        return False


def logs_note(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Where the log of a training that failed will be read, if a file of it was asked for: a machine's paths may soon be gone."""
    path = getattr(arguments, "logs", None)
    return () if path is None else (f"The ends of its logs are in {path.name}, beside the summary.",)


def require_writable(arguments: argparse.Namespace) -> None:
    """Raise OutputError now for a file that could not be written later."""
    for path in (arguments.junit, arguments.summary, arguments.html, getattr(arguments, "logs", None)):
        if path is not None:
            write_file(path, None)


def text_of(report: Report | None, verdict: Verdict, name: str, form: str, context: VerdictContext) -> str:
    """The verdict in one of FORMATS; for "text" wide and coloured as stdout is."""
    if form == "json":
        from tasks.render.findings import verdict_json
        from tasks.render.headline import run_json

        return json_text({**verdict_json(verdict), **run_json(report)})
    if form == "markdown":
        from tasks.render.markdown import markdown

        return markdown(report, verdict, name, context)
    if form == "junit":
        from tasks.render.junit import junit

        return junit(report, verdict, name, context)
    from tasks.render.terminal import terminal

    return terminal(report, verdict, name, stdout_width(), stdout_colour(), context)


def write_files(
    arguments: argparse.Namespace, report: Report | None, verdict: Verdict, name: str, context: VerdictContext
) -> None:
    """Write what --junit, --summary and --html ask for. Raises OutputError."""
    if arguments.junit is not None:
        write_file(arguments.junit, text_of(report, verdict, name, "junit", context))
    if arguments.summary is not None:
        write_file(arguments.summary, text_of(report, verdict, name, "markdown", context))
    if arguments.html is not None:
        from tasks.render.html import html

        write_file(arguments.html, html(report, verdict, name, context))


def write_unjudged(arguments: argparse.Namespace, name: str, reason: str, line: str = "") -> None:
    """Write the files that were asked for if nothing was judged, so that those of an earlier run are not taken for this one's.

    `line` is the first line, if it is another than that of a verdict without evidence.
    """
    if any((arguments.junit, arguments.summary, arguments.html)):
        from tasks.render.context import VerdictContext
        from tasks.reports.read import unjudged_verdict

        try:
            write_files(arguments, None, unjudged_verdict(reason), name, VerdictContext(first_line=line))
        except OutputError as error:
            write_stderr(f"prelaunch: {error}")


def write_rejected(
    arguments: argparse.Namespace, name: str, error: Exception | str, category: RejectionKind | None = None
) -> None:
    """The files that were asked for are written for a request that was rejected before anything started. They say that, and where."""
    from tasks.render import rejected

    _write_notices(arguments, name, rejected.from_error(error, category))


def write_cancelled(arguments: argparse.Namespace, name: str, reason: str, elsewhere: bool = False) -> None:
    """The files that were asked for are written for a gate that was cancelled before there was a verdict. With `elsewhere` nobody here
    knows whether there is one.
    """
    from tasks.render import rejected

    _write_notices(arguments, name, rejected.cancelled(reason, elsewhere))


def _write_notices(arguments: argparse.Namespace, name: str, notice: Rejection) -> None:
    from tasks.render import rejected

    try:
        for path, form in (
            (arguments.junit, rejected.junit),
            (arguments.summary, rejected.markdown),
            (arguments.html, rejected.html),
        ):
            if path is not None:
                write_file(path, form(notice, name))
    except OutputError as problem:
        write_stderr(f"prelaunch: {problem}")


def say_rejected(error: Exception) -> None:
    """Say a rejection in one line on stderr; in a workflow of GitHub at its line of the file, and there the log shows the text of the
    annotation, so that it is said once.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        write_stderr(f"prelaunch: {error}")
        return
    from tasks.render import rejected

    for each in (error, *(error.more if isinstance(error, InputError) else ())):
        write_stderr(rejected.annotation(rejected.from_error(each), os.environ.get("GITHUB_WORKSPACE", "")))


def annotate_end(line: str, code: int, notes: Sequence[str] = (), clean: bool = True) -> None:
    """Show the first line about a gate's end, and `notes` below it, in a workflow of GitHub: an error unless it was a go; a warning
    for a go that is not `clean`, because its verdict has warnings.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true" or (code == Exit.GO and clean):
        return
    from tasks.render import rejected

    write_stderr(rejected.end_annotation(line, notes, is_error=code != Exit.GO))


def write_remedy(verdict: Verdict, context: VerdictContext) -> None:
    """Say on stderr what to do about the first finding: in the log of a pipeline stdout is a file."""
    from tasks.render.context import COMMAND, advice
    from tasks.render.findings import gathered

    for item in gathered(verdict.findings)[:1]:
        remedy, typed = advice(item, verdict, context.site)
        for line in ([f"Do: {one_line(remedy)}"] if remedy else []) + [
            f"$ {one_line(c, COMMAND)}" for c in typed
        ]:
            write_stderr(f"prelaunch: {line}")


def write_result(form: str, document: Mapping[str, object], text: str) -> None:
    """Write the result to stdout: the document with --format json, else the text."""
    write_stdout(json_text(document) if form == "json" else text)


def report_failure(form: str, message: str, code: Exit) -> int:
    """Report that there is no answer, and why; returns the exit code."""
    if form == "json":
        write_stdout(json_text(rejection(None, None, message)))
    write_stderr(f"prelaunch: {message}")
    return int(code)


_WRITTEN: list[int] = []


def begin_output() -> None:
    """Record that nothing was written to stdout yet."""
    _WRITTEN.clear()


def stdout_has_something() -> bool:
    """Whether a result was written already: there is one document, and no second."""
    return bool(_WRITTEN)


def write_stdout(text: str) -> None:
    """Write results. It is no error of ours if the reader went away."""
    _WRITTEN.append(len(text))
    try:
        data = text.encode(sys.stdout.encoding or "utf-8", "backslashreplace")
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        quiet_stdout()
    except OSError as error:
        quiet_stdout()
        raise StdoutUnwritable(
            f"the result cannot be written to stdout: {error.strerror}. A gate's verdict is in its store: prelaunch fleet store list"
        ) from error


def write_stderr(text: str) -> None:
    """Write one line for people."""
    try:
        encoding = sys.stderr.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)
    except (OSError, ValueError):  # nobody listens, or the disk behind it is full
        silence()


def quiet_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not fail on a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdout_width() -> int:
    """The terminal's width, within 60 and 200; 120 for a file or a pipe."""
    if not sys.stdout.isatty():
        return 120
    return max(60, min(200, os.get_terminal_size(sys.stdout.fileno()).columns or 80))


def stdout_colour() -> bool:
    """Whether stdout is a terminal that wants colour."""
    return wants_colour(sys.stdout)


def wants_colour(stream: TextIO) -> bool:
    """Whether it is a terminal that wants colour (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
