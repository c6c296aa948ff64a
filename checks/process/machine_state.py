"""The files that Prelaunch keeps on a machine from one run to the next: the open findings, what a watch needs for its next round, the
record of its unbroken rounds, and which gates began here.

They are in one folder, /var/lib/prelaunch unless PRELAUNCH_STATE names another one. Several processes may change the open findings at
the same time (a watch, a gate, a person): each change is made under a lock, and the file is replaced as a whole.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from checks.documents import certificates, open_findings
from checks.documents.certificates import MOST_GATES, Gates, MachineState, WatchRecord
from checks.documents.open_findings import OpenFindings
from checks.process.whole_file import write_whole

VARIABLE = "PRELAUNCH_STATE"
FOLDER = Path("/var/lib/prelaunch")
FINDINGS = "open_findings.json"
RECORD, GATES = "watch_record.json", "gates.json"
# Gates of other users read the file, too.
READABLE = 0o644
# A change takes milliseconds.
LOCK_S, LOOK_S = 5.0, 0.05


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
    """Replaces the open findings by what `make` makes of them. Returns those before and after. Raises OSError (TimeoutError if
    another process keeps the lock) and DecodeError.

    If the file is gone, `remembered` takes its place: nobody closes a finding by deleting a file under a watch.
    """
    state.mkdir(parents=True, exist_ok=True)
    with _locked(state / f".{FINDINGS}.lock"):
        exists = (state / FINDINGS).exists()
        before = read(state) if exists or remembered is None else remembered
        after = make(before)
        if after != before or not exists:
            write_whole(state / FINDINGS, open_findings.dump(after), READABLE)
    return before, after


def keep_record(state: Path, record: WatchRecord | None) -> None:
    """Replaces the record of the watch; None removes it. Raises OSError."""
    if record is None:
        (state / RECORD).unlink(missing_ok=True)
    else:
        write_whole(state / RECORD, certificates.dump(record).encode(), READABLE)


def begin_gate(state: Path, gate_id: str) -> MachineState | None:
    """Notes that this gate begins here, and returns what the machine knew before; None on a machine that no watch ever looked at.
    Raises OSError and DecodeError: then nothing is known, and the gate measures everything.
    """
    if not any((state / name).exists() for name in (FINDINGS, RECORD, GATES)):
        return None
    with _locked(state / f".{GATES}.lock"):
        before = _read_gates(state)
        newest = (*before.gates, *((gate_id,) if before.gates[-1:] != (gate_id,) else ()))[-MOST_GATES:]
        write_whole(state / GATES, certificates.dump(Gates(gates=newest)).encode(), READABLE)
    return with_record(state, before.gates)


def with_record(state: Path, gates: tuple[str, ...]) -> MachineState:
    """What the machine knows now, with these gates. Raises OSError and DecodeError."""
    try:
        record = certificates.load(WatchRecord, (state / RECORD).read_bytes())
    except FileNotFoundError:
        record = None
    return MachineState(time.time(), boot_s(), record, gates)


def _read_gates(state: Path) -> Gates:
    try:
        return certificates.load(Gates, (state / GATES).read_bytes())
    except FileNotFoundError:
        return Gates()


def boot_s() -> float:
    """Seconds since this machine's boot, also those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The lock; TimeoutError if another process keeps it, such as one that was stopped while it had it."""
    with open(path, "ab") as file:
        if not lock_within(file, LOCK_S, LOOK_S):
            message = f"another process has kept its lock for {LOCK_S:g} s"
            raise TimeoutError(errno.ETIMEDOUT, message, str(path))
        yield


def lock_within(file: IO[bytes], seconds: float, again_s: float) -> bool:
    """Take the lock of an open file; returns whether that worked in time."""
    ends_at = time.monotonic() + seconds
    while not try_lock(file):
        if time.monotonic() > ends_at:
            return False
        time.sleep(again_s)
    return True


def try_lock(file: IO[bytes]) -> bool:
    """Take the lock of an open file now; returns whether that worked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
