"""A machine with a watch, gates and a store, simulated: what is certified on it, and what the verdict says. Nothing here is real."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

from checks.documents.certificates import Certificate, Certificates, MachineState, WatchRecord, dump
from checks.documents.report import digest
from checks.documents.report import dump as dump_report
from checks.facts.instances import Facts, Instance
from checks.facts.provenance import NumberKind, Provenance
from checks.judge.certificates.decision import GateTerms, certified, terms_of
from checks.judge.certificates.issue import GateEvidence, issued
from checks.judge.certificates.record import RecordState, WatchRound, after
from checks.judge.verdict import decide
from checks.model import Declared, Node, Observation, Outcome, Planned, Profile, Report, Scope, Skip, Verdict
from checks.policy import CheckPolicy, OnWarn, Policy, Rule
from checks.version import ENGINE

FACTS = Facts(
    {"cpu": Instance(0, "", Provenance("test", "made up for a test", "2026-11", NumberKind.DERIVED))},
    digest(b"made-up facts"),
)
DECLARED = Declared("cpu", 1, 0, 1)
COSTLY = ("cpu.stress", "memory.stress", "disk.io")
RANKED = "compute.gemm"
CHECKS = ("system.identity", *COSTLY, RANKED)
CATALOGUE = digest(b"the catalogue")
INTERVAL_S = 60.0
# When the machine booted, by a clock that nobody sets.
BOOTED_AT = 1_795_000_000.0
BOOT = "boot-1"
IDENTITY = {"host": "node-0", "boot_id": BOOT, "product_uuid": "board-1", "gpu_uuids": "", "driver": "570"}
PLAN = tuple(Planned(name, Scope.RANK if name == RANKED else Scope.NODE, ("failures",)) for name in CHECKS)


def policy_of(valid_for: float = 24.0, fail_above: float = 0.5) -> Policy:
    """Three costly checks that a certificate may stand for, and one that is always measured."""

    def line(name: str) -> CheckPolicy:
        rules = (Rule("failures", "a test", fail_above=fail_above),)
        return CheckPolicy(rules=rules, valid_for=valid_for if name in COSTLY else 0.0)

    return Policy("simulated", ("cpu",), OnWarn.GO, 0.25, {name: line(name) for name in CHECKS})


@dataclass(frozen=True)
class Step:
    """The machine's clock was set by this many seconds at this time since its boot."""

    boot_s: float
    by_s: float


@dataclass(frozen=True)
class PastGate:
    """A gate that ran on the machine. `kept`: the store has its report; `failures` is what every check measured."""

    gate_id: str
    boot_s: float
    failures: int = 0
    kept: bool = True


@dataclass(frozen=True)
class History:
    """What happened on the machine since its boot, and the gate that begins now (`boot_s`)."""

    boot_s: float
    gates: tuple[PastGate, ...]
    rounds: tuple[tuple[int, float, bool], ...]  # number, end since the boot, whether it was clean
    steps: tuple[Step, ...] = ()
    policy: Policy = field(default_factory=policy_of)
    facts: Facts = FACTS
    identity: tuple[tuple[str, str], ...] = tuple(IDENTITY.items())
    gate_id: str = "now-20261126-120000-abcd"
    open_findings: str = ""

    def clock(self, boot_s: float) -> float:
        """What the machine's clock says at this time since its boot."""
        return BOOTED_AT + boot_s + sum(step.by_s for step in self.steps if step.boot_s <= boot_s)

    def record(self, until_s: float, policy: Policy) -> WatchRecord | None:
        """The record of the watch at this time."""
        state: RecordState | None = None
        judged_by = policy.digest
        for number, ended_s, clean in self.rounds:
            if ended_s <= until_s:
                seen = WatchRound(
                    number, BOOT, "cpu", judged_by, FACTS.digest, ENGINE, INTERVAL_S,
                    self.clock(ended_s), ended_s - 1.0, ended_s, clean,
                )  # fmt: skip
                state = after(state, seen)
        return state.record if state is not None else None

    def state(self, boot_s: float, policy: Policy) -> MachineState:
        """What the machine knows at the start of a gate at this time."""
        before = tuple(gate.gate_id for gate in self.gates if gate.boot_s < boot_s)
        return MachineState(self.clock(boot_s), boot_s, self.record(boot_s, policy), before)

    def node(self, boot_s: float, identity: dict[str, str], policy: Policy) -> Node:
        """The machine as the node of a gate that begins at this time."""
        return Node(
            "node-0", 0, "token", CATALOGUE, True, identity, "2026-11-26T12:00:00Z", self.open_findings,
            dump(self.state(boot_s, policy)),
        )  # fmt: skip


# What the past gates and the watch were judged by, whatever the gate of now has.
THEN = policy_of()


def past(history: History) -> list[GateEvidence | None]:
    """The gates that the store has, the newest first."""
    made: list[GateEvidence | None] = []
    for gate in reversed([gate for gate in history.gates if gate.kept]):
        rows = tuple(measured(name, gate.failures) for name in CHECKS)
        report = report_of(gate.gate_id, history.node(gate.boot_s, IDENTITY, THEN), rows)
        made_of, answer = digest(dump_report(report)), decide(report, THEN, FACTS)
        made.append(GateEvidence(gate.gate_id, report, made_of, answer, True))
    return made


@functools.lru_cache(maxsize=4)
def _offered(
    gates: tuple[PastGate, ...],
    rounds: tuple[tuple[int, float, bool], ...],
    steps: tuple[Step, ...],
    open_findings: str,
) -> tuple[Certificate, ...]:
    before = History(0.0, gates, rounds, steps, open_findings=open_findings)
    return issued(past(before), THEN, FACTS.digest)


def offered(history: History) -> tuple[Certificate, ...]:
    """The certificates that the gate makes of its store."""
    return _offered(history.gates, history.rounds, history.steps, history.open_findings)


def measured(check: str, failures: int = 0) -> Observation:
    """A check that measured."""
    subject = "node-0/rank-0" if check == RANKED else "node-0"
    return Observation(check, subject, Outcome.MEASURED, 1.0, {"failures": failures})


def skipped(check: str) -> Observation:
    """A check that was skipped as certified."""
    return Observation(check, "node-0", Outcome.SKIPPED, 0.0, {}, Skip.CERTIFIED, "a test")


def report_of(gate_id: str, node: Node, rows: tuple[Observation, ...], certificates: str = "") -> Report:
    """A merged report of one node."""
    return Report(
        gate_id, "token", node.measured_at, Profile.STANDARD, DECLARED, CATALOGUE, PLAN, (node,), rows,
        certificates=certificates,
    )  # fmt: skip


def skips(history: History) -> frozenset[str]:
    """The checks that the node skips now, with the certificates that the gate makes of its store under its policy."""
    node = history.node(history.boot_s, dict(history.identity), THEN)
    own = terms(history.gate_id, history.policy, history.facts.digest)
    return frozenset(certified(node, offered(history), own))


def terms(
    gate_id: str, policy: Policy = THEN, facts: str = FACTS.digest, profile: Profile = Profile.STANDARD
) -> GateTerms:
    """The terms of a gate of the machine."""
    return terms_of(gate_id, policy, facts, CATALOGUE, profile, DECLARED)


def verdict(history: History, left_out: frozenset[str]) -> Verdict:
    """The verdict on a report in which exactly these checks were skipped as certified."""
    return judged_now(history, left_out)[1]


def judged_now(history: History, left_out: frozenset[str]) -> tuple[Report, Verdict]:
    """The same with the report."""
    node = history.node(history.boot_s, dict(history.identity), THEN)
    rows = tuple(skipped(name) if name in left_out else measured(name) for name in CHECKS)
    carried = dump(Certificates(certificates=offered(history)))
    report = report_of(history.gate_id, node, rows, carried)
    return report, decide(report, history.policy, history.facts)


def steady(hours: float, gates: tuple[PastGate, ...], **more: object) -> History:
    """A machine whose watch made a clean round every minute until now."""
    count = int(hours * 3600 / INTERVAL_S)
    rounds = tuple((number + 1, 600.0 + number * INTERVAL_S, True) for number in range(count))
    return replace(History(rounds[-1][1] + 20.0, gates, rounds), **more)  # type: ignore[arg-type]
