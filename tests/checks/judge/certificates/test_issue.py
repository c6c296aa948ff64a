"""Which certificates follow from the gates of a store, and what voids them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checks.documents.report import digest
from checks.documents.report import dump as dump_report
from checks.judge.certificates.issue import GateEvidence, issued
from checks.judge.verdict import decide
from checks.model import Cause, Finding, Level, Report
from tests.certified_machines import CHECKS, COSTLY, FACTS, THEN, PastGate, measured, past, skipped, steady

TWO = (PastGate("first", 900.0), PastGate("second", 1900.0))


def whole(*gates: PastGate) -> list[GateEvidence]:
    """The gates of a store, the newest first, all of which can be read."""
    return [gate for gate in past(steady(1.0, gates or TWO)) if gate is not None]


def made(gates: list[GateEvidence | None]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Gate, checks and later gates of each certificate."""
    return [(one.gate_id, tuple(one.checks), one.later) for one in issued(gates, THEN, FACTS.digest)]


def judged(gate: GateEvidence, report: Report) -> GateEvidence:
    """The gate with another report."""
    return replace(
        gate, document=report, report=digest(dump_report(report)), verdict=decide(report, THEN, FACTS)
    )


def with_finding(
    gate: GateEvidence, level: Level, cause: Cause, check: str, subject: str, **more: Any
) -> GateEvidence:
    """The gate with one more finding."""
    found = Finding(level, cause, check, subject, "made up", **more)
    level = max((gate.verdict.level, level), key=lambda one: one.rank)
    return replace(gate, verdict=replace(gate.verdict, level=level, findings=(*gate.verdict.findings, found)))


def test_the_newest_measurement_certifies() -> None:
    assert [("second", COSTLY, ())] == made([*whole()])


def test_older_gate_certifies_checks_that_the_newest_skipped() -> None:
    second, first = whole()
    report = replace(
        second.document,
        observations=tuple(skipped(name) if name == "disk.io" else measured(name) for name in CHECKS),
    )
    # Its verdict is a FAIL, because no certificate stands for the skip: so let it be one that does.
    later = replace(judged(second, report), verdict=second.verdict)

    assert [("second", ("cpu.stress", "memory.stress"), ()), ("first", ("disk.io",), ("second",))] == made(
        [later, first]
    )


def test_a_skip_certifies_nothing_however_often_it_is_repeated() -> None:
    """Certificates are not chained."""
    gates = []
    for gate in whole():
        rows = tuple(skipped(name) if name in COSTLY else measured(name) for name in CHECKS)
        gates.append(replace(judged(gate, replace(gate.document, observations=rows)), verdict=gate.verdict))

    assert [] == made([*gates])


@pytest.mark.parametrize("check", [*COSTLY, "system.identity", "compute.gemm"])
@pytest.mark.parametrize(
    ("level", "cause", "metric"),
    [
        (Level.WARN, Cause.HARDWARE, ""),
        (Level.WARN, Cause.CONFIGURATION, ""),
        (Level.WARN, Cause.EVIDENCE, "slow_while_busy"),
        (Level.FAIL, Cause.HARDWARE, ""),
        (Level.FAIL, Cause.EVIDENCE, ""),
    ],
)
def test_later_finding_on_the_machine_voids_all_certificates(
    check: str, level: Level, cause: Cause, metric: str
) -> None:
    """Also one of the whole cluster that names the machine."""
    second, first = whole()

    for subject in ("node-0", "node-0/rank-0", "node-7 <-> node-0", "cluster"):
        named = ("node-0",) if subject == "cluster" else ()
        later = with_finding(second, level, cause, check, subject, metric=metric, named_nodes=named)
        assert [] == made([later, first])


def test_a_disagreement_of_a_check_that_was_measured_all_the_same_voids_all() -> None:
    assert [] == made([*whole(PastGate("first", 900.0), PastGate("second", 1900.0, failures=3))])


def test_a_fail_of_the_whole_cluster_may_be_this_machines() -> None:
    second, first = whole()

    assert [] == made([with_finding(second, Level.FAIL, Cause.HARDWARE, "nccl.all_reduce", "cluster"), first])


def test_a_fault_of_another_node_voids_nothing_here_but_its_gate_certifies_nothing() -> None:
    second, first = whole()
    found = made([with_finding(second, Level.FAIL, Cause.HARDWARE, "dcgm.diag", "node-7"), first])

    assert [("first", COSTLY, ("second",))] == found


def test_missing_evidence_that_the_policy_does_without_is_no_doubt_but_certifies_not_its_check() -> None:
    [first] = whole(TWO[0])
    found = with_finding(first, Level.WARN, Cause.EVIDENCE, "disk.io", "node-0")

    assert [("first", ("cpu.stress", "memory.stress"), ())] == made([found])
    another = with_finding(first, Level.WARN, Cause.EVIDENCE, "disk.io", "node-7")
    assert [("first", COSTLY, ())] == made([another])


def test_after_a_gate_that_cannot_be_read_nothing_counts() -> None:
    second, first = whole()

    assert [("second", COSTLY, ())] == made([second, None, first])
    assert [] == made([None, first])


def test_a_gate_whose_kept_verdict_is_another_one_certifies_nothing() -> None:
    """Of another policy, or of other bytes than those that are there now."""
    second, first = whole()

    assert [("first", COSTLY, ("second",))] == made([replace(second, is_kept=False), first])


def test_a_machine_without_a_watch_is_never_certified() -> None:
    [first] = whole(TWO[0])
    [node] = first.document.nodes
    bare = replace(first.document, nodes=(replace(node, machine_state=""),))

    assert [] == made([judged(first, bare)])


def test_two_nodes_on_one_machine_certify_what_both_measured() -> None:
    """As on a laptop. Who measured less decides."""
    [first] = whole(TWO[0])
    [node] = first.document.nodes
    rows = (
        *first.document.observations,
        *(replace(measured(name), subject="node-1") for name in ("cpu.stress", "system.identity")),
    )
    both = replace(first.document, nodes=(node, replace(node, name="node-1", rank=1)), observations=rows)

    assert [("first", ("cpu.stress",), ())] == made([replace(judged(first, both), verdict=first.verdict)])
