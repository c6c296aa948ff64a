"""The nouns: what was declared, planned, observed, found and concluded. Pure data; everything is frozen.

A *subject* is who an observation is about: "node-0" (a node), "node-0/rank-3" (a global rank on its node)
or "cluster". An array metric holds one value a device, message size or peer, in the order its check states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, NoReturn

from checks.value_types import Range, Text

SCHEMA_VERSION = 1
CLUSTER = "cluster"
LINK = "<->"  # between the two ends of a subject that is a link
EVIDENCE_BYTES = 4096
FIRST = "first_"  # before the name of a metric: what was measured before it was measured again
NODE_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
NodeName = Annotated[str, Text(NODE_NAME, 253)]

# Past a double's range nothing can be compared; int before float, so that a report read back is the one written.
Whole = Annotated[int, Range(-1e300, 1e300)]
Scalar = bool | Whole | float | str
Value = Scalar | tuple[Whole | float | None, ...] | tuple[str, ...]


def unreachable(value: NoReturn) -> NoReturn:
    """Closes an enum's cases (typing.assert_never needs Python 3.11, nodes may have 3.10)."""
    raise AssertionError(f"unhandled case: {value!r}")


class Level(str, Enum):
    """Is it fit? PASS < WARN < FAIL."""

    PASS = "PASS"  # noqa: S105 - a level
    WARN = "WARN"
    FAIL = "FAIL"

    @property
    def rank(self) -> int:
        """0 for PASS, 1 for WARN, 2 for FAIL."""
        return ("PASS", "WARN", "FAIL").index(self.value)


class Outcome(str, Enum):
    """Did the check work? It says nothing about the hardware."""

    MEASURED = "MEASURED"
    SKIPPED = "SKIPPED"
    ERRORED = "ERRORED"


class ErrorKind(str, Enum):
    """How a check came to be ERRORED. `reason` says the same in words, and no code reads it.

    RAISED: it broke off by an exception that is not its own word. DEADLINE: its own deadline passed. NOT_RUN: its rank
    did not begin it, for what happened before. NOT_REACHED: no rank of its node came so far. OTHER: all else.
    """

    RAISED = "raised"
    DEADLINE = "deadline"
    NOT_RUN = "not_run"
    NOT_REACHED = "not_reached"
    OTHER = "other"


class PairOutcome(str, Enum):
    """How a test of two ranks ended. `failures` says the same in words, and no code reads them.

    NOT_RUN and PEER_LEFT say nothing of the pair: the test did not begin, with PEER_LEFT because the peer takes part in
    no test any more. NO_ANSWER and CLOSED: the peer itself was silent. FAILED: all else, wrong data among it.
    """

    OK = "ok"
    NOT_RUN = "not_run"
    PEER_LEFT = "peer_left"
    NO_ANSWER = "no_answer"
    CLOSED = "closed"
    FAILED = "failed"

    @property
    def never_ran(self) -> bool:
        """Whether the test says nothing of the pair."""
        return self in (PairOutcome.NOT_RUN, PairOutcome.PEER_LEFT)

    @property
    def is_silence(self) -> bool:
        """Whether the peer itself did not answer."""
        return self in (PairOutcome.NO_ANSWER, PairOutcome.CLOSED)


class Cause(str, Enum):
    """Why a finding exists. EVIDENCE means that the gate could not tell: nobody replaces a node for it."""

    HARDWARE = "HARDWARE"
    CONFIGURATION = "CONFIGURATION"
    APPLICATION = "APPLICATION"
    EVIDENCE = "EVIDENCE"


class Scope(str, Enum):
    """Who a check observes: each node, each rank, or the cluster as one."""

    NODE = "node"
    RANK = "rank"
    CLUSTER = "cluster"


class Skip(str, Enum):
    """Why a check did not measure. GATE_FILE is the operator's own wish; the three before it come from the machine, the
    others from what is declared.
    """

    NO_GPU_DECLARED = "no GPU declared"
    GPU_DECLARED = "GPUs are declared, and nccl.* observes them"
    NO_NVLINK_ON_TYPE = "this instance type has no NVLink"
    NO_EFA_ON_TYPE = "this instance type has no EFA"
    NO_NEURON_ON_TYPE = "this instance type has no Neuron device"
    ONE_NODE_DECLARED = "one node declared"
    ONE_RANK_DECLARED = "one rank declared"
    NOT_IN_PROFILE = "not in this profile"
    KERNEL_LOG_READABLE = "the kernel log is declared readable, and kernel.* reads it"
    NOT_PERMITTED = "not permitted on this node"
    TOOL_MISSING = "tool not installed on this node"
    PREREQUISITE = "a check that it stands on did not succeed"
    GATE_FILE = "left out by the gate file"


class Part(str, Enum):
    """Which part a check looks at: it applies to declared nodes that have one. Where the table does not say
    whether a type has one (None), the check applies, and has to measure.
    """

    ANY = "any"
    GPU = "gpu"
    NO_GPU = "no gpu"
    NVLINK = "nvlink"
    EFA = "efa"
    NEURON = "neuron"


class Profile(str, Enum):
    """How deep to look."""

    QUICK = "quick"
    STANDARD = "standard"
    DEEP = "deep"


class KernelLog(str, Enum):
    """Whether a job on this engine can read its host's kernel log. WITHHELD: the engine's containers cannot."""

    READABLE = "readable"
    WITHHELD = "withheld"


@dataclass(frozen=True)
class Declared:
    """What the operator says is there; what must be observed follows from this, never from what was found.

    `node_names` is empty where the launcher cannot know them before the start. `kernel_log` is set from the table in
    `tasks/launchers/registry.py`, never from a gate file; reports and bundles of 0.1.0 lack it, and mean READABLE.
    """

    instance_type: Annotated[str, Text(r"[A-Za-z0-9][A-Za-z0-9._-]*", 64)]
    nodes: Annotated[int, Range(1, 100_000)]
    gpus_per_node: Annotated[int, Range(0, 64)]
    ranks_per_node: Annotated[int, Range(1, 256)]
    node_names: tuple[NodeName, ...] = ()
    kernel_log: KernelLog = KernelLog.READABLE

    @property
    def ranks(self) -> int:
        """The world size."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True)
class Planned:
    """One check that was to run on every subject of its scope, its metrics, or the declared reason why not."""

    check: str
    scope: Scope
    metrics: tuple[str, ...] = ()
    skip: Skip | None = None


@dataclass(frozen=True)
class Observation:
    """What one check saw of one subject. `reason` is set unless MEASURED; `metrics` only if MEASURED. `error_kind` is
    None unless ERRORED; rows of 0.1.0 lack it, and their reason tells it (checks.documents.compatibility).

    Evidence longer than 4 KiB is cut, and the whole of it lies beside the report as evidence/<sha256>.gz.
    `started_s` counts from when the node's report was opened: with `seconds` it is the schedule.
    """

    check: str
    subject: str
    outcome: Outcome
    seconds: float
    metrics: Mapping[str, Value] = field(default_factory=dict)
    skip: Skip | None = None
    reason: str = ""
    evidence: str = ""
    evidence_truncated: bool = False
    evidence_sha256: str = ""
    started_s: float = 0.0
    error_kind: ErrorKind | None = None


@dataclass(frozen=True)
class Node:
    """A node as it was found. `identity` holds host, boot_id, gpu_uuids, driver ... as text.

    `measured_at` is what its own clock said when it last wrote (UTC, ISO 8601); "" until the reports are merged.
    """

    name: NodeName
    rank: Annotated[int, Range(0, 100_000)]
    attempt: str
    catalogue: str
    complete: bool
    identity: Mapping[str, str]
    measured_at: str = ""


@dataclass(frozen=True)
class Report:
    """Everything that was planned and observed; the only thing that a verdict is made from.

    `measured_at` is UTC, ISO 8601, and the only clock that a verdict knows. `collection` names what the
    collector could not read ("node-2: truncated at byte 812").
    """

    gate_id: str
    attempt: str
    measured_at: str
    profile: Profile
    declared: Declared
    catalogue: str
    plan: tuple[Planned, ...]
    nodes: tuple[Node, ...]
    observations: Sequence[Observation]
    collection: tuple[str, ...] = ()


class Action(str, Enum):
    """What a finding calls for. NONE: the remedy's words say it, and no machine is touched."""

    NONE = "none"
    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    REPLACE = "replace"
    INSPECT = "inspect"
    CONTACT = "contact"


class FindingKind(str, Enum):
    """What a finding is about, for the code that has to tell it from others. Messages are for people: no code reads them.

    The last two both say that nothing is known to compare with; ONLY_SMALL_MESSAGES, because no message was large enough.
    """

    NOT_MEASURED = "not_measured"
    DRIVER_TOO_OLD = "driver_too_old"
    NO_BASELINE = "no_baseline"
    ONLY_SMALL_MESSAGES = "only_small_messages"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or unknown, with what it rests on and what to do.

    `source` says who set the line that it crossed; "" where nothing was compared. `kind` is None for all that no code
    has to tell from others. `metric` is that of the rule whose line was crossed; "" for all else. `elements` are the labels
    ("GPU 5 (0000:b9:00.0)") of those elements of the metric that crossed it; () where the metric is no list.
    """

    level: Level
    cause: Cause
    check: str
    subject: str
    message: str
    evidence: str = ""
    remedy: str = ""
    action: Action = Action.NONE
    source: str = ""
    kind: FindingKind | None = None
    metric: str = ""
    elements: tuple[str, ...] = ()


@dataclass(frozen=True)
class Count:
    """How many were seen of how many that had to be."""

    observed: int
    required: int


@dataclass(frozen=True)
class Coverage:
    """What the verdict rests on; `checks` counts check x subject pairs."""

    nodes: Count
    gpus: Count
    ranks: Count
    checks: Count

    @property
    def complete(self) -> bool:
        """Whether nothing that had to be observed is missing."""
        return all(c.observed >= c.required for c in (self.nodes, self.gpus, self.ranks, self.checks))


class Answer(str, Enum):
    """What the gate says. ASK is a WARN that the policy hands to a person."""

    GO = "go"
    NO_GO = "no_go"
    CANNOT_TELL = "cannot_tell"
    ASK = "ask"


# As people read them.
ANSWER_WORDS: Mapping[Answer, str] = {
    Answer.GO: "GO",
    Answer.NO_GO: "NO-GO",
    Answer.CANNOT_TELL: "CANNOT TELL",
    Answer.ASK: "ASK",
}


@dataclass(frozen=True)
class Digests:
    """SHA-256 of everything that was decided upon, and the engine's version."""

    report: str
    policy: str
    facts: str
    baseline: str | None
    engine: str


@dataclass(frozen=True)
class Verdict:
    """The answer, worst finding first. `condemned` lists nodes with a FAIL whose cause is HARDWARE."""

    level: Level
    answer: Answer
    coverage: Coverage
    findings: tuple[Finding, ...]
    condemned: tuple[str, ...]
    suspect_policy: bool
    digests: Digests


def node_of(subject: str) -> str:
    """The node that a subject lies on; "cluster" stands for itself."""
    return subject.partition("/")[0]


def rank_subject(node: str, rank: int) -> str:
    """The subject of a global rank on its node."""
    return f"{node}/rank-{rank}"


def worst(levels: Sequence[Level]) -> Level:
    """The worst of the levels; PASS for none."""
    return max(levels, key=lambda level: level.rank, default=Level.PASS)
