"""Where a job runs: the contract that every launcher keeps.

LaunchError                 the engine refused or failed; carries the remedy
|- LaunchRejected           the request is wrong: nothing was started
|  `- QuotaExceeded         the account may not have so many machines, or not for so long: waiting does not help
|- NoCapacity               the engine has no machines now; try later
`- EngineUnavailable        the engine did not answer; nothing is known
   |- NotSubmitted          nothing was asked for
   `- UnseenJob             the engine has the job, or may have it, and does not show it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from pathlib import Path
from typing import Protocol

from checks.value_types import SPARSE
from tasks.text.redact import redacted, remove_secrets

# Once the training has ended with an error on one node, the others have this long for errors and checkpoints of their own. Then the
# job ends: nothing else would end it before its max runtime, and its machines cost as much as those of a training that learns.
FAILED_NODE_GRACE_S = 30.0
# AWS says that a pool becomes available "some time after" its job completed, and no more than that.
COMING_S = 600.0
# A replaced node of HyperPod is there after 20 to 30 minutes, and the nodes that stayed wait for it.
REPLACED_S = 1800.0
RESUMED_TWICE = "auto_resume and exclude_failed would both start a refused job again. Set one of them."


class LaunchError(Exception):
    """The engine refused or failed. The message says what, to whom, and the remedy; it has no secret of this process."""

    def __init__(self, message: object = "") -> None:
        super().__init__(redacted(str(message)))


class LaunchRejected(LaunchError):
    """The request is wrong; nothing was started."""


class QuotaExceeded(LaunchRejected):
    """The account's own limit is below what was asked for; nothing was started, and waiting does not raise it."""


class NoCapacity(LaunchError):
    """The engine has no machines now; nothing was started."""


class EngineUnavailable(LaunchError):
    """The engine did not answer; whether something runs is not known."""


class NotSubmitted(EngineUnavailable):
    """The engine did not answer before it was asked to start anything: nothing was submitted."""


class UnseenJob(EngineUnavailable):
    """The engine has the job, or may have it, and does not show it: it may run unattended. The message says how to end it."""


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


class NodePlacement(StrEnum):
    """How the training gets the nodes that were checked, on engines whose nodes have names; strongest first."""

    IN_JOB = "in_job"
    PINNED = "pinned"


class Work(Enum):
    """What a job is for. A launcher whose containers have an agent of their own starts that by this word."""

    COMMAND = "command"  # `command`, as it stands
    CHECK = "check"  # the health check
    CONFIRM = "confirm"  # `training`, once every node has shown that it is the machine that was proven
    GATE = "gate"  # checks and then `training` in one job (IN_JOB)

    @property
    def trains(self) -> bool:
        """Whether a training command follows the checks."""
        return self in (Work.CONFIRM, Work.GATE)


class Trouble(Enum):
    """What an engine says of a job that did not end well. None of it condemns hardware."""

    NONE = "none"
    ENDED = "ended"  # its containers ended badly: judge by the report, without one nobody can tell
    CONFIGURATION = "configuration"  # the request is wrong, seen only after it was taken
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"  # the account may not have so many machines: waiting does not help
    SERVICE = "service"  # the engine itself failed
    STOPPED = "stopped"  # by somebody
    MAX_RUNTIME = "max_runtime"


class RetentionState(Enum):
    """Whether an ended job's machines are still kept for the next one."""

    NOTHING = "nothing"  # this engine keeps none
    COMING = "coming"  # not yet known: ask again
    READY = "ready"
    REUSED = "taken"  # by the job in `by`
    GONE = "gone"


@dataclass(frozen=True)
class RetainedMachines:
    """What the engine says about an ended job's machines. `detail` is evidence for people.

    Machines that are not known to be kept (COMING) after `within_s` are not.
    """

    state: RetentionState
    detail: str = ""
    by: str = ""
    within_s: float = COMING_S

    def __post_init__(self) -> None:
        remove_secrets(self, "detail")


class PreflightResult(Enum):
    """The result of one preflight check."""

    OK = "ok"
    WARNING = "warning"  # it may fail, and that is not certain
    WRONG = "wrong"
    NO_CAPACITY = "no capacity"  # nothing is wrong with the request; there are no machines for it now
    UNSEEN = "unseen"  # it could not be checked, most often because a permission is missing


@dataclass(frozen=True)
class PreflightCheck:
    """One thing that preflight verified before anything was started. `remedy` is what to do if it is wrong.

    `unreachable`: the engine itself gave no answer, so that nothing else could be verified either. `key` is the key of the gate file
    that has to be corrected, "" where it is none or not known. `hidden_by` is the subject of the line that keeps this one from
    being looked at.
    """

    subject: str
    result: PreflightResult
    message: str
    remedy: str = ""
    unreachable: bool = field(default=False, metadata=SPARSE)
    key: str = field(default="", metadata=SPARSE)
    hidden_by: str = field(default="", metadata=SPARSE)

    def __post_init__(self) -> None:
        remove_secrets(self, "subject", "message", "remedy")

    @property
    def text(self) -> str:
        """One line for people."""
        message = f"{self.message.rstrip('.')}. {self.remedy}" if self.remedy else self.message
        return f"{self.subject}: {message}"


@dataclass(frozen=True)
class JobSpec:
    """One job, be it health check or training: `command` runs once on every node.

    In the node's environment: PRELAUNCH_NODE (its name), PRELAUNCH_ROSTER (path of the roster file,
    see checks.roster), PRELAUNCH_ATTEMPT (this start's token). `files` are written beside the roster before
    anything starts; in `command`, `{job}` stands for that folder, `{out}` for the folder that `fetch`
    reads, `{python}` for the interpreter.

    `work` says the same as `command` in one word, for launchers that start the container's agent; `training` is what follows
    its `--`. `predecessor` is the ended job whose machines this one is to get (POOLED). Nodes hold `ask_s` for a
    person's answer where the policy asks one. `deadline_s` (0: none) is when the checks of a node have to end: what still
    runs of a CHECK soon after may be ended. `request` and `trainer` are the gate file's [training] request and
    model_trainer, `image` the training's own; `tags` are for the engine's console. It must not get the nodes of `exclude`
    (only launchers with `excludes_failed` are asked so). `script` is the file that the training starts, "" where that is not known.
    """

    name: str
    command: tuple[str, ...]
    nodes: int
    ranks_per_node: int
    max_runtime_s: float
    files: Mapping[str, bytes]
    environment: Mapping[str, str]
    work: Work = Work.COMMAND
    training: tuple[str, ...] = ()
    observe: bool = False
    ask_s: float = 0.0
    deadline_s: float = 0.0
    predecessor: str = ""
    image: str = ""
    request: Mapping[str, object] = field(default_factory=dict)
    trainer: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    instance_type: str = ""
    exclude: tuple[str, ...] = ()
    script: str = ""


@dataclass(frozen=True)
class Request:
    """One thing a person could submit by hand: what it is, the argv or API call, and its environment.

    `script` is the text of the batch script that argv submits, "" where it submits none.
    """

    kind: str
    name: str
    node: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str
    script: str = ""


@dataclass(frozen=True)
class ApiCall:
    """One call of an engine's API: `body` is the whole request, in the API's own words and JSON types."""

    service: str
    operation: str
    name: str
    body: Mapping[str, object]


@dataclass(frozen=True)
class Plan:
    """What `submit` would start. Pure: the same JobSpec gives the same Plan.

    `uploads` are what is written before: address -> bytes. `unverified` are what nobody can find out about this plan before
    it runs, each with the possible consequence.
    """

    job: JobSpec
    requests: tuple[Request | ApiCall, ...]
    uploads: Mapping[str, bytes] = field(default_factory=dict)
    unverified: tuple[PreflightCheck, ...] = ()

    @property
    def processes(self) -> tuple[Request, ...]:
        """The requests that are processes."""
        return tuple(request for request in self.requests if isinstance(request, Request))

    @property
    def calls(self) -> tuple[ApiCall, ...]:
        """The requests that are API calls."""
        return tuple(request for request in self.requests if isinstance(request, ApiCall))


@dataclass(frozen=True)
class JobHandle:
    """A submitted job. `adopted` says that it already bore its name."""

    name: str
    adopted: bool


@dataclass(frozen=True)
class JobStatus:
    """What the engine says. `detail` is evidence, never a verdict: an exit code condemns no hardware.

    `attempt` is the token of the job's current start, "" while it is not known; `earlier` are those of starts before it,
    where the engine starts a job again. `history` is every state it went through, with the engine's own words. `absent` says
    that the engine answered and has no such job: UNKNOWN alone may mean that nobody answered. `machines` is what the engine itself
    says of the machine of each node (`engine_node`, its name for it, and ENGINE_BOOT_ID), where it says anything. `ended` are
    the nodes that were ended because the training had failed on another one: their exit codes say nothing. `lost` are the nodes of
    which the engine says that they were lost or never began, with its words. `detail`, `history` and `lost` lose the secrets of this
    process.
    """

    state: JobState
    detail: str
    attempt: str
    exit_codes: Mapping[str, int]
    trouble: Trouble = Trouble.NONE
    earlier: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    absent: bool = False
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        remove_secrets(self, "detail")
        object.__setattr__(self, "history", tuple(map(redacted, self.history)))
        object.__setattr__(self, "lost", {node: redacted(reason) for node, reason in self.lost.items()})

    @property
    def text(self) -> str:
        """The state and the evidence, in one line for people."""
        return f"{self.state.value}: {self.detail}" if self.detail else self.state.value


@dataclass(frozen=True)
class Delays:
    """How far an engine is behind its nodes, at most, in seconds.

    `begins_s`: from the first word that a job runs to the start of its checks. `reports_s`: until what a node wrote can be
    fetched. `ends_s`: from the end of its nodes to the word that the job ended.
    """

    begins_s: float
    reports_s: float = 0.0
    ends_s: float = 0.0


class Launcher(Protocol):
    """Hands jobs to an engine that exists. All but `submit` are idempotent, and `submit` adopts.

    It may be asked every `poll_s`. A job may take `start_s` until it runs, and the engine may be silent for `silence_s`,
    before it is given up. An ended job's machines are kept for `keeps_s` (None: no such limit). With `excludes_failed` its
    options ask that a refused gate tries other nodes than those that failed. `holds_nodes`: a node whose part of a job has ended stays
    the job's until all have ended.
    """

    placement: Placement
    poll_s: float
    start_s: float
    silence_s: float
    delays: Delays
    keeps_s: float | None = None
    excludes_failed: bool = False
    holds_nodes: bool = True

    @property
    def offers(self) -> Mapping[Placement, float]:
        """The placements that its options allow, each with the seconds for which machines may be kept idle in it."""
        return {Placement.IN_JOB: 0.0, Placement.PINNED: 0.0}

    def node_names(self, nodes: int) -> tuple[str, ...]:
        """The names that the nodes will have, if the launcher can know them before the start; else ()."""
        return ()

    def without(self, nodes: Sequence[str]) -> str:
        """The option of a gate file, KEY=VALUE, with which a gate gets none of these nodes; "" where the engine has none."""
        return ""

    def plan(self, job: JobSpec) -> Plan:
        """What would be submitted. Pure; touches neither disk nor network."""

    def submit(self, plan: Plan) -> JobHandle:
        """Start the job, or return the one that already bears its name. Never starts two. Raises LaunchError."""

    def state(self, name: str) -> JobStatus:
        """The job's state; UNKNOWN if the engine does not know it (`absent`) or does not answer."""

    def fetch(self, name: str, into: Path) -> None:
        """Copy what the job has written so far under `{out}` to `into`, whole files only. Works while it runs."""

    def logs(self, name: str, node: str, last_bytes: int = 65536) -> str:
        """The end of a node's log, "" if there is none."""

    def cancel(self, name: str) -> None:
        """End the job, if it is known, and all that it started; returns when nothing of it is left, no kept machines either."""

    def preflight(self, plans: tuple[Plan, ...]) -> tuple[PreflightCheck, ...]:
        """Find what is wrong before anything is started or billed. Raises nothing; starts nothing."""

    def retained_machines(self, name: str) -> RetainedMachines:
        """Whether the machines of an ended job are kept for the next one, and who took them."""
        return RetainedMachines(RetentionState.NOTHING)

    def release(self, name: str) -> str:
        """Let the machines of an ended job go; returns what was done, "" if none were kept.

        Unknown names are fine. Raises LaunchError if they may still be kept and billed.
        """
        return ""

    def answer(self, name: str, attempt: str, data: bytes) -> None:
        """Hand a person's decision (checks.documents.answer) to the nodes of a job that hold at their gate. Raises LaunchError."""

    def hand_out(self, name: str, report: bytes) -> str:
        """Put the merged report where the engine's other tools look for it; returns the place, "" for none."""
        return ""
