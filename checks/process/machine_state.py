"""The files that Prelaunch keeps on a machine from one run to the next: the open findings, and what a watch needs for its next round.

They are in one folder, /var/lib/prelaunch unless PRELAUNCH_STATE names another one. Several processes may change the open findings at
the same time (a watch, a gate, a person): each change is made under a lock, and the file is replaced as a whole.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from checks.documents import open_findings
from checks.documents.open_findings import OpenFindings

VARIABLE = "PRELAUNCH_STATE"
FOLDER = Path("/var/lib/prelaunch")
FINDINGS = "open_findings.json"


def folder() -> Path:
    """The folder of this machine's state."""
    return Path(os.environ.get(VARIABLE) or FOLDER)


def read(state: Path) -> OpenFindings:
    """The open findings; none if there is no file. Raises OSError, or DecodeError if it is not completely such a file."""
    try:
        data = (state / FINDINGS).read_bytes()
    except FileNotFoundError:
        return OpenFindings()
    return open_findings.load(data)


def change(
    state: Path, make: Callable[[OpenFindings], OpenFindings], remembered: OpenFindings | None = None
) -> tuple[OpenFindings, OpenFindings]:
    """Replaces the open findings by what `make` makes of them. Returns those before and after. Raises OSError and DecodeError.

    If the file is gone, `remembered` takes its place: nobody closes a finding by deleting a file under a watch.
    """
    state.mkdir(parents=True, exist_ok=True)
    with _locked(state / f".{FINDINGS}.lock"):
        there = (state / FINDINGS).exists()
        before = read(state) if there or remembered is None else remembered
        after = make(before)
        if after != before or not there:
            replace_whole(state / FINDINGS, open_findings.dump(after))
    return before, after


def replace_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Writes a file so that readers see all of it or nothing. It is on disk when this returns. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
