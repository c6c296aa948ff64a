"""Records that outlive the container in any case: the agent's own record, and SageMaker's failure file."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from checks.process.whole_file import write_whole
from checks.runner.journal import now
from container.agent.sagemaker import FAILURE_CHARACTERS

# JSON writes one character in up to 6 bytes, and a character beyond the first plane in 12.
TERMINATION_CHARACTERS = 300


@dataclass(frozen=True)
class ExitRecord:
    """One run of one agent. `exit_code` is null while it runs, `restarts` how often Slurm had started the job again ("" for none)."""

    gate_id: str
    attempt: str
    node: str
    started_at: str
    ended_at: str | None = None
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    missing: tuple[str, ...] = ()
    restarts: str = ""


def write_record(folder: Path, record: ExitRecord) -> None:
    """Keep folder/agent/<node>.json current. If the disk refuses it, that is written to stderr."""
    data = json.dumps(dataclasses.asdict(record), indent=1, sort_keys=True).encode() + b"\n"
    _write(folder / "agent" / f"{record.node}.json", data)


def ended(record: ExitRecord, code: int, signal: str, reason: str) -> ExitRecord:
    """The record of a run that has ended."""
    return dataclasses.replace(record, ended_at=now(), exit_code=code, signal=signal, reason=reason)


def write_reason(folder: Path, node: str, reason: str) -> None:
    """Write why this host's checks did not end in GO beside the reports, where the gate in front of a command writes it, too."""
    _write(folder / "failure" / node, reason.encode("utf-8", "replace") + b"\n")


def write_failure(root: Path, reason: str) -> None:
    """Write the file whose first characters SageMaker shows as the job's FailureReason."""
    _write(failure_path(root), reason[:FAILURE_CHARACTERS].encode("utf-8", "replace"))


def write_termination(path: str, record: ExitRecord) -> None:
    """Write the end of this run as one JSON object to the file of which Kubernetes keeps the text ("" writes nothing).

    It keeps at most 4096 bytes ("Determine the Reason for Pod Failure"), and the file cannot be replaced: it is a mount.
    """
    if not path:
        return
    table = {"attempt": record.attempt, "node": record.node, "exit_code": record.exit_code}
    reason = (record.reason.splitlines() or [""])[0][:TERMINATION_CHARACTERS]
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            json.dump({**table, "reason": reason}, file)
    except OSError as error:
        say(f"{path} cannot be written: {error.strerror or error}")


def failure_path(root: Path) -> Path:
    """The path of SageMaker's failure file."""
    return root / "output" / "failure"


def say(message: str) -> None:
    """Write a line to stderr, which is the container's log."""
    print(f"{time.strftime('%H:%M:%S')} prelaunch agent: {message}", file=sys.stderr, flush=True)


def _write(path: Path, data: bytes) -> None:
    try:
        write_whole(path, data)
    except OSError as error:
        say(f"{path} cannot be written: {error.strerror or error}")
