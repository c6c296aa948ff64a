"""Findings about congestion, slow paths, slow nodes, and about what nothing explains: which of them refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import Tolerance
from checks.judge.cpu_contention import RecordedLoads
from checks.judge.culprits.findings import CheckFindings, judge
from checks.judge.culprits.from_report import COLLECTIVE, MatrixSubject, PairTable
from checks.judge.culprits.pattern_findings import MatrixReading
from checks.model import CLUSTER, Finding, Observation, Report, Value
from checks.policy import CheckPolicy
from tests.checks.culprit.planted import GOOD, matrix, ranks
from tests.checks.culprit.rows import FAST, tournament
from tests.sample_reports import FACTS, POLICY


def found(report: Report, **options: float) -> list[Finding]:
    line = CheckPolicy(min_ranks=2, options={"slow_ratio": 0.7, **options})
    policy = replace(POLICY, checks={**POLICY.checks, COLLECTIVE: line}, max_unfit_fraction=0.25)
    return judge(report, {COLLECTIVE: report.observations}, policy, FACTS)[0]


def said(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.subject, f"{one.level.value} {one.cause.value}") for one in findings]


def colliding(nodes: int, every: int, to: float = 0.5) -> Report:
    """One pair of so many is slow in each test; no node has more of them than any other."""
    return tournament(nodes, 1, lambda a, b: {"bandwidth_gbps": FAST * to} if (a + b) % every == 0 else {})


def test_paths_that_collide_are_a_warning_with_their_cost() -> None:
    """No machine is to be replaced; what it costs is said."""
    (one,) = found(colliding(24, 11))

    assert ((CLUSTER, "WARN CONFIGURATION"), True) == (said([one])[0], "are slow in each test" in one.message)
    assert "an all-to-all exchange of all nodes takes" in one.message
    assert one.remedy.startswith("No machine is at fault")


def one_slow_node(share: float, **more: float) -> Report:
    bad = {"bandwidth_gbps": FAST * share, **more}
    return tournament(16, 1, lambda a, b: bad if 5 in (a, b) else {})


def slow_pair(nodes: int, share: float) -> Report:
    return tournament(nodes, 1, lambda a, b: {"bandwidth_gbps": FAST * share} if {a, b} == {2, 3} else {})


@pytest.mark.parametrize(
    ("report", "options", "expected"),
    [
        (colliding(24, 11), {"most_cost": 0.01}, (CLUSTER, "FAIL CONFIGURATION")),
        # Flows that share a path keep a half or a third; one pair of 276 costs the job little, and one of six much.
        (slow_pair(24, 0.5), {}, ("node-2<->node-3", "WARN CONFIGURATION")),
        (slow_pair(24, 0.25), {}, ("node-2<->node-3", "WARN CONFIGURATION")),
        (slow_pair(24, 0.1), {}, ("node-2<->node-3", "FAIL HARDWARE")),
        (slow_pair(4, 0.3), {}, ("node-2<->node-3", "FAIL HARDWARE")),
        # detects_slow_node is the slowness from which on a node is refused.
        (one_slow_node(0.85), {"detects_slow_node": 0.12}, ("node-5", "FAIL HARDWARE")),
        (one_slow_node(0.85), {"detects_slow_node": 0.3}, ("node-5", "WARN HARDWARE")),
        # Less than half of the others' bandwidth is refused also where the ratio is meant for noise: a gate on two cores let it train.
        (one_slow_node(0.18), {"slow_ratio": 0.1}, ("node-5", "FAIL HARDWARE")),
        (one_slow_node(0.45), {"slow_ratio": 0.1}, ("node-5", "FAIL HARDWARE")),
        (one_slow_node(0.45), {"slow_ratio": 0.1, "detects_slow_node": 0.9}, ("node-5", "FAIL HARDWARE")),
        (one_slow_node(0.6), {"slow_ratio": 0.1}, ("node-5", "WARN HARDWARE")),
    ],
)
def test_slow_part_is_refused_from_its_own_share_on(
    report: Report, options: dict[str, float], expected: tuple[str, str]
) -> None:
    """By what it costs the job, and by what the policy asks for."""
    assert [expected] == said(found(report, **options))


def test_a_slow_node_that_also_answers_late_is_refused() -> None:
    """By the shipped policy for machines without GPUs: late is a warning there, and hid that less than half is a failure."""
    findings = found(one_slow_node(0.45, latency_us=5e4), slow_ratio=0.1, late_ratio=0.02, floor_gbps=0.02)

    assert [("node-5", "FAIL HARDWARE"), ("node-5", "WARN HARDWARE")] == said(findings)


def test_a_small_group_behind_an_oversubscribed_switch_is_a_warning() -> None:
    """Its nodes are fast between each other, and look slow to the policy of noisy machines."""
    group = tournament(8, 1, lambda a, b: {"bandwidth_gbps": FAST * 0.4} if (a < 2) != (b < 2) else {})
    assert {"WARN HARDWARE"} == {level for _, level in said(found(group, slow_ratio=0.1))}


@pytest.mark.parametrize(
    "metric", [{"retransmits": 500}, {"slowest_us": 5e6}, {"failures": "wrong data", "wrong_elements": 7}]
)
def test_a_slow_pair_that_also_loses_segments_pauses_or_changes_data_is_refused(
    metric: dict[str, Any],
) -> None:
    """No shared path does that: the warning hides no failure."""
    slow = {"bandwidth_gbps": FAST * 0.5, **metric}
    report = tournament(24, 1, lambda a, b: slow if {a, b} == {2, 5} else {})

    assert ("node-2<->node-5", "FAIL HARDWARE") in said(found(report))


def test_two_halves_with_half_of_the_rate_between_them_are_a_warning_with_their_nodes() -> None:
    """Nobody told the switches."""
    halves = tournament(8, 1, lambda a, b: {"bandwidth_gbps": FAST * 0.5} if (a < 4) != (b < 4) else {})
    (one,) = found(halves)

    assert [(CLUSTER, "WARN CONFIGURATION")] == said([one])
    assert "the nodes fall into 2 groups (node-0, node-1, node-2, node-3; node-4" in one.message


def two_switches(share: float) -> MatrixReading:
    """Eight nodes below each of two switches that the topology names, and this share of the bandwidth between them."""
    parts = ranks(16, 1, lambda node: (f"leaf-{node // 8}",))
    made = matrix(parts, lambda a, b: a // 8 != b // 8, value=lambda _: GOOD * share)
    return MatrixReading(COLLECTIVE, MatrixSubject.BANDWIDTH, made, decode(made, Tolerance(0.7)))


@pytest.mark.parametrize(
    ("share", "declared", "expected"),
    [
        (0.5, 0.0, "WARN"),  # oversubscribed, or one of them is slow: nobody said what it should be
        (0.5, 2.0, ""),
        (0.45, 2.0, ""),
        (0.3, 2.0, "FAIL"),
        (0.5, 1.0, "FAIL"),
        (0.8, 0.0, ""),
        (0.8, 1.0, ""),
    ],
)
def test_slowness_between_switches_is_judged_by_the_declared_oversubscription(
    share: float, declared: float, expected: str
) -> None:
    """A slow switch among two must not be passed over in silence, and an oversubscribed fabric is not refused."""
    reading = two_switches(share)
    table = PairTable(reading.matrix.endpoints, tuple(range(16)))
    options = {"oversubscription": declared}
    findings = CheckFindings(COLLECTIVE, table, [reading], RecordedLoads((), {}), options).findings()

    assert expected == "".join(one.level.value for one in findings)


def test_a_sweep_that_could_not_have_seen_such_a_node_is_missing_evidence() -> None:
    """And says what it would have seen; without the option nobody asked."""
    healthy = tournament(16, 1)

    assert [] == found(healthy) == found(healthy, detects_slow_node=0.3)
    (one,) = found(healthy, detects_slow_node=0.02)
    assert (CLUSTER, "FAIL EVIDENCE") == said([one])[0]
    assert "but the policy asks for 2 %" in one.message
    (one,) = found(healthy, detects_slow_link=0.2)
    assert (CLUSTER, "FAIL EVIDENCE") == said([one])[0] and "a link would have been named" in one.message
    assert [] == found(healthy, detects_slow_link=0.6)
    of_three = said(found(tournament(3, 1), detects_slow_node=0.3))
    assert [(CLUSTER, "FAIL EVIDENCE")] == [one for one in of_three if "FAIL" in one[1]]


def congested(nodes: tuple[int, ...], first: int, last: int) -> Report:
    """These nodes were slow towards the others in these rounds, and good when they were measured again."""
    report = tournament(16, 1, lambda a, b: {"latency_us": 51.0} if (a in nodes) != (b in nodes) else {})
    return replace(
        report, observations=tuple(_spoiled(row, nodes, first, last) for row in report.observations)
    )


def _spoiled(row: Observation, nodes: tuple[int, ...], first: int, last: int) -> Observation:
    mine = int(row.subject.rpartition("-")[2])
    metrics: Any = row.metrics
    tests = zip(metrics["peers"], metrics["bandwidth_gbps"], metrics["in_round"], strict=True)
    rates = (
        rate / 3 if (mine in nodes) != (peer in nodes) and first <= at <= last else rate
        for peer, rate, at in tests
    )
    return replace(row, metrics={**row.metrics, "bandwidth_gbps": tuple(rates)})


def test_congestion_that_has_passed_is_a_warning_with_its_rounds_and_nodes() -> None:
    """No node is blamed for it."""
    (one,) = found(congested((4, 5, 6), 3, 9))

    assert (CLUSTER, "WARN CONFIGURATION") == said([one])[0]
    assert "the network was congested in rounds 3 to 9" in one.message
    assert "node-4, node-5, node-6" in one.message


@pytest.mark.parametrize("damaged", [(), (0,), ("a",) * 18, (-1,) * 18, (1 << 40,) * 18, (None,) * 18])
def test_rounds_that_are_damaged_are_not_used(damaged: tuple[Any, ...]) -> None:
    """The values are judged nevertheless."""
    report = one_slow_node(0.3)
    rounds: Value = damaged
    rows = tuple(replace(row, metrics={**row.metrics, "in_round": rounds}) for row in report.observations)

    assert [("node-5", "FAIL HARDWARE")] == said(found(replace(report, observations=rows)))


def test_a_pair_that_has_not_been_good_yet_is_missing_evidence() -> None:
    """One bad test, never measured again: nobody knows whether it is a link."""
    report = tournament(24, 1)
    rows = list(report.observations)
    metrics: Any = rows[3].metrics
    rates = metrics["bandwidth_gbps"]
    rows[3] = replace(rows[3], metrics={**metrics, "bandwidth_gbps": (*rates[:4], 0.1, *rates[5:])})
    (one,) = found(replace(report, observations=tuple(rows)))

    assert (CLUSTER, "FAIL EVIDENCE") == said([one])[0]
    assert "1 of them is of a pair that was never good" in one.message


FOUR = {(0, 1), (2, 3), (4, 5), (6, 7)}
LINKS = {(f"node-{a}<->node-{b}", "FAIL HARDWARE") for a, b in FOUR}


def four_links(**metrics: float | int | str | None) -> Report:
    return tournament(24, 1, lambda a, b: metrics if (min(a, b), max(a, b)) in FOUR else {})


@pytest.mark.parametrize(
    "metrics",
    [
        {"failures": "wrong data", "wrong_elements": 77},
        {"failures": "no answer", **dict.fromkeys(("bandwidth_gbps", "latency_us", "slowest_us", "wrong_elements"))},
        {"bandwidth_gbps": FAST / 1000},
        {"slowest_us": 5e6},
    ],
)  # fmt: skip
def test_wrong_data_no_answer_a_thousandth_of_the_rate_and_pauses_are_no_property_of_the_fabric(
    metrics: dict[str, Any],
) -> None:
    """Each of the links is named, with a minimum and without one."""
    assert LINKS == set(said(found(four_links(**metrics), floor_gbps=1.0)))
    assert "bandwidth_gbps" in metrics or LINKS == set(said(found(four_links(**metrics))))


def test_nodes_that_are_slow_towards_some_partners_are_refused() -> None:
    """Two nodes of 32 lose the rate towards four ninths of their partners."""
    report = tournament(
        32, 1, lambda a, b: {"bandwidth_gbps": FAST * 0.3} if {a, b} & {5, 20} and (a + b) % 9 < 4 else {}
    )

    assert [one for one in found(report) if one.level.value == "FAIL"]


def uncounted(report: Report) -> Report:
    """The same without what says how many segments were lost, as where a kernel does not count them."""
    left = ("data_segments", "needless_retransmits")
    rows = (
        replace(row, metrics={k: v for k, v in row.metrics.items() if k not in left})
        for row in report.observations
    )
    return replace(report, observations=tuple(rows))


def at_times(
    report: Report, who: set[int], metric: str, value: float, times: set[int], other: int | None = None
) -> Report:
    """The tests of these ranks (with one other, if it is said) had this value in these rounds."""

    def changed(row: Observation) -> Observation:
        metrics: Any = row.metrics
        me = int(row.subject.rpartition("-")[2])
        its = zip(metrics[metric], metrics["peers"], metrics["in_round"], strict=True)
        values = tuple(
            value if at in times and who & {me, peer} and (other is None or other in (me, peer)) else old
            for old, peer, at in its
        )
        return replace(row, metrics={**metrics, metric: values})

    return replace(report, observations=tuple(map(changed, report.observations)))


def measured_again() -> Report:
    """All pairs of rank 3 were measured thrice more."""
    return tournament(16, 1, lambda a, b: {"latency_us": 51.0} if 3 in (a, b) else {})


def test_a_node_that_was_slow_once_for_a_short_time_is_a_warning() -> None:
    """Every retest was good: a machine is not refused for what passed. The finding names it."""
    (one,) = found(at_times(measured_again(), {3}, "bandwidth_gbps", 0.2, set(range(5, 8))))

    assert [("node-3", "WARN HARDWARE")] == said([one])
    assert "they were good when they were measured again" in one.message
    assert one.remedy.startswith("Run the gate again")


def test_a_node_that_was_slow_twice_or_again_or_was_not_measured_again_is_refused() -> None:
    """A fault that returns, and one of which nobody knows whether it has passed."""
    twice = at_times(measured_again(), {3}, "bandwidth_gbps", 0.2, {1, 2, 3, 9, 10, 11})
    again = at_times(measured_again(), {3}, "bandwidth_gbps", 0.2, {5, 6, 7, *range(15, 99)})
    never = at_times(tournament(16, 1), {3}, "bandwidth_gbps", 0.2, {5, 6, 7})

    for report in (twice, again, never):
        assert ("node-3", "FAIL HARDWARE") in said(found(report))


def test_a_warning_of_what_has_passed_hides_no_other_finding_about_the_node() -> None:
    """Neither lost segments in each test, nor a slowness that the policy asks for."""
    base = tournament(16, 1, lambda a, b: {"bandwidth_gbps": FAST * 0.8} if 3 in (a, b) else {})
    short = at_times(base, {3}, "bandwidth_gbps", 0.2, {5, 6, 7})

    assert ("node-3", "FAIL HARDWARE") in said(found(short, detects_slow_node=0.15))
    losing = at_times(short, {3}, "retransmits", 500, set(range(999)))
    assert ("node-3", "FAIL HARDWARE") in said(found(losing))
    one_link = at_times(short, {3}, "retransmits", 500, set(range(999)), other=9)
    assert ("node-3<->node-9", "FAIL HARDWARE") in said(found(one_link))


@pytest.mark.parametrize("metric", ["retransmits", "slowest_us"])
@pytest.mark.parametrize("who", [{3, 9}, {3, 9, 12}])
def test_trouble_for_most_of_the_sweep_is_not_called_congestion(metric: str, who: set[int]) -> None:
    """Both nodes lose segments, or are silent for half a second, from the fourth round on."""
    findings = found(at_times(tournament(16, 1), who, metric, 5e5, set(range(3, 99))))

    assert {(f"node-{n}", "FAIL HARDWARE") for n in who} == set(said(findings))


@pytest.mark.parametrize("begin", [10, 12])
@pytest.mark.parametrize("counted", [True, False])
def test_losses_that_begin_late_and_do_not_end_are_a_warning_that_names_the_nodes(
    begin: int, counted: bool
) -> None:
    """Two nodes at once may be congestion, of which nobody knows whether it has passed; nothing was said of it."""
    base = tournament(16, 1) if counted else uncounted(tournament(16, 1))
    findings = found(at_times(base, {3, 9}, "retransmits", 500, set(range(begin, 99))))

    assert [(CLUSTER, "WARN EVIDENCE")] == said(findings)
    assert all(node in findings[0].message for node in ("node-3 (", "node-9 ("))


@pytest.mark.parametrize("moment", [lambda at: 0.0, lambda at: 7.5, lambda at: 100.0 - at])
def test_moments_that_contradict_the_rounds_are_not_used(moment: Callable[[int], float]) -> None:
    """A link is bad in three tests of four: at one moment that is passed over, and a clock that stands does not tell the moment."""
    base = tournament(16, 1, lambda a, b: {"latency_us": 51.0} if {a, b} == {2, 5} else {})
    report = at_times(base, {2}, "bandwidth_gbps", 0.02, set(range(15, 99)), other=5)
    rows = tuple(
        replace(
            row, metrics={**row.metrics, "began_s": tuple(moment(at) for at in rounds if type(at) is int)}
        )
        for row in report.observations
        if isinstance(rounds := row.metrics["in_round"], tuple)
    )

    assert [(CLUSTER, "WARN EVIDENCE")] == said(found(report))
    assert [("node-2<->node-5", "FAIL HARDWARE")] == said(found(replace(report, observations=rows)))


@pytest.mark.parametrize(("nodes", "sick"), [(16, 4), (16, 5), (16, 8), (17, 8), (16, 12), (32, 15)])
def test_if_no_majority_is_fast_the_answer_is_missing_evidence(nodes: int, sick: int) -> None:
    """A policy that asks for slow nodes gets no GO where they cannot be told from the fast ones, or are too many to be named."""
    report = tournament(nodes, 1, lambda a, b: {"bandwidth_gbps": FAST * 0.75} if min(a, b) < sick else {})
    findings = found(report, detects_slow_node=0.2)

    if sick <= nodes / 4:
        assert {(f"node-{n}", "FAIL HARDWARE") for n in range(sick)} == set(said(findings))
    else:
        fails = [one for one in findings if one.level.value == "FAIL"]
        assert {(CLUSTER, "FAIL EVIDENCE")} == set(said(fails))
        blind, words = "a node would have been named from", "no majority of the nodes is fast"
        assert any(words in one.message or (2 * sick < nodes and blind in one.message) for one in findings)


@pytest.mark.parametrize("leaf", [1, 4, 8])
def test_a_fabric_that_is_faster_within_a_leaf_has_no_slow_half(leaf: int) -> None:
    """All nodes have as many near partners."""
    report = tournament(16, 1, lambda a, b: {"bandwidth_gbps": FAST * 0.75} if a // leaf != b // leaf else {})

    assert [] == [one for one in found(report, detects_slow_node=0.2) if "no majority" in one.message]
