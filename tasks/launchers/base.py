"""Where a job runs: the contract that every launcher keeps.

LaunchError                 the engine refused or failed; carries the remedy
|- LaunchRejected           the request is wrong: nothing was started
|- NoCapacity               the engine has no machines now; try later
`- EngineUnavailable        the engine did not answer; nothing is known
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol


class LaunchError(Exception):
    """The engine refused or failed. The message says what, to whom, and the remedy."""


class LaunchRejected(LaunchError):
    """The request is wrong; nothing was started."""


class NoCapacity(LaunchError):
    """The engine has no machines now; nothing was started."""


class EngineUnavailable(LaunchError):
    """The engine did not answer; whether something runs is not known."""


class JobState(Enum):
    """A job's state in our words. UNKNOWN is never final and has a deadline in the caller."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def final(self) -> bool:
        """Whether the job can no longer change."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


class Placement(Enum):
    """How strongly a launcher can hold the training job to the machines that were checked."""

    IN_JOB = "in_job"
    PINNED = "pinned"
    POOLED = "pooled"
    NONE = "none"


@dataclass(frozen=True)
class JobSpec:
    """One job, health check or training alike: `command` runs once on every node.

    In the node's environment: PRELAUNCH_NODE (its name), PRELAUNCH_ROSTER (path of the roster file,
    see checks.roster), PRELAUNCH_ATTEMPT (this start's token). `files` are written beside the roster before
    anything starts; in `command`, `{job}` stands for that folder, `{out}` for the folder that `fetch`
    reads, `{python}` for the interpreter.
    """

    name: str
    command: tuple[str, ...]
    nodes: int
    ranks_per_node: int
    max_runtime_s: float
    files: Mapping[str, bytes]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Request:
    """One thing a person could submit by hand: what it is, the argv or API call, and its environment."""

    kind: str
    name: str
    node: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str


@dataclass(frozen=True)
class Plan:
    """What `submit` would start. Pure: the same JobSpec gives the same Plan."""

    job: JobSpec
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class JobHandle:
    """A submitted job. `adopted` says that it already bore its name."""

    name: str
    adopted: bool


@dataclass(frozen=True)
class JobStatus:
    """What the engine says. `detail` is evidence, never a verdict: an exit code condemns no hardware."""

    state: JobState
    detail: str
    attempt: str
    exit_codes: Mapping[str, int]


class Launcher(Protocol):
    """Hands jobs to an engine that exists. All but `submit` are idempotent, and `submit` adopts."""

    placement: Placement

    def node_names(self, nodes: int) -> tuple[str, ...]:
        """The names the nodes will bear, where the launcher can know them before the start; else ()."""
        ...

    def plan(self, job: JobSpec) -> Plan:
        """What would be submitted. Pure; touches neither disk nor network."""
        ...

    def submit(self, plan: Plan) -> JobHandle:
        """Start the job, or return the one that already bears its name. Never starts two. Raises LaunchError."""
        ...

    def state(self, name: str) -> JobStatus:
        """The job's state; UNKNOWN where the engine does not know it or does not answer."""
        ...

    def fetch(self, name: str, into: Path) -> None:
        """Copy what the job has written so far under `{out}` to `into`, whole files only. Works while it runs."""
        ...

    def logs(self, name: str, node: str, last_bytes: int = 65536) -> str:
        """The end of a node's log, "" where there is none."""
        ...

    def cancel(self, name: str) -> None:
        """End the job and everything it started; returns when nothing of it is left. Unknown names are fine."""
        ...
