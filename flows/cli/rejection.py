"""What ends a command before its answer, and its exit code: an input that is refused (2), or a store or a service that fails (5).

A verb lets such errors pass, and `main` reports them here: one line on stderr, and the document if JSON was asked for.
"""

from __future__ import annotations

from checks.exit_codes import Exit
from flows.cli.output import json_text, rejection, say_rejected, write_stderr, write_stdout
from tasks.gate.outcome import rejection_kind
from tasks.gate_file.read import GateFileError
from tasks.reports.command_line import OutputError
from tasks.reports.read import InputError
from tasks.store.base import StoreError, StoreMissing

ENDS = (".", "?", "!", ".)")


def report_error(form: str, error: Exception) -> int | None:
    """Report the error; returns the exit code, or None for an error that is none of an input, of a store and of a service."""
    if isinstance(error, StoreError):
        code = report_error(form, InputError("store", str(error)))
        return code if isinstance(error, StoreMissing) else int(Exit.NO_CAPACITY)
    if isinstance(error, GateFileError):
        error = InputError(error.file, error.message, error.path, error.nearest)
    if not isinstance(error, (InputError, OutputError)):
        return None
    path, near = (error.path, error.nearest) if isinstance(error, InputError) else (None, None)
    if form == "json":
        write_stdout(json_text(rejection(error.file, path, error.message, near)))
    message = str(error)
    if near:
        message = f"{message if message.endswith(ENDS) else f'{message}.'} Did you mean {near!r}?"
    write_stderr(f"prelaunch: {message}")
    return int(Exit.REJECTED)


def reject_gate(form: str, error: Exception) -> int:
    """Report why no gate was started, in a workflow of GitHub at the line of the file; returns the exit code."""
    if form == "json" and isinstance(error, GateFileError):
        write_stdout(
            json_text(rejection(error.file, error.path, error.message, error.nearest, line=error.line))
        )
    elif form == "json":
        write_stdout(json_text(rejection(None, None, str(error), kind=rejection_kind(error))))
    say_rejected(error)
    return int(Exit.REJECTED)
