"""The data types of a gate: what was declared, planned, observed, found and concluded. Pure data; everything is frozen.

A *subject* is what an observation is about: "node-0" (a node), "node-0/rank-3" (a global rank on its node) or "cluster". An array
metric holds one value per device, message size or peer, in the order that its check states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, NoReturn

from checks.model_details import Comparison, Contents, DeclaredMachine, Images, Sensitivity, Unmeasured
from checks.value_types import SPARSE, Range, Seconds, Text

SCHEMA_VERSION = 1
CLUSTER = "cluster"
LINK = "<->"  # between the two ends of a subject that is a link
EVIDENCE_BYTES = 4096
FIRST = "first_"  # prefix of a metric: the value of the first measurement, if there was a second one
NODE_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
NodeName = Annotated[str, Text(NODE_NAME, 253)]

# Values beyond a double cannot be compared. int stands before float, so that a report that is read back equals the one written.
Whole = Annotated[int, Range(-1e300, 1e300)]
Scalar = bool | Whole | float | str
Value = Scalar | tuple[Whole | float | None, ...] | tuple[str, ...]


def unreachable(value: NoReturn) -> NoReturn:
    """Makes type checkers verify that all members of an enum are handled (typing.assert_never needs Python 3.11; nodes may have
    3.10).
    """
    raise AssertionError(f"unhandled case: {value!r}")


class Level(str, Enum):
    """How serious a finding is: PASS < WARN < FAIL."""

    PASS = "PASS"  # noqa: S105 - a level
    WARN = "WARN"
    FAIL = "FAIL"

    @property
    def rank(self) -> int:
        """0 for PASS, 1 for WARN, 2 for FAIL."""
        return ("PASS", "WARN", "FAIL").index(self.value)


class Outcome(str, Enum):
    """Whether the check could measure. This says nothing about the hardware."""

    MEASURED = "MEASURED"
    SKIPPED = "SKIPPED"
    ERRORED = "ERRORED"


class ErrorKind(str, Enum):
    """Why a check is ERRORED. `reason` says the same in words, and no code reads it.

    RAISED: it raised an exception other than CheckError. DEADLINE: its own deadline passed. LIMIT_PASSED: so did the one that the gate
    file sets for it. LIMIT_TOO_SHORT: that one is so short that it was not started. NOT_RUN: its rank did not begin it, because of
    something that happened before. NOT_REACHED: no rank of its node reached it. OTHER: everything else.
    """

    RAISED = "raised"
    DEADLINE = "deadline"
    LIMIT_PASSED = "limit_passed"
    LIMIT_TOO_SHORT = "limit_too_short"
    NOT_RUN = "not_run"
    NOT_REACHED = "not_reached"
    OTHER = "other"


class Cause(str, Enum):
    """Why a finding exists. EVIDENCE means that the gate cannot tell, so that no node is replaced because of it."""

    HARDWARE = "HARDWARE"
    CONFIGURATION = "CONFIGURATION"
    APPLICATION = "APPLICATION"
    EVIDENCE = "EVIDENCE"


class Scope(str, Enum):
    """What a check observes: each node, each rank, or the cluster as one."""

    NODE = "node"
    RANK = "rank"
    CLUSTER = "cluster"


class Skip(str, Enum):
    """Why a check did not measure. GATE_FILE is what the operator asked for; the three before it come from the machine, the others
    from the declaration. CERTIFIED: an earlier gate measured it on this machine (checks.judge.certificates); no policy accepts it.
    """

    NO_GPU_DECLARED = "no GPU declared"
    GPU_DECLARED = "GPUs are declared, and nccl.* observes them"
    NO_NVLINK_ON_TYPE = "this instance type has no NVLink"
    NO_EFA_ON_TYPE = "this instance type has no EFA"
    NO_NEURON_ON_TYPE = "this instance type has no Neuron device"
    NO_INFINIBAND_ON_TYPE = "this instance type has no InfiniBand port"
    ONE_NODE_DECLARED = "one node declared"
    ONE_RANK_DECLARED = "one rank declared"
    NOT_IN_PROFILE = "not in this profile"
    KERNEL_LOG_READABLE = "the kernel log is declared readable, and kernel.* reads it"
    NOT_PERMITTED = "not permitted on this node"
    TOOL_MISSING = "tool not installed on this node"
    PREREQUISITE = "a check that it stands on did not succeed"
    GATE_FILE = "left out by the gate file"
    CERTIFIED = "certified by an earlier gate"


class MachinePart(str, Enum):
    """Which part of a machine a check tests: the check applies to declared nodes that have one. If the instance table does not say
    whether a type has the part (None), the check applies and has to measure.
    """

    ANY = "any"
    GPU = "gpu"
    NO_GPU = "no gpu"
    NVLINK = "nvlink"
    EFA = "efa"
    NEURON = "neuron"
    INFINIBAND = "infiniband"


class Profile(str, Enum):
    """How thorough the checks are."""

    QUICK = "quick"
    STANDARD = "standard"
    DEEP = "deep"


class KernelLog(str, Enum):
    """Whether a job on this engine can read its host's kernel log. WITHHELD: the engine's containers cannot."""

    READABLE = "readable"
    WITHHELD = "withheld"


@dataclass(frozen=True)
class Declared:
    """What the operator declares, from which follows what must be observed. `node_names` is empty if the launcher cannot know them
    before the start. `kernel_log` is the launcher's, never a gate file's. `machine` describes a type that no table has. `spares` of
    the nodes are more than the training needs.
    """

    instance_type: Annotated[str, Text(r"[A-Za-z0-9][A-Za-z0-9._-]*", 64)]
    nodes: Annotated[int, Range(1, 100_000)]
    gpus_per_node: Annotated[int, Range(0, 64)]
    ranks_per_node: Annotated[int, Range(1, 256)]
    node_names: tuple[NodeName, ...] = ()
    kernel_log: KernelLog = KernelLog.READABLE
    machine: DeclaredMachine | None = None
    spares: Annotated[int, Range(0, 16)] = field(default=0, metadata=SPARSE)

    @property
    def ranks(self) -> int:
        """The total number of ranks (the world size)."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True)
class Planned:
    """A check that is planned for every subject of its scope: its metrics, what they hold, which are events; or why it is left out."""

    check: str
    scope: Scope
    metrics: tuple[str, ...] = ()
    skip: Skip | None = None
    holds: tuple[Contents, ...] = field(default=(), metadata=SPARSE)
    events: tuple[str, ...] = field(default=(), metadata=SPARSE)


@dataclass(frozen=True)
class Observation:
    """What one check observed on one subject. `reason` is set unless MEASURED; `metrics` only if MEASURED. `error_kind` is None
    unless ERRORED.

    Evidence longer than 4 KiB is cut, and all of it is stored beside the report as evidence/<sha256>.gz. `started_s` counts from the
    moment at which the node's report was opened; together with `seconds` it shows the schedule.
    """

    check: str
    subject: str
    outcome: Outcome
    seconds: Seconds
    metrics: Mapping[str, Value] = field(default_factory=dict)
    skip: Skip | None = None
    reason: str = ""
    evidence: str = ""
    evidence_truncated: bool = False
    evidence_sha256: str = ""
    started_s: Seconds = 0.0
    error_kind: ErrorKind | None = None


@dataclass(frozen=True)
class Node:
    """A node as it was found. `identity` holds host, boot_id, gpu_uuids, driver and others as text; "engine_..." the engine said.

    `measured_at` is the time of its own clock at its last write (UTC, ISO 8601); "" until the reports are merged. `open_findings` is
    what the watch of this machine had found and nothing has answered (checks.documents.open_findings, as JSON); "" without a watch.
    `machine_state` is what the machine itself knows of the time before this gate (checks.documents.certificates, as JSON).
    """

    name: NodeName
    rank: Annotated[int, Range(0, 100_000)]
    attempt: str
    catalogue: str
    complete: bool
    identity: Mapping[str, str]
    measured_at: str = ""
    open_findings: str = ""
    machine_state: str = field(default="", metadata=SPARSE)


@dataclass(frozen=True)
class NodeEnd:
    """How a node without a complete report ended: its exit code (None: not ended, or unknown), and the end of its log. `said` is what
    its engine says of it or of its job instead of an exit code, "" for nothing.
    """

    node: str
    exit_code: int | None
    log: str
    said: str = field(default="", metadata=SPARSE)


@dataclass(frozen=True)
class Report:
    """Everything that was planned and observed. A verdict is made from this alone.

    `measured_at` is UTC, ISO 8601, and the only time that a verdict uses. `collection` lists what the collector could not read
    ("node-2: truncated at byte 812"), and `ends` how nodes without a complete report ended. `certificates` are those that the gate
    offered to its nodes (checks.documents.certificates, as JSON); a node's own report has none. `images` are those of the gate, None
    where it names none; `raised` are the numbers of `--option`, as CHECK.NAME=NUMBER.
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
    ends: tuple[NodeEnd, ...] = ()
    certificates: str = field(default="", metadata=SPARSE)
    images: Images | None = field(default=None, metadata=SPARSE)
    raised: tuple[str, ...] = field(default=(), metadata=SPARSE)


class Action(str, Enum):
    """What a finding calls for. NONE: its remedy says what to do, and no machine has to be repaired."""

    NONE = "none"
    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    REPLACE = "replace"
    INSPECT = "inspect"
    CONTACT = "contact"


class FindingKind(str, Enum):
    """What a finding is about, for code that has to distinguish findings. Messages are for people, and no code reads them.

    NO_BASELINE, ONLY_SMALL_MESSAGES: no expected value, or no message that was large enough. NOT_COLLECTED: what could not be read, or
    how the job ended. OPEN_BEFORE: found earlier, not measured now. CERTIFIED: an earlier gate measured it. TOO_FEW: too few values.
    """

    NOT_MEASURED = "not_measured"
    DRIVER_TOO_OLD = "driver_too_old"
    NO_BASELINE = "no_baseline"
    ONLY_SMALL_MESSAGES = "only_small_messages"
    NOT_COLLECTED = "not_collected"
    OPEN_BEFORE = "open_before"
    CERTIFIED = "certified"
    TOO_FEW = "too_few"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or unknown, with its evidence and what to do.

    `is_predicate`: the message continues a sentence that begins with the subject ("computes wrong sums"). `compared` holds the number
    that crossed a threshold; None if there is no such number. `source` is the source of that threshold; "" if nothing was compared.
    `kind` is None for findings that no code has to distinguish. `metric` is the metric of the rule whose threshold was crossed; ""
    otherwise. `elements` are the labels ("GPU 5 (0000:b9:00.0)") of the elements of the metric that crossed it; () if the metric is
    not a list. `unmeasured` is set if the kind is NOT_MEASURED. `named_nodes` are those that a finding about the cluster says most of;
    () if it is about no node more than about the others. `follows` is the silent node of which missing evidence is a consequence.
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
    unmeasured: Unmeasured | None = None
    is_predicate: bool = False
    compared: Comparison | None = None
    named_nodes: tuple[str, ...] = field(default=(), metadata=SPARSE)
    follows: str = field(default="", metadata=SPARSE)


@dataclass(frozen=True)
class Count:
    """How many were observed, of how many that are required."""

    observed: int
    required: int


@dataclass(frozen=True)
class Coverage:
    """How much was observed; `checks` counts pairs of a check and a subject. `certified` of them were not observed by this gate, but
    by an earlier one.
    """

    nodes: Count
    gpus: Count
    ranks: Count
    checks: Count
    certified: int = field(default=0, metadata=SPARSE)

    @property
    def complete(self) -> bool:
        """Whether everything that is required was observed."""
        return all(c.observed >= c.required for c in (self.nodes, self.gpus, self.ranks, self.checks))


class Answer(str, Enum):
    """The answer of the gate. ASK is a WARN that the policy leaves to a person."""

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
    """The SHA-256 of every input of a verdict, and the engine's version."""

    report: str
    policy: str
    facts: str
    baseline: str | None
    engine: str


@dataclass(frozen=True)
class Verdict:
    """The answer, with the most serious finding first. `condemned` lists the nodes with a FAIL whose cause is HARDWARE."""

    level: Level
    answer: Answer
    coverage: Coverage
    findings: tuple[Finding, ...]
    condemned: tuple[str, ...]
    suspect_policy: bool
    digests: Digests
    seen_from: tuple[Sensitivity, ...] = field(default=(), metadata=SPARSE)


def node_of(subject: str) -> str:
    """The node of a subject; "cluster" for the cluster."""
    return subject.partition("/")[0]


def rank_subject(node: str, rank: int) -> str:
    """The subject of a global rank on its node."""
    return f"{node}/rank-{rank}"


def worst(levels: Sequence[Level]) -> Level:
    """The most serious of the levels; PASS if there are none."""
    return max(levels, key=lambda level: level.rank, default=Level.PASS)
