"""A local job's folder: what was submitted, who looks after it, and its state. A file is complete or absent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.exchange import secret_key
from checks.process.machine_state import try_lock
from checks.process.tree import alive, start_ticks
from checks.process.whole_file import write_whole
from checks.value_types import DecodeError
from tasks.launchers.base import JobStatus, Request

LOG = "log"
FILE_BYTES = 1 << 24
T = TypeVar("T")


@dataclass(frozen=True)
class Submission:
    """job.json. `network` is the name of the nodes' namespaces, "" on loopback.

    `deadline_s` is how long a health check's nodes may run, 0 if nothing but `max_runtime_s` bounds them. Once the training has failed
    on a node, the others may run for `failed_node_grace_s`, and for as long as they like where that is None. `withheld`
    names the variables whose values look secret: they reach the shepherd in its environment and
    never a file. `container_engine` is the program that runs the nodes' containers, "" where they are processes.
    """

    name: str
    nodes: tuple[Request, ...]
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
        return self.boot_id == boot_id() and any(alive(*process) for process in (self.guard, self.shepherd))


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
        return _read(Submission, self.path / "job.json")

    def write_submission(self, submission: Submission) -> None:
        """Write the submission before the folder gets its name."""
        write_whole(self.path / "job.json", dump_plain(submission))

    def keepers(self) -> Keepers | None:
        """The processes that look after the job; None if they never started."""
        return _read(Keepers, self.path / "shepherd.json")

    def write_keepers(self, guard: int, shepherd: int, attempt: str) -> None:
        """Write the keepers; the shepherd does it before it starts anything."""
        both = ((guard, start_ticks(guard) or 0), (shepherd, start_ticks(shepherd) or 0))
        write_whole(self.path / "shepherd.json", dump_plain(Keepers(*both, attempt, boot_id())))

    def status(self) -> JobStatus | None:
        """The job's state."""
        return _read(JobStatus, self.path / "state.json")

    def write_status(self, status: JobStatus) -> None:
        """Write the job's state, at each change."""
        write_whole(self.path / "state.json", dump_plain(status))

    def final(self) -> bool:
        """Whether the job's state can no longer change."""
        status = self.status()
        return status is not None and status.state.final

    @contextmanager
    def life(self) -> Iterator[bool]:
        """True for the one process (and its forks) that may be the job's shepherd, until they end."""
        with open(self.life_lock, "rb") as file:
            yield try_lock(file)


def boot_id() -> str:
    """The id names the current boot of the machine. Process numbers mean nothing in another boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _read(document: type[T], path: Path) -> T | None:
    try:
        return decode(document, parse_json(path.read_bytes(), FILE_BYTES))
    except (OSError, DecodeError):
        return None
