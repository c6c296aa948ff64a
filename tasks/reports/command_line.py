"""The ways in which a command ends, and files that are written completely or not at all.

OutputError         a file that was asked for cannot be written
StdoutUnwritable    the file that stdout leads to takes no more
Terminated          SIGTERM came
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from checks.command_line import InputError


class OutputError(InputError):
    """A file that was asked for cannot be written."""


def write_file(path: Path, text: str | None, mode: int = 0o644) -> None:
    """Write the whole file or nothing; None only tries whether it could be written. A file that is there keeps its owner. Raises
    OutputError.
    """
    try:
        if path.exists() and not path.is_file():
            if path.is_dir():
                raise OutputError(path, "it is a folder. Name a file.")
            if text is not None:
                path.write_text(text, encoding="utf-8", errors="backslashreplace")
            return
        _replace(path, text, mode)
    except OSError as error:
        remedy = "Choose another place." if path.parent.exists() else f"Make the folder {path.parent} first."
        raise OutputError(path, f"it cannot be written ({error.strerror}). {remedy}") from error


def _replace(path: Path, text: str | None, mode: int) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            if text is not None:
                file.write(text.encode("utf-8", "backslashreplace"))
                os.fchmod(file.fileno(), mode)
                with suppress(FileNotFoundError, PermissionError):
                    owner = path.stat()
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        if text is not None:
            os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


class StdoutUnwritable(OSError):
    """The file that stdout leads to takes no more. The message says so, and where the result is."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came. The process ends as it does after Ctrl-C, with an exit code of its own."""
