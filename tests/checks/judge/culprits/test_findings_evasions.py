"""Ways in which a bad cluster once got by, or a good machine was condemned; each was found by trying."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from checks.culprit.decode import decode
from checks.culprit.matrix import MatrixAnswer, Tolerance
from checks.culprit.rounds import planned
from checks.culprit.topology import SWITCHES
from checks.documents.report import dump_plain
from checks.explain import registry
from checks.explain.reading import Garbled, ReadOptions
from checks.facts.builtin import builtin
from checks.judge.culprits.from_report import COLLECTIVE, NCCL
from checks.judge.tool_output import judge
from checks.judge.verdict import decide
from checks.model import CLUSTER, Declared, Finding, Level, Observation, Report, Value
from checks.policy import load
from checks.value_types import DecodeError
from tasks.gate_file.references import default_policy
from tests.checks.culprit.matrix_texts import csv_long, csv_square, rates
from tests.checks.culprit.planted import all_pairs, matrix, nodes, together
from tests.checks.culprit.rows import Change, results_of, row, tournament

KIND = {COLLECTIVE: "cpu", NCCL: "p5.48xlarge"}
FAST = {COLLECTIVE: 2.0, NCCL: 45.0}
VAIN: Mapping[str, float | int | str | None] = {
    "failures": "no answer within 2 s", "bandwidth_gbps": None, "latency_us": None, "slowest_us": None, "wrong_elements": None,
}  # fmt: skip
NAMES = [f"h{number}" for number in range(8)]


def _report(number: int, per: int, change: Change = lambda a, b: {}, name: str = COLLECTIVE) -> Report:
    base = tournament(number, per, lambda a, b: {}, name)
    rows = tuple(row(rank, number, per, change, name, fast=FAST[name]) for rank in range(number * per))
    declared = replace(base.declared, instance_type=KIND[name], gpus_per_node=per if name == NCCL else 0)
    return replace(base, observations=rows, declared=declared)


def _found(report: Report) -> list[Finding]:
    """What the shipped policy's line for this check says; a report of one check lacks all else."""
    policy, (entry,) = default_policy(report.declared.instance_type)[1], report.plan
    line = {entry.check: policy.checks[entry.check]}
    found = decide(report, replace(policy, checks=line), builtin()).findings
    return [finding for finding in found if finding.check not in ("report", "facts")]


def _said(report: Report) -> set[tuple[str, str, str]]:
    return {(f.subject, f.level.value, f.cause.value) for f in _found(report)}


def _rows(report: Report, change: Callable[[int, Observation], Mapping[str, Value]]) -> Report:
    """The same with other metrics in each row."""
    rows = [
        replace(one, metrics={**one.metrics, **change(rank, one)})
        for rank, one in enumerate(report.observations)
    ]
    return replace(report, observations=tuple(rows))


def _only(one: Observation, keep: Callable[[int], bool]) -> dict[str, Value]:
    """The row's lists with the tests of these peers alone."""
    peers = one.metrics["peers"]
    assert isinstance(peers, tuple)
    kept = [place for place, peer in enumerate(peers) if isinstance(peer, int) and keep(peer)]
    lists = {key: value for key, value in one.metrics.items() if isinstance(value, tuple)}
    return {key: tuple(value[place] for place in kept) for key, value in lists.items()}  # type: ignore[misc]


def _spoiled(
    column: str, value: float | None, said: str, other: int = 6
) -> Callable[[int, Observation], Mapping[str, Value]]:
    """The first test of rank 2 with this one alone: what was measured again is good."""

    def change(rank: int, one: Observation) -> Mapping[str, Value]:
        peers, values, failures = (one.metrics[key] for key in ("peers", column, "failures"))
        assert isinstance(peers, tuple) and isinstance(values, tuple) and isinstance(failures, tuple)
        if rank != 2:
            return {}
        at = peers.index(other)
        spoiled = (*values[:at], value, *values[at + 1 :])
        told = (*failures[:at], said, *failures[at + 1 :])
        return {column: spoiled, "failures": told, "results": results_of(told)}

    return change


@pytest.mark.parametrize("left_out", [10**9, 14, -1])
def test_rounds_that_are_said_to_be_left_out_do_not_excuse_those_before(left_out: int) -> None:
    """Time runs out at the end: who met one peer of fifteen met that of the first round, or has lost rounds."""
    report = _rows(
        _report(16, 1),
        lambda rank, one: {**_only(one, lambda peer: peer == rank ^ 1), "rounds_left_out": left_out},
    )

    assert {"FAIL"} == {level for _, level, _ in _said(report)}


def test_a_cluster_of_which_nothing_between_nodes_was_measured_is_not_passed() -> None:
    """The rounds inside nodes come first, and may take all the time."""
    report = _rows(
        _report(4, 8, name=NCCL),
        lambda rank, one: {**_only(one, lambda peer: peer // 8 == rank // 8), "rounds_left_out": 3},
    )

    assert ("node-0/rank-0", "FAIL", "EVIDENCE") in _said(report)


def test_rounds_left_out_at_the_end_are_a_warning() -> None:
    """Of twenty nodes each met sixteen."""
    plan = planned(20, 1, 64, 12)
    report = _rows(
        _report(20, 1),
        lambda rank, one: {
            **_only(one, lambda peer: peer in {r.partner(rank) for r in plan[:-3]}), "rounds_left_out": 3,
        },
    )  # fmt: skip

    assert {(CLUSTER, "WARN", "EVIDENCE")} == _said(report)


def test_a_test_that_broke_off_has_no_rate() -> None:
    """Whatever number stands beside the failure."""
    report = _report(8, 1, lambda a, b: {"failures": "connection closed"} if 3 in (a, b) else {})

    assert {("node-3", "FAIL", "HARDWARE")} == _said(report)


@pytest.mark.parametrize(("number", "per"), [(2, 1), (1, 2)])
def test_wrong_data_one_way_between_two_ranks_is_a_failure(number: int, per: int) -> None:
    """There is nobody to compare with, and nothing to compare: it is wrong."""
    wrong: dict[str, float | int | str | None] = {"failures": "3 wrong elements", "wrong_elements": 3}

    assert {(CLUSTER, "FAIL", "EVIDENCE")} == _said(
        _report(number, per, lambda a, b: wrong if (a, b) == (0, 1) else {})
    )


def test_wrong_data_is_no_hiccup() -> None:
    """It was right three times when it was measured again."""
    again: Change = lambda a, b: {"latency_us": 50.0} if {a, b} == {2, 6} else {}  # noqa: E731
    report = _rows(_report(8, 1, again), _spoiled("wrong_elements", 5, "5 wrong elements"))

    assert {(CLUSTER, "FAIL", "EVIDENCE")} == _said(report)


@pytest.mark.parametrize(
    "metrics",
    [{"wrong_elements": 0}, {"slowest_us": True}, {"latency_us": 1.0}, {"retransmits": "x"}],
    ids=str,
)
def test_a_number_in_place_of_a_list_is_no_measurement(metrics: Mapping[str, Value]) -> None:
    """No matrix was made of it, and nothing was said."""
    assert "FAIL" in {level for _, level, _ in _said(_rows(_report(4, 1), lambda rank, one: metrics))}


@pytest.mark.parametrize("column", ["wrong_elements", "slowest_us", "latency_us", "bandwidth_gbps"])
def test_a_test_that_is_ok_has_all_its_numbers(column: str) -> None:
    """A hole is a matter of evidence: not a warning, and no bad hardware."""
    said = _said(_report(8, 1, lambda a, b: {column: None} if a == 3 else {}))

    assert ("node-3/rank-3", "FAIL", "EVIDENCE") in said
    assert not any(cause == "HARDWARE" for _, _, cause in said)


def test_a_warning_swallows_no_failure() -> None:
    """A node that answers late does not explain its dead link."""

    def change(a: int, b: int) -> Mapping[str, float | int | str | None]:
        dead: dict[str, float | int | str | None] = {"bandwidth_gbps": 0.021} if {a, b} == {2, 6} else {}
        return {**dead, "latency_us": 50_000.0} if 2 in (a, b) else {}

    expected = {("node-2<->node-6", "FAIL", "HARDWARE"), ("node-2", "WARN", "HARDWARE")}
    assert expected == _said(_report(8, 1, change))


def test_a_warning_excuses_nobody_from_being_measured() -> None:
    """A node that answers late was met by three of seven."""
    late: Change = lambda a, b: {"latency_us": 50_000.0} if 2 in (a, b) else {}  # noqa: E731
    report = _rows(
        _report(8, 1, late),
        lambda rank, one: _only(
            one, lambda peer: peer in (0, 1, 3) if rank == 2 else peer != 2 or rank in (0, 1, 3)
        ),
    )

    assert ("node-2/rank-2", "FAIL", "EVIDENCE") in _said(report)


def test_rank_that_reports_not_running_is_not_condemned_by_its_peers() -> None:
    """A process that was stopped and went on: nothing is known against its machine."""
    waited = _report(8, 1, lambda a, b: VAIN if 3 in (a, b) else {})

    def late(rank: int, one: Observation) -> Mapping[str, Value]:
        peers = one.metrics["peers"]
        assert isinstance(peers, tuple)
        never = ("not run: the check's time was over",) * len(peers)
        return {"failures": never, "results": results_of(never)} if rank == 3 else {}

    assert ("node-3", "FAIL", "HARDWARE") in _said(waited)
    assert {"EVIDENCE"} == {cause for _, _, cause in _said(_rows(waited, late))}


@pytest.mark.parametrize("leaf", ["aaaabbbb", "aabbccdd"])
def test_knowing_the_switches_does_not_hide_that_all_between_them_is_slow(leaf: str) -> None:
    """A distance is held against itself, and to a quarter of what the best one reaches."""
    slow = _report(8, 1, lambda a, b: {"bandwidth_gbps": 0.03} if leaf[a] != leaf[b] else {})
    found = tuple(replace(node, identity={SWITCHES: leaf[node.rank]}) for node in slow.nodes)

    assert "FAIL" in {level for _, level, _ in _said(replace(slow, nodes=found))}


def test_two_sockets_of_one_host_condemn_none_of_its_gpus() -> None:
    """Either half is as good as the other."""
    report = _report(1, 8, lambda a, b: {"bandwidth_gbps": 5.0} if (a < 4) != (b < 4) else {}, NCCL)

    assert {(CLUSTER, "FAIL", "CONFIGURATION")} == _said(report)


def test_many_hiccups_are_said() -> None:
    """One cell of twelve failed, and was good thrice: a warning. A quarter of them: nobody can tell."""

    def answer(bad: set[tuple[int, int]]) -> MatrixAnswer:
        once = matrix(nodes(4), lambda a, b: (a, b) in bad, value=lambda _: 0.3)
        again = matrix(nodes(4), cells=[(a, b) for a, b in all_pairs(nodes(4)) if {(a, b), (b, a)} & bad] * 3)
        return decode(together(once, again), Tolerance(0.1, 0.2)).answer

    def said(number: int, other: int) -> set[tuple[str, str, str]]:
        again: Change = lambda a, b: {"latency_us": 50.0} if {a, b} == {2, other} else {}  # noqa: E731
        once = _spoiled("bandwidth_gbps", None, "no answer within 2 s", other)
        return _said(_rows(_report(number, 1, again), once))

    assert MatrixAnswer.NOBODY is answer({(0, 1)})
    assert MatrixAnswer.UNEXPLAINED is answer({(0, 1), (2, 3), (3, 1)})
    assert {(CLUSTER, "WARN", "EVIDENCE")} == said(4, 3)
    assert set() == said(8, 6)


@pytest.mark.parametrize(
    "options",
    [
        *({"late_ratio": 0}, {"slow_ratio": 0}, {"slow_ratio": 1e18}, {"floor_gbps": -1}, {"matchings": 0}),
        {"oversubscription": 5},  # less than a quarter of the bandwidth is bad, whatever is declared
    ],
    ids=str,
)
def test_a_policy_that_holds_pairs_to_nothing_is_refused(options: Mapping[str, float]) -> None:
    """It crashed the judge, or passed all."""
    policy = default_policy("cpu")[1]
    line = replace(policy.checks[COLLECTIVE], options=options)
    table = json.loads(dump_plain(replace(policy, checks={COLLECTIVE: line})))

    with pytest.raises(DecodeError, match=next(iter(options))):
        load(table)


def _explained(text: str, declared: Declared | None = None) -> tuple[Level, str]:
    asked = ReadOptions(declared=declared)
    reading = registry.read("checks.explain.matrix", text, asked)
    verdict = judge(reading, default_policy("p5.48xlarge")[1], builtin(), asked, text.encode()).verdict
    return verdict.level, "; ".join(finding.message for finding in verdict.findings)


@pytest.mark.parametrize("word", ["failed", "ok"])
def test_a_status_beside_a_number_is_refused(word: str) -> None:
    """Of a test that failed the number says nothing."""
    lines = csv_long(NAMES, rates(8)).splitlines()
    text = "\n".join([f"{lines[0]},status", *(f"{line},{word}" for line in lines[1:])]) + "\n"

    with pytest.raises(Garbled, match="one metric"):
        _explained(text)


def test_declared_nodes_without_values_between_them_fail() -> None:
    """A matrix of what lies inside of them says nothing of their network."""
    inside = [[40.0 if a // 4 == b // 4 else "n/a" for b in range(8)] for a in range(8)]
    text = csv_square([f"h{name // 4}:{name % 4}" for name in range(8)], inside)

    assert Level.FAIL is _explained(text, Declared("p5.48xlarge", 2, 4, 4))[0]
