"""Judged beside a baseline: what is worse or unknown is said, and nothing is let through for its sake."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.judge.baseline.bands import Baseline, digest_of
from checks.judge.baseline.learn import learn
from checks.judge.baseline.samples import Side
from checks.judge.ledger import NO_BASELINE
from checks.model import CLUSTER, Cause, Finding, Level, Profile, Report, Verdict
from checks.policy import CheckPolicy, Expect, Over, Rule
from tests.checks.baselines import FOUR, GEMM, STEADY, about, doctored, gemm, judged, learned
from tests.checks.judge.baseline.test_learn import SPEEDS
from tests.checks.judge.culprits.test_silent_ranks import errored
from tests.sample_reports import (
    POLICY,
    verdict_of,
    with_metric,
    with_row,
    without_node,
    without_row,
    wrong_sums,
)


def test_baseline_passes_the_values_it_was_learned_from() -> None:
    """Values within their bands leave no finding, and the digest of the baseline is in the verdict."""
    verdict = judged(gemm(STEADY), FOUR)

    assert (Level.PASS, ()) == (verdict.level, verdict.findings)
    assert digest_of(FOUR) == verdict.digests.baseline


def test_a_slow_rank_is_a_warning_about_hardware() -> None:
    """The message has the value, the band's end, the median and how many values it rests on."""
    verdict = judged(gemm([*STEADY[:5], 30.0, *STEADY[6:]]), FOUR)

    (found,) = about(verdict, GEMM)
    assert (Level.WARN, Cause.HARDWARE, "node-2/rank-5") == (found.level, found.cause, found.subject)
    assert "gflops is 30, below the learned band, which ends at 38" in found.message
    assert "median of 40.1" in found.message and "(32 values, 4 reports)" in found.message


def test_baseline_calls_a_slowdown_of_all_nodes_a_configuration_regression() -> None:
    """More than half of the nodes: what they share has changed."""
    (found,) = about(judged(gemm([value * 0.8 for value in STEADY]), FOUR), GEMM)

    assert (Level.WARN, Cause.CONFIGURATION, CLUSTER) == (found.level, found.cause, found.subject)
    assert "on 4 of 4 nodes" in found.message


def test_baseline_merges_all_slow_sizes_into_one_finding() -> None:
    """A sweep of eight sizes is one sentence about the worst of them."""
    slow = with_metric(gemm(STEADY), "collective.all_reduce", "node-0/rank-0", "busbw_gbps", (1e-5,) * 8)

    found, *policy_s = about(judged(slow, FOUR), "collective.all_reduce")
    assert all("learned band" not in finding.message for finding in policy_s)

    assert "and 7 more values are outside their bands" in found.message and found.subject == "node-0/rank-0"


def test_faster_is_no_finding() -> None:
    """Only the bad side of a band counts."""
    assert judged(gemm([value * 2 for value in STEADY]), FOUR).findings == ()


def test_a_latency_is_bad_above() -> None:
    """The unit says which side is the bad one."""
    slow = with_metric(gemm(STEADY), "network.pairs", "node-1", "latency_us", (90.0, 90.0, 90.0))

    (found,) = about(judged(slow, FOUR), "network.pairs")

    assert "latency_us is 90, above the learned band" in found.message


STEP = ("training.step", "node-1/rank-2")
STEP_MISSING = {
    "no metric": with_row(gemm(STEADY), *STEP, lambda row: replace(row, metrics={})),
    "null": with_metric(gemm(STEADY), *STEP, "gflops", (None, 40.0)),
    "errored": with_row(gemm(STEADY), *STEP, partial(errored, reason="it died")),
    "no row": without_row(gemm(STEADY), *STEP),
}


@pytest.mark.parametrize("how", STEP_MISSING)
def test_baseline_reports_a_banded_value_that_was_not_measured(how: str) -> None:
    """Absence of a number that was learned is a WARN of its own, cause EVIDENCE, for an optional check as well."""
    found = about(judged(STEP_MISSING[how], FOUR), "training.step")

    assert found and all(finding.cause is Cause.EVIDENCE for finding in found)
    if how == "null":
        assert any("the baseline has a band for it: gflops" in finding.message for finding in found)


def test_a_check_that_is_left_out_altogether_is_said() -> None:
    """A plan that skips what was learned is not compared in silence."""
    report = gemm(STEADY)
    plan = tuple(p for p in report.plan if p.check != GEMM)
    rows = tuple(row for row in report.observations if row.check != GEMM)
    found = about(judged(replace(report, plan=plan, observations=rows), FOUR), GEMM)

    assert any("not measured, but the baseline has a band for it: gflops" in f.message for f in found)


def test_a_group_that_the_baseline_does_not_know_is_said() -> None:
    """Two nodes are not held to the collectives of four; what a node does alone is."""
    verdict = judged(gemm([*STEADY[:3], 20.0]), FOUR)

    (found,) = about(verdict, "baseline")
    assert (Level.WARN, Cause.EVIDENCE) == (found.level, found.cause)
    assert "has no data for cpu, 2 nodes" in found.message and "collective.all_reduce" in found.message
    assert [f.subject for f in about(verdict, GEMM)] == ["node-1/rank-3"]


def test_an_empty_baseline_is_no_pass() -> None:
    """Compared with nothing is not compared."""
    verdict = judged(gemm(STEADY), learn([]))

    assert verdict.level is Level.WARN and {f.cause for f in verdict.findings} == {Cause.EVIDENCE}


def test_a_number_without_a_band_is_said() -> None:
    """A size that was never learned is not taken for good."""
    at = ("collective.all_reduce", "node-0/rank-0")
    verdict = judged(with_metric(gemm(STEADY), *at, "sizes_bytes", (1 << 30, *range(1, 8))), FOUR)

    assert any("no band for" in f.message and "busbw_gbps at 1 GiB" in f.evidence for f in verdict.findings)


@pytest.mark.parametrize(
    ("driver", "cause", "words"),
    [
        ("580.9", Cause.CONFIGURATION, "driver is 580.9, but the baseline was learned with 570.1"),
        ("", Cause.EVIDENCE, "driver could not be read"),
    ],
)
def test_another_driver_is_said(driver: str, cause: Cause, words: str) -> None:
    """Numbers that were learned under another driver are compared, and that is no secret."""
    report = gemm(STEADY)
    nodes = tuple(replace(n, identity={**n.identity, "driver": driver}) for n in report.nodes)

    (found,) = judged(replace(report, nodes=nodes), FOUR).findings

    assert cause is found.cause and found.message.startswith(words)


def test_slow_machines_do_not_become_fit_by_being_learned() -> None:
    """A policy's own line stands, whatever the baseline holds for usual."""
    slow = gemm([0.5] * 8)

    assert judged(slow, learned(gemm([0.5] * 8))).level is Level.FAIL


EXPECTED = Rule("gflops", "a test", Over.EXPECTED, warn_below=0.9, fail_below=0.8, expect=Expect.GEMM)
EXPECTING = replace(POLICY, checks={**POLICY.checks, GEMM: CheckPolicy(rules=(EXPECTED,))})


def no_baseline(verdict: Verdict) -> list[Finding]:
    """The findings that say that nothing is known."""
    return [f for f in verdict.findings if f.kind in NO_BASELINE]


def test_a_learned_band_answers_no_baseline() -> None:
    """What the facts do not know the site does: the value is compared with the band instead."""
    without, within = (judged(gemm(STEADY), one, EXPECTING) for one in (None, FOUR))
    slow = judged(gemm([20.0] * 8), FOUR, EXPECTING)

    assert (1, 0) == (len(no_baseline(without)), len(no_baseline(within)))
    assert [Cause.CONFIGURATION] == [f.cause for f in about(slow, GEMM)]


def test_another_check_s_band_answers_nothing() -> None:
    """Nor does that of a size which was not measured."""
    groups = tuple(replace(g, bands=tuple(b for b in g.bands if b.check != GEMM)) for g in FOUR.groups)

    assert len(no_baseline(judged(gemm(STEADY), replace(FOUR, groups=groups), EXPECTING))) == 1


def _made_over(baseline: Baseline, **changes: object) -> Baseline:
    """A baseline whose bands somebody edited by hand."""
    groups = tuple(
        replace(group, bands=tuple(replace(band, **changes) for band in group.bands))  # type: ignore[arg-type]
        for group in baseline.groups
    )
    return replace(baseline, groups=groups)


def test_a_report_is_no_witness_for_itself() -> None:
    """Learned from this report alone: "no baseline" stays, and it is said why."""
    report = gemm(STEADY)
    verdict = judged(report, learned(report), EXPECTING)

    assert 1 == len(no_baseline(verdict))
    assert ["baseline"] == [f.check for f in verdict.findings if "from this report only" in f.message]


def test_a_band_that_is_wide_as_a_barn_door_answers_nothing() -> None:
    """Half of the usual speed would lie within it."""
    assert 1 == len(no_baseline(judged(gemm(STEADY), _made_over(FOUR, low=1e-9), EXPECTING)))


def test_which_side_is_bad_the_policy_says() -> None:
    """A band that calls slowness good is held to the metric's own side."""
    slow = judged(gemm([20.0] * 8), _made_over(FOUR, bad=Side.HIGH), EXPECTING)

    assert [Cause.CONFIGURATION] == [f.cause for f in about(slow, GEMM)]


def test_a_baseline_of_small_messages_does_not_stand_for_large_ones() -> None:
    """What was never sent was not measured, whatever is known of it."""
    check = "collective.all_reduce"
    rule = Rule(
        "busbw_gbps", "a test", Over.EXPECTED, expect=Expect.COLLECTIVE, at="sizes_bytes", warn_below=0.9
    )
    policy = replace(POLICY, checks={**POLICY.checks, check: CheckPolicy(min_ranks=2, rules=(rule,))})

    assert "128 MiB" in no_baseline(judged(gemm(STEADY), FOUR, policy))[0].message


CHANGES = st.sampled_from(
    [
        lambda report: report,
        lambda report: wrong_sums(report, "node-1/rank-3"),
        lambda report: without_node(report, "node-2"),
        lambda report: without_row(report, "storage.write", CLUSTER),
        lambda report: with_metric(report, GEMM, "node-0/rank-1", "gflops", 30.0),
        lambda report: with_metric(report, GEMM, "node-0/rank-1", "gflops", (None, 30.0)),
        lambda report: replace(report, profile=Profile.DEEP),
        lambda report: replace(report, observations=()),
        lambda report: replace(report, declared=replace(report.declared, nodes=9)),
    ]
)


@settings(max_examples=60)
@given(CHANGES, SPEEDS, st.floats(0.3, 3))
def test_a_baseline_never_improves_a_verdict(change: object, values: list[float], factor: float) -> None:
    """Every finding that is there without it is there with it; any baseline, any report."""
    assert callable(change)
    report: Report = change(gemm(STEADY))
    without = verdict_of(report)
    within = judged(report, doctored(learned(gemm(values)), factor))

    assert set(without.findings) <= set(within.findings)
    assert within.level.rank >= without.level.rank
