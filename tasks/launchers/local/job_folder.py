"""A local job's folder: what was submitted, who looks after it, and its state. A file is complete or absent."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from checks.exchange import secret_key
from checks.process.tree import alive, start_ticks
from tasks.launchers.base import JobState, JobStatus

LOG = "log"


@dataclass(frozen=True)
class NodeCommand:
    """What one node runs. `environment` is added to the one that the submitter had."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str


@dataclass(frozen=True)
class Submission:
    """job.json. `network` is the name of the nodes' namespaces, "" on loopback.

    `deadline_s` is how long a health check's nodes may run, 0 if nothing but `max_runtime_s` bounds them. Once the training has failed
    on a node, the others may run for `failed_node_grace_s`, and for as long as they like where that is None. `withheld`
    names the variables whose values look secret: they reach the shepherd in its environment and
    never a file. `container_engine` is the program that runs the nodes' containers, "" where they are processes.
    """

    name: str
    nodes: tuple[NodeCommand, ...]
    max_runtime_s: float
    grace_s: float
    log_bytes: int
    network: str
    subnet: str
    prepared: bool
    withheld: tuple[str, ...]
    deadline_s: float = 0.0
    container_engine: str = ""
    container_label: str = ""
    failed_node_grace_s: float | None = None


@dataclass(frozen=True)
class Keepers:
    """shepherd.json: the two processes that look after the job, as (pid, start ticks), and their token."""

    guard: tuple[int, int]
    shepherd: tuple[int, int]
    attempt: str
    boot_id: str

    def alive(self) -> bool:
        """Whether one of the two processes still runs."""
        return self.boot_id == boot_id() and any(alive(*keeper) for keeper in (self.guard, self.shepherd))


@dataclass(frozen=True)
class Progress:
    """state.json. `network` says which namespaces and subnet the nodes have, empty on loopback; `ended` is as in JobStatus."""

    state: JobState
    detail: str
    attempt: str = ""
    exit_codes: Mapping[str, int] = field(default_factory=dict)
    network: Mapping[str, str] = field(default_factory=dict)
    ended: tuple[str, ...] = ()

    def status(self) -> JobStatus:
        """The progress as a JobStatus."""
        return JobStatus(self.state, self.detail, self.attempt, self.exit_codes, ended=self.ended)


class JobFolder:
    """root/jobs/<name>. Writers raise OSError; readers say None for what is absent or no longer whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out = path / "out"
        self.nodes = path / "nodes"
        self.code = path / "code"
        self.roster = path / "roster.json"
        self.hosts = path / "hosts"
        self.shepherd_log = path / "shepherd.log"
        self.life_lock = path / "life"

    def key(self, node: str) -> Path:
        """Where a node finds the key of the exchange."""
        return self.nodes / node / secret_key.FILE

    def remove_keys(self) -> None:
        """Remove the keys after the job's end. Raises OSError."""
        for path in self.nodes.glob(f"*/{secret_key.FILE}"):
            secret_key.remove(path)

    def exists(self) -> bool:
        """Whether the job was submitted."""
        return (self.path / "job.json").is_file()

    def submission(self) -> Submission | None:
        """What was submitted."""
        try:
            table = _table(self.path / "job.json")
            nodes = tuple(NodeCommand(**{**node, "argv": tuple(node["argv"])}) for node in table.pop("nodes"))
            return Submission(nodes=nodes, withheld=tuple(table.pop("withheld")), **table)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write_submission(self, submission: Submission) -> None:
        """Write the submission before the folder gets its name."""
        write_whole(self.path / "job.json", _json(asdict(submission)))

    def keepers(self) -> Keepers | None:
        """The processes that look after the job; None if they never started."""
        try:
            table = _table(self.path / "shepherd.json")
            guard, shepherd = (_int_pair(table.pop(key)) for key in ("guard", "shepherd"))
            return Keepers(guard, shepherd, **table)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write_keepers(self, guard: int, shepherd: int, attempt: str) -> None:
        """Write the keepers; the shepherd does it before it starts anything."""
        pairs = {"guard": (guard, start_ticks(guard)), "shepherd": (shepherd, start_ticks(shepherd))}
        write_whole(self.path / "shepherd.json", _json({**pairs, "attempt": attempt, "boot_id": boot_id()}))

    def progress(self) -> Progress | None:
        """The job's progress."""
        try:
            table = _table(self.path / "state.json")
            return Progress(JobState(table.pop("state")), ended=tuple(table.pop("ended", ())), **table)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write_progress(self, progress: Progress) -> None:
        """Write the job's progress, at each change."""
        write_whole(self.path / "state.json", _json({**asdict(progress), "state": progress.state.value}))

    def final(self) -> bool:
        """Whether the job's state can no longer change."""
        progress = self.progress()
        return progress is not None and progress.state.final

    @contextmanager
    def life(self) -> Iterator[bool]:
        """True for the one process (and its forks) that may be the job's shepherd, until they end."""
        with open(self.life_lock, "rb") as file:
            yield try_lock(file.fileno())


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file now; returns whether that worked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_whole(path: Path, data: bytes) -> None:
    """Readers see the old file or the new one, never a part. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def boot_id() -> str:
    """This boot of this machine: process numbers mean nothing in another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _table(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises OSError, ValueError, TypeError."""
    table = json.loads(path.read_bytes())
    if not isinstance(table, dict):
        raise TypeError(f"{path} holds no object")
    return table


def _int_pair(value: object) -> tuple[int, int]:
    """A list of two numbers from JSON. Raises TypeError or ValueError."""
    if not isinstance(value, list):
        raise TypeError(value)
    first, second = value
    return int(first), int(second)


def _json(table: Mapping[str, object]) -> bytes:
    return json.dumps(table, indent=1, sort_keys=True).encode() + b"\n"
