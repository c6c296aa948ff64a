"""What ends a command before its answer: an input that is refused, with exit code 2, or a store that fails, with 5. One line on
stderr, and the document if JSON was asked for.
"""

from __future__ import annotations

from checks.exit_codes import Exit
from flows.cli.output import json_text, rejection, write_stderr, write_stdout
from tasks.reports.command_line import OutputError
from tasks.reports.read import InputError
from tasks.store.base import StoreError, StoreMissing

ENDS = (".", "?", "!", ".)")


def report_rejection(form: str, error: InputError | OutputError | StoreError) -> int:
    """Report the rejection; returns the exit code: of a store 5, and 2 if there is no such bucket."""
    if isinstance(error, StoreError):
        code = report_rejection(form, InputError("store", str(error)))
        return code if isinstance(error, StoreMissing) else int(Exit.NO_CAPACITY)
    path, near = (error.path, error.nearest) if isinstance(error, InputError) else (None, None)
    if form == "json":
        write_stdout(json_text(rejection(error.file, path, error.message, near)))
    said = str(error)
    if near:
        said = f"{said if said.endswith(ENDS) else f'{said}.'} Did you mean {near!r}?"
    write_stderr(f"prelaunch: {said}")
    return int(Exit.REJECTED)
