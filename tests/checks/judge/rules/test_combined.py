"""Values that belong together: the metrics of a rank and the ranks of a node, whose median is an outlier where no single value is."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from checks.documents.columns import CheckTable
from checks.judge.rules.apply import apply
from checks.judge.rules.combined import chances, examine
from checks.judge.rules.values import Chances, RuleContext
from checks.model import CLUSTER, Cause, Declared, Finding, Level, Observation, Outcome, Value, node_of
from checks.model_details import Reference, Relation
from checks.policy import CheckPolicy, OnWarn, Over, Policy, Rule
from tests.benchmarks.relative_rules import DRAWS, Draw, gamma, half_normal, normal

CHECK = "compute.memory_bandwidth"
METRICS = ("copy_gbps", "triad_gbps", "read_gbps")
PEERS = Rule("copy_gbps", "s", Over.PEERS, warn_below=0.95, fail_below=0.9)
CHANCES = Chances(1e-7, 1e-7, 1e-7)
BUSY: Mapping[str, Value] = {"host_load": 25.0, "host_taken": 0.8, "host_idle": 0.0, "host_cpus": 2}

# node, rank of the node, metric -> the speed of a machine without noise
Speed = Callable[[int, int, int], float]


def usual(node: int, rank: int, metric: int) -> float:
    """All alike."""
    return 100.0


def _rows(
    nodes: int, ranks: int, noise: float, speed: Speed, seed: int, metrics: int, draw: Draw = normal
) -> list[Observation]:
    chance = random.Random(seed)

    def row(node: int, rank: int) -> Observation:
        values = [speed(node, rank, metric) * (1 + noise * draw(chance)) for metric in range(metrics)]
        subject = f"node-{node}/rank-{node * ranks + rank}"
        return Observation(CHECK, subject, Outcome.MEASURED, 1.0, dict(zip(METRICS, values, strict=False)))

    return [row(node, rank) for node in range(nodes) for rank in range(ranks)]


def _judged(
    rule: Rule, nodes: int, ranks: int, noise: float, speed: Speed = usual, seed: int = 1, metrics: int = 1
) -> list[Finding]:
    return _found(rule, _rows(nodes, ranks, noise, speed, seed, metrics))


def _found(rule: Rule, rows: Sequence[Observation]) -> list[Finding]:
    """With this rule about each of the metrics."""
    line = CheckPolicy(rules=tuple(replace(rule, metric=name) for name in METRICS if name in rows[0].metrics))
    nodes = len({node_of(row.subject) for row in rows})
    known = RuleContext(declared=Declared("cpu", nodes, 0, len(rows) // nodes), chances=CHANCES)
    return list(apply(CHECK, line, rows, len(rows), known))


def _named(findings: Sequence[Finding]) -> set[str]:
    return {finding.subject for finding in findings if finding.subject != CLUSTER}


def _by_node(speeds: Sequence[float]) -> Speed:
    return lambda node, rank, metric: speeds[node]


def _slow(which: int, share: float, ranks: int = 99) -> Speed:
    return lambda node, rank, metric: 100.0 * share if node == which and rank < ranks else 100.0


@pytest.mark.parametrize("over", [Over.PEERS, Over.NODE, Over.FLEET])
@pytest.mark.parametrize("seed", range(4))
def test_noise_names_nobody(over: Over, seed: int) -> None:
    """40 nodes of 8 ranks at 3 % noise: dozens of values are beyond the WARN threshold, and no finding says so."""
    assert [] == _judged(replace(PEERS, over=over), 40, 8, 0.03, seed=seed, metrics=2)


@pytest.mark.parametrize("seed", range(4))
def test_a_node_whose_ranks_are_all_slower_is_named_as_one(seed: int) -> None:
    """8 % slower at 2 % noise: at most one of its values is an outlier by itself, their median is one."""
    *others, found = _judged(PEERS, 80, 8, 0.02, _slow(7, 0.92), seed)

    assert len(others) < 2 and {"node-7"} >= {node_of(subject) for subject in _named(others)}
    assert (Level.WARN, Cause.HARDWARE, "node-7") == (found.level, found.cause, found.subject)
    compared = found.compared
    assert compared and compared.of and 0.95 == compared.threshold
    assert (Reference.PEERS, Relation.BELOW) == (compared.reference, compared.relation)
    assert 0.9 <= compared.value / compared.of < 0.95
    assert found.message.startswith("is at 9") and found.message.endswith(
        " % of the median of its peers, by the median of 8 values of 8 ranks (copy_gbps), threshold 95 %"
    )
    assert ("copy_gbps", "s") == (found.metric, found.source)


def test_a_node_far_below_the_only_threshold_is_named_whatever_the_spread() -> None:
    """A rule that fails and never warns: two fifths slower at 5 % noise, of six nodes."""
    assert {"node-3"} == _named(_judged(replace(PEERS, warn_below=None), 6, 8, 0.05, _slow(3, 0.6)))


def test_a_node_whose_own_values_vary_more_has_to_be_farther() -> None:
    """Six times as much as the others': its median at 97 % is nothing that its noise does not explain."""
    pairs = zip(_rows(20, 8, 0.02, usual, 0, 3), _rows(20, 8, 0.12, _slow(3, 0.97), 0, 3), strict=True)
    rows = [wide if node_of(row.subject) == "node-3" else row for row, wide in pairs]

    assert set() == _named(_found(PEERS, rows))


def test_a_rank_that_is_slower_in_all_metrics_is_named() -> None:
    """One rank of 320, 8 % slower in three metrics at 1.6 % noise; the other ranks of its node are not."""
    found = _judged(PEERS, 40, 8, 0.016, _slow(7, 0.92, ranks=1), metrics=3)

    assert {"node-7/rank-56"} == _named(found)
    assert "the median of 3 values (copy_gbps, triad_gbps, read_gbps)" in found[0].message


def test_a_rank_is_compared_with_its_own_node_in_all_metrics() -> None:
    """The node is slower as a whole, and one of its ranks is slower than the others."""

    def speed(node: int, rank: int, metric: int) -> float:
        return (50.0 if node == 7 else 100.0) * (0.91 if (node, rank) == (7, 3) else 1.0)

    found = _judged(replace(PEERS, over=Over.NODE), 40, 8, 0.014, speed, metrics=3)

    assert {"node-7/rank-59"} == _named(found)
    assert found[0].compared and Reference.NODE is found[0].compared.reference
    assert "% of the median of its node, by the median of 3 values" in found[0].message


def test_a_node_is_compared_with_the_fleet_in_all_metrics() -> None:
    """One rank per node: 10 % slower in three metrics at 1.2 % noise."""
    rows = [replace(row, evidence=f"of {row.subject}") for row in _rows(80, 1, 0.012, _slow(7, 0.9), 1, 3)]
    (found,) = _found(replace(PEERS, over=Over.FLEET), rows)

    assert "node-7" == found.subject and "of node-7/rank-7" == found.evidence
    assert found.compared and Reference.FLEET is found.compared.reference
    of_three = "% of the median of the nodes, by the median of 3 values (copy_gbps, triad_gbps, read_gbps)"
    assert found.message.startswith("is at 9") and of_three in found.message


def test_a_single_value_is_not_judged_twice() -> None:
    """One rank per node and one metric: the value is its own median, which is no second evidence."""
    (found,) = _judged(PEERS, 40, 1, 0.01, _slow(7, 0.5))

    assert found.message.startswith("copies ") and "by the median of" not in found.message


def test_node_median_is_unmoved_by_one_dead_rank() -> None:
    """The median of eight does not move."""
    assert {"node-7/rank-56"} == _named(_judged(PEERS, 40, 8, 0.01, _slow(7, 0.1, ranks=1), metrics=2))


@pytest.mark.parametrize("draw", [normal, half_normal, gamma])
@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
@pytest.mark.parametrize(
    ("nodes", "ranks", "metrics"), [(1, 8, 3), (2, 8, 3), (4, 8, 1), (4, 1, 3), (8, 1, 1), (16, 8, 1)]
)
def test_healthy_machines_of_a_small_cluster_are_not_named(
    nodes: int, ranks: int, metrics: int, noise: float, draw: Draw
) -> None:
    """Four reports of each: noise on both sides, and noise that only slows, as interference does."""
    rules = [replace(PEERS, over=over) for over in (Over.PEERS, Over.NODE)]
    for seed in range(4):
        rows = _rows(nodes, ranks, noise, usual, seed, metrics, draw)
        named = set().union(*(_named(_found(rule, rows)) for rule in rules))
        assert not named, (seed, named)


@pytest.mark.parametrize(
    ("nodes", "ranks", "share"), [(3, 8, 0.85), (4, 8, 0.85), (8, 8, 0.9), (16, 8, 0.9), (4, 1, 0.6), (8, 1, 0.6)]
)  # fmt: skip
def test_a_slow_node_of_a_small_cluster_is_named(nodes: int, ranks: int, share: float) -> None:
    """In three metrics at 1 % noise."""
    for seed in range(5):
        found = _judged(PEERS, nodes, ranks, 0.01, _slow(1, share), seed, metrics=3)
        assert {"node-1"} == {node_of(subject) for subject in _named(found)}, seed


@pytest.mark.parametrize(
    ("nodes", "slow"), [(16, (0, 1, 2, 4)), (40, (0, 1, 4, 8, 12)), (100, (0, 4, 12, 30))]
)
def test_more_faults_never_make_a_fault_unremarkable(nodes: int, slow: tuple[int, ...]) -> None:
    """One node is a fifth slower at 2 % noise, and so many others an eighth: each such report has a finding, however many they are."""
    for count in slow:
        speeds = [80.0, *[88.0] * count, *[100.0] * (nodes - 1 - count)]
        for seed in range(4):
            found = _judged(PEERS, nodes, 1, 0.02, _by_node(speeds), seed)
            assert {one.level for one in found} & {Level.WARN, Level.FAIL}, (count, seed)


def test_a_third_of_a_cluster_at_another_speed_is_reported() -> None:
    """A third of 40 nodes is an eighth slower in one value, so that none is an outlier: a WARN says so and blames nobody."""
    (found,) = _judged(PEERS, 40, 1, 0.02, lambda node, rank, metric: 89.0 if node < 13 else 100.0, 3)
    assert (Level.WARN, Cause.EVIDENCE, CLUSTER) == (found.level, found.cause, found.subject)


def test_a_clear_outlier_of_a_small_group_is_never_silent() -> None:
    """Eight nodes, one of which is a fifth slower in one value, at 2 % noise: it may be noise, which is said."""
    for seed in range(6):
        (found,) = _judged(PEERS, 8, 1, 0.02, _slow(7, 0.78), seed)
        assert (Cause.EVIDENCE, CLUSTER) == (found.cause, found.subject) and "node-7" in found.message


@pytest.mark.parametrize("over", [Over.PEERS, Over.NODE])
@pytest.mark.parametrize("nodes", [3, 10, 40])
def test_two_halves_are_not_healthy(over: Over, nodes: int) -> None:
    """Half of the ranks at half the speed is a FAIL; of many nodes, one that blames nobody."""
    found = _judged(
        replace(PEERS, over=over), nodes, 8, 0.01, lambda node, rank, metric: 50.0 + 50.0 * (rank % 2)
    )

    assert Level.FAIL in {finding.level for finding in found}
    if nodes == 40:
        assert {(Level.FAIL, Cause.EVIDENCE, CLUSTER)} == {(f.level, f.cause, f.subject) for f in found}
        assert "160 of 320 values are beyond the FAIL threshold" in found[0].message


def test_many_slower_nodes_are_never_silent() -> None:
    """A quarter of the nodes is 8 % slower in one value, so that none is an outlier: a WARN says so and blames nobody."""
    found = _judged(PEERS, 200, 1, 0.02, lambda node, rank, metric: 92.0 if node % 4 == 0 else 100.0)

    (said,) = (f for f in found if f.subject == CLUSTER)
    assert (Level.WARN, Cause.EVIDENCE) == (said.level, said.cause)
    assert "values are beyond the WARN threshold, but copy_gbps varies so much that none" in said.message


def test_cluster_has_no_finding_when_node_medians_explain_the_excess() -> None:
    """Three of eighty nodes are slower on all ranks: they are named, and nothing is said about the cluster."""
    found = _judged(PEERS, 80, 8, 0.02, lambda node, rank, metric: 92.0 if node < 3 else 100.0)

    assert {"node-0", "node-1", "node-2"} == {node_of(subject) for subject in _named(found)}
    assert not [f for f in found if f.subject == CLUSTER]


def test_a_busy_host_is_not_blamed_for_its_median() -> None:
    """A rule that depends on the CPU: the cause is EVIDENCE, as for a single value."""
    rows = [
        replace(row, metrics={**row.metrics, **BUSY}) if row.subject.startswith("node-7/") else row
        for row in _rows(40, 8, 0.02, _slow(7, 0.92), 1, 1)
    ]
    (found,) = _found(replace(PEERS, needs_cpu=True), rows)

    assert (Cause.EVIDENCE, "node-7") == (found.cause, found.subject)


def test_rules_with_other_thresholds_are_not_combined() -> None:
    """A metric that is allowed to vary more says nothing about the others."""
    rows = _rows(40, 1, 0.014, _slow(7, 0.92), 1, 2)
    strict, loose = PEERS, replace(PEERS, metric="triad_gbps", warn_below=0.5, fail_below=0.4)
    known = RuleContext(declared=Declared("cpu", 40, 0, 1), chances=CHANCES)
    alone = list(apply(CHECK, CheckPolicy(rules=(strict,)), rows, 40, known))

    assert alone == list(apply(CHECK, CheckPolicy(rules=(strict, loose)), rows, 40, known))


def test_ranks_that_lack_half_of_the_values_are_not_compared_by_their_median() -> None:
    """The median of one metric varies more than that of three."""
    rows = [
        replace(row, metrics={"copy_gbps": 94.9}) if row.subject == "node-7/rank-56" else row
        for row in _rows(40, 8, 0.004, usual, 1, 3)
    ]
    found = [f for f in _found(PEERS, rows) if f.cause is Cause.HARDWARE]

    assert not [f for f in found if f.message.startswith("the median of")]


SLOWEST = replace(PEERS, over=Over.SLOWEST, warn_below=None)


def _chances(rules: Sequence[Rule], rows: Sequence[Observation] | None) -> Chances:
    """The chances of a budget of 0.3; without rows the check was not planned."""
    policy = Policy("x", ("cpu",), OnWarn.GO, 0.25, {CHECK: CheckPolicy(rules=tuple(rules))})
    return chances(0.3, policy, {} if rows is None else {CHECK: CheckTable.collect(CHECK, rows)})


def test_error_budget_is_shared_by_all_comparisons() -> None:
    """A third each for 24 single values, 12 medians of ranks (peers and node) and 3 medians of nodes."""
    rules = [
        Rule(name, "s", over, fail_below=0.9) for name in METRICS[:2] for over in (Over.PEERS, Over.NODE)
    ]
    rules.append(replace(PEERS, over=Over.SUBJECT))
    rows = _rows(3, 2, 0.01, usual, 1, 2)

    assert Chances(0.1 / 24, 0.1 / 12, 0.1 / 3) == _chances(rules, rows)
    assert 0.3 / 6 == _chances([SLOWEST], rows).value
    assert Chances(0.3, 0.3, 0.3) == _chances(rules, None)


@pytest.mark.parametrize(
    ("over", "share"), [(Over.PEERS, Chances(0.1 / 12, 0.1 / 6, 0.1 / 3)), (Over.NODE, Chances(0.15 / 12, 0.15 / 6, 0.15))]
)  # fmt: skip
def test_only_peers_are_compared_by_the_medians_of_nodes(over: Over, share: Chances) -> None:
    """Within a node there is no other node to compare with, and nothing of the budget is kept for it."""
    rules = [Rule(name, "s", over, fail_below=0.9) for name in METRICS[:2]]

    assert share == _chances(rules, _rows(3, 2, 0.01, usual, 1, 2))


def test_each_value_of_a_list_is_compared() -> None:
    """Two lists of eight and a number are seventeen values."""
    values: tuple[Value, ...] = ((100.0,) * 8, (100.0,) * 8, 100.0)
    rows = [
        replace(row, metrics={"copy_gbps": value})
        for row, value in zip(_rows(3, 1, 0.0, usual, 1, 1), values, strict=True)
    ]

    assert 0.3 / 17 == _chances([SLOWEST], rows).value


def _medians(nodes: int, share: float) -> list[Finding]:
    """The findings about medians alone: of nodes with 8 ranks and 3 metrics at 2 % noise, the third of which is slower."""
    rows = [
        replace(row, evidence=f"of {row.subject}") for row in _rows(nodes, 8, 0.02, _slow(3, share), 1, 3)
    ]
    known = RuleContext(declared=Declared("cpu", nodes, 0, 8), chances=CHANCES)
    return examine(CHECK, [(replace(PEERS, metric=name), rows) for name in METRICS], known)[0]


def test_node_medians_are_compared_between_four_nodes_but_not_two() -> None:
    """Nobody can tell which of them is slow; of four one is."""
    assert [] == _medians(2, 0.5)
    assert {"node-3"} == {node_of(finding.subject) for finding in _medians(4, 0.5)}


@pytest.mark.parametrize(("nodes", "share"), [(8, 0.82), (15, 0.86)])
def test_node_median_beyond_the_fail_threshold_is_named_among_few_nodes(nodes: int, share: float) -> None:
    """Eight nodes do not show that the noise is not skewed, so that theirs has to be farther. The evidence is of its first rank."""
    (found,) = (f for f in _medians(nodes, share) if f.subject == "node-3")

    assert (Level.FAIL, "of node-3/rank-24") == (found.level, found.evidence)
    of_all = "by the median of 24 values of 8 ranks (copy_gbps, triad_gbps, read_gbps), threshold 90 %"
    assert found.message.startswith("is at 8") and of_all in found.message


def test_the_ranks_of_a_named_node_are_not_named_too() -> None:
    """One finding for the node, and none for its eight ranks."""
    assert ["node-3"] == [found.subject for found in _medians(80, 0.9)]


@pytest.mark.parametrize(("ranks_named", "node_named"), [(3, True), (4, False)])
def test_half_of_its_ranks_stand_for_a_node(ranks_named: int, node_named: bool) -> None:
    """Three of eight ranks with a finding leave a slow node unnamed, so it gets its own."""

    def speed(node: int, rank: int, metric: int) -> float:
        if node != 7:
            return usual(node, rank, metric)
        return 50.0 if rank < ranks_named else 93.5

    found = _judged(PEERS, 40, 8, 0.02, speed)
    assert node_named is ("node-7" in _named(found))


def test_without_a_declaration_a_rank_stands_for_a_node_of_two() -> None:
    """A report that somebody judges by itself: one of two ranks is half of them."""

    line = CheckPolicy(rules=(PEERS,))
    rows = _rows(40, 2, 0.01, _slow(7, 0.5, ranks=1), 1, 1)
    assert {"node-7/rank-14"} == _named(list(apply(CHECK, line, rows, 80, RuleContext(chances=CHANCES))))


@pytest.mark.parametrize("others", [100.0, 92.0])
def test_a_rank_that_is_slow_in_all_metrics_is_no_better_than_one_that_is_in_one(others: float) -> None:
    """That all of it is slow is a warning, and hid that one value may be a broken part's."""
    for seed in range(8):
        rows = _rows(128, 1, 0.015, usual, seed, 3, DRAWS["heavier"])
        rows[37] = replace(rows[37], metrics=dict(zip(METRICS, (70.0, others, others), strict=True)))
        assert Level.FAIL in {finding.level for finding in _found(PEERS, rows)}, seed


def test_no_median_of_zero_breaks_the_judge() -> None:
    """Most ranks have two zeros of three, and each metric has fewer zeros than numbers."""
    zeros = [(0.0, 0.0, 9.0), (0.0, 9.0, 0.0), (9.0, 0.0, 0.0), (0.0, 0.0, 9.0), (0.0, 9.0, 0.0)]
    rows = [
        replace(row, metrics=dict(zip(METRICS, values, strict=True)))
        for row, values in zip(_rows(9, 1, 0.0, usual, 1, 3), [*zeros, *[(9.0,) * 3] * 4], strict=True)
    ]

    assert Level.FAIL in {finding.level for finding in _found(PEERS, rows)}
