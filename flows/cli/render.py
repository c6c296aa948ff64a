"""`prelaunch render REPORT`: shows a gate's own verdict, or that of judge, as pages for people; Markdown on stdout by default."""

from __future__ import annotations

import argparse

from checks.exit_codes import Exit
from flows.cli import judge
from flows.cli.output import write_stderr
from tasks.gate.record.end import with_kept_end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """As judge, of one report, with Markdown as stdout's default unless --html asks for a page."""
    parser.description = (
        "Only formats: writes the verdict that a gate kept beside its report as HTML, Markdown or JUnit; without one, or with "
        "--policy or --baseline, the verdict that judge would print. The page begins with how the gate ended, "
        "where its folder says that. "
        "With --html and without --format, nothing is printed on stdout."
    )
    judge.add_arguments(parser, "markdown")
    parser.set_defaults(format=None, as_kept=with_kept_end)


def run(arguments: argparse.Namespace) -> int:
    """Render; the exit code says what the verdict is, so that a page cannot hide a refusal."""
    if arguments.format is None:
        arguments.format = "markdown" if arguments.html is None else judge.NOTHING
    code = judge.run(arguments)
    if code != Exit.REJECTED:
        for path in (arguments.junit, arguments.summary, arguments.html):
            if path is not None:
                write_stderr(f"wrote {path}")
    return code
