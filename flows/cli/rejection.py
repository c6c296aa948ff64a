"""An input that is refused before anything starts: one line on stderr, the document if JSON was asked for, and exit code 2."""

from __future__ import annotations

from checks.exit_codes import Exit
from flows.cli.output import json_text, rejection, write_stderr, write_stdout
from tasks.reports.command_line import OutputError
from tasks.reports.read import InputError


def report_rejection(form: str, error: InputError | OutputError) -> int:
    """Report the rejection; returns exit code 2."""
    path, near = (error.path, error.nearest) if isinstance(error, InputError) else (None, None)
    if form == "json":
        write_stdout(json_text(rejection(error.file, path, error.message, near)))
    hint = f" Did you mean {near!r}?" if near else ""
    write_stderr(f"prelaunch: {error}{hint}")
    return int(Exit.REJECTED)
