"""An input that is refused before anything starts: one line on stderr, the document if JSON was asked for, and exit code 2."""

from __future__ import annotations

from checks.exit_codes import Exit
from flows.cli.output import json_text, rejection, write_stderr, write_stdout
from tasks.reports.command_line import OutputError
from tasks.reports.read import InputError

ENDS = (".", "?", "!", ".)")


def report_rejection(form: str, error: InputError | OutputError) -> int:
    """Report the rejection; returns exit code 2."""
    path, near = (error.path, error.nearest) if isinstance(error, InputError) else (None, None)
    if form == "json":
        write_stdout(json_text(rejection(error.file, path, error.message, near)))
    said = str(error)
    if near:
        said = f"{said if said.endswith(ENDS) else f'{said}.'} Did you mean {near!r}?"
    write_stderr(f"prelaunch: {said}")
    return int(Exit.REJECTED)
