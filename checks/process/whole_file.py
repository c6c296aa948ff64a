"""Writes files that readers see as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes, mode: int | None = None) -> None:
    """Writes a file so that readers see all of it or nothing. It is on disk when this returns. Raises OSError.

    Processes of several machines may write the same file of a folder that they share, and may have the same number there. `mode` are
    its permissions; None leaves them to the umask.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
