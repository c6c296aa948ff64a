"""What is repaired, what was done for it, and what may be done. Pure data; times are Unix seconds of the clock of whoever writes.

A *case* is one node that one gate condemned. An *act* is one thing that was done for a case; its record is written before the engine
is called. The *journal* of a cluster has the open cases, the acts of the last day and the breaker, in one document, which is only ever
replaced by compare-and-set: limits that hold for a journal hold for all who act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from checks.documents.report import Version
from checks.model import Action, NodeName, Profile
from checks.model_details import Comparison
from checks.value_types import Range, Text
from tasks.machines.base import Rung

DAY_S = 86_400.0
Time = Annotated[float, Range(0, 1e11)]
GateId = Annotated[str, Text(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 253)]
# A gate's id and the name of a node, each of which may be as long as it may be by itself.
ActId = Annotated[str, Text(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 600)]


class RepairMode(StrEnum):
    """How far remediation goes: not at all, print what it would do, ask before each repair, or repair."""

    OFF = "off"
    PLAN = "plan"
    ASK = "ask"
    ACT = "act"


class ActState(StrEnum):
    """What is known of an act.

    INTENDED: the record was written, and the engine may have been called. AMBIGUOUS: it was called, and did not answer. ACCEPTED: it
    took the request. The others are final: REFUSED (nothing happened), DONE, FAILED.
    """

    INTENDED = "intended"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    AMBIGUOUS = "ambiguous"
    DONE = "done"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether nothing more is expected of the act."""
        return self in (ActState.REFUSED, ActState.DONE, ActState.FAILED)


class Proof(StrEnum):
    """What a re-test showed. CANNOT_TELL: something that it needs was not measured."""

    PASSED = "passed"
    FAILED = "failed"
    CANNOT_TELL = "cannot_tell"


class Reason(StrEnum):
    """Why nothing is done, or why a person is called."""

    MODE = "mode"
    SUSPECT_POLICY = "suspect_policy"
    NO_REPAIR = "no_repair"
    STALE = "stale"
    OTHER_BOOT = "other_boot"
    BEFORE_BREAKER = "before_breaker"
    BREAKER_OPEN = "breaker_open"
    HELD_BY_OTHER = "held_by_other"
    RETURNED_BY_OTHER = "returned_by_other"
    NOT_SEEN = "not_seen"
    TOO_MANY_OUT = "too_many_out"
    DOMAIN_BUSY = "domain_busy"
    JOBS_RUN = "jobs_run"
    IN_FLIGHT = "in_flight"
    NOT_ALLOWED = "not_allowed"
    TRIED_ALL = "tried_all"
    ACT_REFUSED = "act_refused"
    ACT_FAILED = "act_failed"
    NOT_PROVEN = "not_proven"
    PROVEN = "proven"
    OTHER_CASE = "other_case"
    REPAIR_NEEDED = "repair_needed"


@dataclass(frozen=True)
class Identity:
    """By what a machine is recognised; "" and () are unknown. `gpus` are the GPUs' UUIDs."""

    boot_id: str = ""
    instance_id: str = ""
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Blame:
    """One finding that condemned the node. `gpus` are numbers as NVML counts; `hard` findings do not pass by themselves. `metric`,
    `elements` and `compared` are the finding's.
    """

    check: str
    subject: str
    action: Action
    message: str
    gpus: tuple[int, ...] = ()
    hard: bool = False
    metric: str = ""
    elements: tuple[str, ...] = ()
    compared: Comparison | None = None


@dataclass(frozen=True)
class Case:
    """A node that a gate condemned. `verdict` and `policy` are digests, `condemned` how many nodes it condemned in all.

    `judged_at` is when the evidence was measured. `domain` is what fails together with the node: its nearest switch, "" if none is
    known. `partners` are nodes that the same gate found healthy, for pair tests.
    """

    schema_version: Version
    cluster: str
    node: NodeName
    gate_id: GateId
    gate_file: str
    verdict: str
    profile: Profile
    judged_at: Time
    identity: Identity
    blames: tuple[Blame, ...]
    partners: tuple[NodeName, ...] = ()
    domain: str = ""
    condemned: int = 1
    suspect_policy: bool = False
    policy: str = ""


@dataclass(frozen=True)
class Act:
    """One thing that was done, or is to be done, for a case. `id` is unique in the cluster.

    `finding` is the check that raised it, `allowed_by` who allowed it, `command` what was requested, `before`, `said` and `after` are
    the engine's words. `booted_at` and `boot_id` are what the engine said of the node before. A RECHECK has a `proof`, the identity
    that it found, and when it measured by the clock of the node; `gate` is the gate that made it. `begun`: the engine was seen at a
    repair.
    """

    schema_version: Version
    id: ActId
    cluster: str
    node: NodeName
    gate_id: GateId
    rung: Rung
    number: Annotated[int, Range(1, 10_000)]
    state: ActState
    intended_at: Time
    changed_at: Time
    writer: str
    verdict: str
    finding: str
    checks: tuple[str, ...] = ()
    domain: str = ""
    allowed_by: str = ""
    command: str = ""
    before: str = ""
    booted_at: float | None = None
    instance_id: str = ""
    said: str = ""
    after: str = ""
    why: Reason | None = None
    proof: Proof | None = None
    found: Identity = Identity()
    measured_at: Time = 0.0
    gate: str = ""
    begun: bool = False
    boot_id: str = ""


@dataclass(frozen=True)
class Breaker:
    """Stops every act in a cluster until a person closes it. What was judged before `closed_at` is never acted on afterwards."""

    opened_at: Time = 0.0
    closed_at: Time = 0.0
    closed_by: str = ""
    why: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it stops acts now."""
        return self.opened_at > self.closed_at


class Permission(StrEnum):
    """What came of the question whether an act is allowed."""

    PENDING = "asked"
    ALLOWED = "allowed"
    DENIED = "denied"


@dataclass(frozen=True)
class RepairQuestion:
    """The state of one question: about the next repair of a case. `by` is who answered, and how that is known."""

    gate_id: GateId
    node: NodeName
    rung: Rung
    number: int
    permission: Permission
    asked_at: Time
    deadline: Time
    by: str = ""


@dataclass(frozen=True)
class Journal:
    """All that a cluster's remediation remembers. `acts` are in the order in which they were intended.

    `written_at` is the latest time of any process that wrote it.
    """

    schema_version: Version
    cluster: str
    cases: tuple[Case, ...] = ()
    acts: tuple[Act, ...] = ()
    questions: tuple[RepairQuestion, ...] = ()
    breaker: Breaker = Breaker()
    written_at: Time = 0.0

    def acts_of(self, case: Case) -> tuple[Act, ...]:
        """The acts of a case, oldest first."""
        return tuple(act for act in self.acts if (act.gate_id, act.node) == (case.gate_id, case.node))


@dataclass(frozen=True)
class Limits:
    """What holds at the moment of each act, counted from the engine; `most` is by node in 24 hours. A node that its engine does
    not show for `unseen_s` is left to a person.

    Sources of the defaults: two reboots are gpud's threshold of reboots for an Xid (threshold.go); SageMaker HyperPod's documentation
    replaces an instance on which a fault returns after a reboot; EKS repairs no node group of which more than a fifth is unhealthy.
    """

    max_out_fraction: float = 0.1
    max_verdict_s: float = 1800.0
    breaker_acts: int = 6
    breaker_s: float = 3600.0
    most: Mapping[Rung, int] = field(default_factory=lambda: {Rung.RESET: 1, Rung.REBOOT: 2, Rung.REPLACE: 1})
    act_s: Mapping[Rung, float] = field(
        default_factory=lambda: {Rung.RESET: 300.0, Rung.REBOOT: 1800.0, Rung.REPLACE: 3600.0}
    )
    unseen_s: float = 3600.0


@dataclass(frozen=True)
class RepairSettings:
    """What a gate file allows. `freely` are the repairs that mode "act" does without a question."""

    mode: RepairMode = RepairMode.PLAN
    freely: tuple[Rung, ...] = (Rung.RESET, Rung.REBOOT)
    limits: Limits = Limits()
