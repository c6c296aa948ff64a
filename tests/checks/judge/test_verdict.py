"""The verdict: what outranks what, who is condemned, and that nothing but its input matters."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.culprit import topology
from checks.judge.verdict import NOTHING, conclude, decide, failed_nodes, unreadable, unstored
from checks.model import CLUSTER, Answer, Cause, Count, Coverage, Digests, Finding, Level, Report
from checks.policy import OnWarn
from tests.sample_reports import (
    FACTS,
    POLICY,
    WITHOUT_NETWORK,
    findings_of,
    healthy,
    verdict_of,
    with_metric,
    without_node,
    without_row,
    wrong_sums,
)

FULL = Coverage(Count(4, 4), Count(0, 0), Count(4, 4), Count(9, 9))
DIGESTS = Digests("r", "p", "f", None, "e")
FINDINGS = st.builds(
    Finding,
    st.sampled_from(Level),
    st.sampled_from(Cause),
    st.sampled_from(["report", "compute.gemm", "system.clock"]),
    st.sampled_from(["node-0", "node-1/rank-3", "node-0<->node-1", CLUSTER]),
    st.text(max_size=5),
)


def _drifted(report: Report) -> Report:
    return with_metric(report, "system.identity", "node-2", "kernel", "6.2")


def _broken(seed: int) -> Report:
    """One of several unhealthy reports, so that order has something to disturb."""
    report = healthy(4, 2)
    breaks: list[Callable[[Report], Report]] = [
        lambda r: wrong_sums(r, "node-1/rank-3"),
        _drifted,
        lambda r: with_metric(_drifted(r), "system.identity", "node-3", "kernel", "6.2"),
        lambda r: without_node(r, "node-3"),
        lambda r: without_row(r, "compute.gemm", "node-0/rank-1"),
        lambda r: with_metric(r, "network.pairs", "node-0", "bandwidth_gbps", (0.01, 0.01, 0.01)),
        lambda r: with_metric(r, "network.reachability", "node-0", "failures", ("ok", "timed out", "ok")),
        lambda r: with_metric(r, "training.step", "node-0/rank-0", "gflops", 1.0),
    ]
    for bit, change in enumerate(breaks):
        if seed >> bit & 1 and not (bit > 3 and seed >> 3 & 1):
            report = change(report)
    return report


@given(st.integers(0, 255), st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_rows_changes_nothing(seed: int, random: Random) -> None:
    """Files come in whatever order the collector found them."""
    report = _broken(seed)
    nodes, rows = list(report.nodes), list(report.observations)
    for items in (nodes, rows):
        random.shuffle(items)
    shuffled = replace(report, nodes=tuple(nodes), observations=tuple(rows))
    one, two = verdict_of(report), verdict_of(shuffled)

    assert one == replace(two, digests=one.digests)


@given(st.lists(FINDINGS, max_size=6))
def test_findings_decide_by_the_table(findings: list[Finding]) -> None:
    """Any known FAIL is no-go; FAILs for want of evidence alone cannot tell; else go."""
    verdict = conclude(findings, FULL, POLICY, 4, DIGESTS, None)
    fails = [f for f in findings if f.level is Level.FAIL]
    known = [f for f in fails if f.cause is not Cause.EVIDENCE]
    expected = Answer.NO_GO if known else Answer.CANNOT_TELL if fails else Answer.GO

    assert expected is verdict.answer
    assert not findings or verdict.findings[0].level is verdict.level
    assert set(verdict.findings) == set(findings)


@given(st.lists(FINDINGS, max_size=6))
def test_missing_evidence_never_condemns(findings: list[Finding]) -> None:
    """Only a FAIL of hardware names a node, and a link names neither end."""
    verdict = conclude(findings, FULL, POLICY, 4, DIGESTS, None)
    hardware = {f.subject for f in findings if f.level is Level.FAIL and f.cause is Cause.HARDWARE}
    expected = {s.partition("/")[0] for s in hardware if s != CLUSTER and "<->" not in s}

    assert expected == set(verdict.condemned)


def test_verdict_without_observations_or_findings_is_no_go() -> None:
    """Incomplete coverage alone is enough."""
    verdict = conclude([], NOTHING, POLICY, 1, DIGESTS, None)

    assert (Level.FAIL, Answer.CANNOT_TELL) == (verdict.level, verdict.answer)


def test_wrong_results_outrank_missing_evidence() -> None:
    """1 outranks 3, and the known fault is named first."""
    report = wrong_sums(without_row(healthy(), "compute.gemm", "node-0/rank-0"))
    verdict = verdict_of(report)

    assert (Answer.NO_GO, "node-1/rank-3") == (verdict.answer, verdict.findings[0].subject)
    assert ("node-1",) == verdict.condemned


@pytest.mark.parametrize(
    ("on_warn", "expected"), [(OnWarn.GO, Answer.GO), (OnWarn.REFUSE, Answer.NO_GO), (OnWarn.ASK, Answer.ASK)]
)
def test_the_policy_says_what_a_warning_means(on_warn: OnWarn, expected: Answer) -> None:
    """Go on, refuse, or ask."""
    report = with_metric(healthy(), "system.clock", "node-0", "synchronised", False)

    assert expected is verdict_of(report, replace(POLICY, on_warn=on_warn)).answer


def test_a_type_that_nothing_is_known_of_cannot_be_judged() -> None:
    """Nor one whose number of GPUs is declared wrongly."""
    report = healthy()
    policy = replace(POLICY, instance_types=("cpu", "zz.1"))
    unknown = replace(report, declared=replace(report.declared, instance_type="zz.1"))
    wrong = replace(report, declared=replace(report.declared, instance_type="toy.4x"))

    assert Answer.CANNOT_TELL is verdict_of(unknown, policy).answer
    assert [Cause.CONFIGURATION] == [f.cause for f in verdict_of(wrong).findings if f.check == "facts"]


def test_a_report_that_could_not_be_kept_proves_nothing() -> None:
    """Nobody is condemned by a GO, and the one finding says where it was written instead. A refusal needs no report: it stands."""
    good, bad = decide(healthy(), POLICY, FACTS), verdict_of(wrong_sums(healthy()))
    verdict, refusal = (unstored("the disk is full", "/tmp/x", before) for before in (good, bad))
    (finding,) = verdict.findings

    assert (Answer.NO_GO, bad.condemned) == (refusal.answer, refusal.condemned)
    assert (bad.findings[0], {*bad.findings, finding}) == (refusal.findings[0], {*refusal.findings})

    assert (Answer.GO, Level.PASS) == (good.answer, good.level)
    assert (Answer.CANNOT_TELL, Level.FAIL, ()) == (verdict.answer, verdict.level, verdict.condemned)
    assert (Cause.EVIDENCE, "/tmp/x") == (finding.cause, finding.evidence)
    assert "the disk is full" in finding.message


def test_an_unreadable_report_cannot_tell() -> None:
    """And the digest is of the bytes that were not understood."""
    verdict = unreadable("truncated", POLICY, FACTS, b"{")

    assert (Answer.CANNOT_TELL, 64, ()) == (verdict.answer, len(verdict.digests.report), verdict.condemned)
    assert [Cause.EVIDENCE] == [finding.cause for finding in verdict.findings]


def test_digests_tell_reports_and_policies_apart() -> None:
    """One changed number changes one digest."""
    one = verdict_of(healthy())
    two = verdict_of(with_metric(healthy(), "compute.gemm", "node-0/rank-0", "gflops", 41.5))
    three = verdict_of(healthy(), replace(POLICY, max_unfit_fraction=0.5))

    assert one.digests.report != two.digests.report
    assert (one.digests.policy, one.digests.report) != (three.digests.policy, three.digests.report)
    assert one.digests.policy == two.digests.policy


def test_a_huge_cluster_is_judged_in_seconds() -> None:
    """25 000 names of which two report; each missing one is named."""
    names = tuple(f"node-{i}" for i in range(25_000))
    report = healthy()
    report = replace(report, declared=replace(report.declared, nodes=len(names), node_names=names))
    begun = time.process_time()
    verdict = decide(report, POLICY, FACTS)

    assert Answer.CANNOT_TELL is verdict.answer
    assert len(findings_of(verdict, Cause.EVIDENCE)) >= len(names) - 2
    assert time.process_time() - begun < 15


@pytest.mark.long
def test_a_thousand_healthy_nodes_are_judged_in_seconds() -> None:
    """No step grows with the square of the nodes, except the pairs themselves."""
    report = healthy(1000, 8, network=False)
    begun = time.process_time()
    verdict = decide(report, WITHOUT_NETWORK, FACTS)

    assert Answer.GO is verdict.answer
    assert time.process_time() - begun < 60


def test_a_policy_for_another_type_condemns_nobody_and_passes_nobody() -> None:
    """Its lines say nothing of these machines: wrong sums are not judged by them, and nothing is a go."""
    foreign = replace(POLICY, instance_types=("p5.48xlarge",))
    for report in (healthy(), wrong_sums(healthy())):
        verdict = decide(report, foreign, FACTS)

        assert (Answer.CANNOT_TELL, ()) == (verdict.answer, verdict.condemned)
        assert {Cause.EVIDENCE} == {finding.cause for finding in verdict.findings}
        assert any("is not for instance type cpu" in finding.message for finding in verdict.findings)


@pytest.mark.parametrize(
    ("checks", "brake"), [(["a"], False), (["a", "a"], True), (["a", "b"], False), (["a", "b", "a"], True)]
)
def test_the_brake_lets_one_machine_of_a_small_job_fail_each_check(checks: list[str], brake: bool) -> None:
    """A quarter of four nodes is one; a second one that fails in the same way puts the policy itself under suspicion."""
    found = [
        Finding(Level.FAIL, Cause.HARDWARE, check, f"node-{n}", "is wrong") for n, check in enumerate(checks)
    ]
    one_in_ten = replace(POLICY, max_unfit_fraction=0.1)

    for policy in (POLICY, one_in_ten):
        verdict = conclude(found, FULL, policy, 4, DIGESTS, None)
        assert (brake, len(checks)) == (verdict.suspect_policy, len(verdict.condemned)), "all are named"


@pytest.mark.parametrize("short", ["nodes", "gpus", "ranks"])
def test_a_part_that_nobody_observed_refuses_although_a_warning_names_evidence(short: str) -> None:
    """The warning is about something else."""
    warning = Finding(Level.WARN, Cause.EVIDENCE, "system.clock", "node-0", "was not measured")
    coverage = replace(FULL, **{short: Count(3, 4)})  # type: ignore[arg-type]
    verdict = conclude([warning], coverage, POLICY, 4, DIGESTS, None)

    assert (Level.FAIL, Answer.CANNOT_TELL) == (verdict.level, verdict.answer)
    counted = short.replace("gpus", "GPUs")
    assert f"the report has sound observations of 3 of 4 {counted}" == verdict.findings[0].message
    assert Level.WARN is conclude([warning], FULL, POLICY, 4, DIGESTS, None).level


def test_a_node_without_a_switch_is_in_the_verdict() -> None:
    """Where switches are described; a bad switch would look like bad nodes."""
    first, second = (
        replace(node, identity={**node.identity, topology.SWITCHES: switch})
        for node, switch in zip(healthy().nodes, ("leaf-1", ""), strict=True)
    )
    verdict = verdict_of(replace(healthy(), nodes=(first, second)))

    assert [topology.CHECK] == [finding.check for finding in verdict.findings]


def test_only_nodes_failed_and_a_bad_link_has_two_ends() -> None:
    """The cluster is no node, and what could not be told is no failure."""
    bad = [
        Finding(Level.FAIL, Cause.HARDWARE, "toy", subject, "is bad")
        for subject in ("node-0/rank-1", "node-2<->node-3", CLUSTER)
    ]
    unknown = Finding(Level.FAIL, Cause.EVIDENCE, "toy", "node-1", "is not known")
    verdict = replace(verdict_of(healthy()), findings=(*bad, unknown))

    assert {"node-0", "node-2", "node-3"} == set(failed_nodes(verdict))
