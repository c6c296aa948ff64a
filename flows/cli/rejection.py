"""What ends a command before its answer, and its exit code: an input that is refused (2), or a store or a service that fails (5).

A verb lets such errors pass, and `main` reports them here: one line on stderr, and the document if JSON was asked for.
"""

from __future__ import annotations

from checks.command_line import InputError
from checks.exit_codes import Exit
from flows.cli.output import json_text, rejection, report_failure, say_rejected, write_stdout
from tasks.gate.outcome import rejection_kind
from tasks.launchers.base import LaunchError
from tasks.store.base import StoreError, StoreMissing


def report_error(form: str, error: Exception) -> int | None:
    """Report the error; returns the exit code, or None for an error that is none of an input, of a store and of a service."""
    if isinstance(error, StoreError):
        missing = InputError("store", str(error))
        if not isinstance(error, StoreMissing):
            return report_failure(form, str(missing), Exit.NO_CAPACITY)
        return reject(form, missing)
    return reject(form, error) if isinstance(error, (InputError, LaunchError)) else None


def reject(form: str, error: Exception) -> int:
    """Report why nothing was started, in a workflow of GitHub at the line of the file; returns the exit code."""
    if form == "json" and isinstance(error, InputError):
        fields = (error.file, error.path, error.message, error.nearest)
        write_stdout(json_text(rejection(*fields, line=error.line, more=error.more)))
    elif form == "json":
        write_stdout(json_text(rejection(None, None, str(error), category=rejection_kind(error))))
    say_rejected(error)
    return int(Exit.REJECTED)
