"""Rules: each bound on either side, each comparison, and what they say when they cannot speak."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.facts.instances import Instance
from checks.judge.rules.apply import apply
from checks.judge.rules.values import RuleContext
from checks.model import CLUSTER, Cause, Finding, Level, Observation, Outcome, Value
from checks.policy import CheckPolicy, Over, Rule, load
from checks.value_types import DecodeError
from tests.sample_reports import MADE_UP

CHECK = "compute.gemm"


def _found(
    rule: Rule, *values: Value | None, expected: int | None = None, required: bool = True
) -> list[Finding]:
    """What the rule says of nodes whose metric `m` has these values (None: the metric is missing)."""
    line = CheckPolicy(required=required, rules=(rule,))
    return list(apply(CHECK, line, _rows("m", values), len(values) if expected is None else expected))


def _rows(metric: str, values: Sequence[Value | None]) -> list[Observation]:
    return [
        Observation(CHECK, f"node-{i}", Outcome.MEASURED, 1.0, {} if value is None else {metric: value})
        for i, value in enumerate(values)
    ]


def _versions(metric: str, versions: Sequence[str], context: RuleContext) -> list[tuple[str, str]]:
    """What the rule that all nodes have the same version finds."""
    line = CheckPolicy(rules=(Rule(metric, "s", Over.CLUSTER, same=True),))
    rows = _rows(metric, versions)
    return _levels(list(apply("system.identity", line, rows, len(rows), context)))


def _levels(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level.value, finding.subject) for finding in findings]


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        (Rule("m", "s", fail_below=10), 10, []),
        (Rule("m", "s", fail_below=10), 9.99, [("FAIL", "node-0")]),
        (Rule("m", "s", fail_above=10), 10, []),
        (Rule("m", "s", fail_above=10), 10.01, [("FAIL", "node-0")]),
        (Rule("m", "s", warn_below=10, fail_below=5), 7, [("WARN", "node-0")]),
        (Rule("m", "s", warn_below=10, fail_below=5), 4, [("FAIL", "node-0")]),
        (Rule("m", "s", warn_above=10, fail_above=20), 15, [("WARN", "node-0")]),
        (Rule("m", "s", fail_below=1, fail_above=2), 3, [("FAIL", "node-0")]),
        (Rule("m", "s", fail_below=10), (11.0, 9.0, 8.0), [("FAIL", "node-0"), ("FAIL", "node-0")]),
        (Rule("m", "s", equals=0), 0, []),
        (Rule("m", "s", equals=0), 1, [("FAIL", "node-0")]),
        (Rule("m", "s", equals=0), 0.0, []),
        (Rule("m", "s", equals=1.0), 1, []),
        (Rule("m", "s", equals=0), 0.5, [("FAIL", "node-0")]),
        (Rule("m", "s", equals=0), False, [("FAIL", "node-0")]),
        (Rule("m", "s", equals=True), 1, [("FAIL", "node-0")]),
        (Rule("m", "s", equals="ok"), ("ok", "no"), [("FAIL", "node-0")]),
        (Rule("m", "s", equals=0, level="WARN"), 1, [("WARN", "node-0")]),
    ],
)
def test_a_value_on_either_side_of_a_bound(rule: Rule, value: Value, expected: list[tuple[str, str]]) -> None:
    """The bound itself is allowed; a FAIL hides the WARN under it; no truth value is a number."""
    assert expected == _levels(_found(rule, value))


@pytest.mark.parametrize(
    "rule", [Rule("m", "s", fail_below=1), Rule("m", "s", equals=0), Rule("m", "s", fail_above=9)]
)
@pytest.mark.parametrize("value", [None, (), (None,), "text", (True,), 10**400])
def test_rule_finds_a_fault_in_every_unusable_value(rule: Rule, value: Value | None) -> None:
    """Missing, empty, null, text or past every range: never silence."""
    assert _found(rule, value)
    if value in (None, (), (None,)):
        assert {Cause.EVIDENCE} == {finding.cause for finding in _found(rule, value)}


def test_a_cluster_rule_holds_the_least_and_the_greatest() -> None:
    """Bounds below and above in one rule are both looked at."""
    rule = Rule("m", "s", Over.CLUSTER, fail_below=1, fail_above=9)

    assert [] == _found(rule, 1, 5, 9)
    assert [("FAIL", CLUSTER)] == _levels(_found(rule, 0.5, 5, 8))
    assert [("FAIL", CLUSTER)] == _levels(_found(rule, 2, 5, 10))
    assert 2 == len(_found(rule, 0, 5, 10))


def test_the_odd_one_out_is_named() -> None:
    """Where most agree, those that do not; where nobody is the odd one, nobody."""
    rule = Rule("m", "s", Over.CLUSTER, same=True)

    assert [] == _found(rule, "a", "a", "a")
    assert [("FAIL", "node-1")] == _levels(_found(rule, "a", "b", "a"))
    assert [("FAIL", CLUSTER)] == _levels(_found(rule, "a", "b"))
    assert [("FAIL", CLUSTER)] == _levels(_found(rule, "a", "a", "b", "b"))


def test_values_that_differ_late_differ() -> None:
    """What is shown is shortened, what is compared is not."""
    rule = Rule("m", "s", Over.CLUSTER, same=True)
    findings = _found(rule, "x" * 500 + "a", "x" * 500 + "b", "x" * 500 + "a")

    assert ["node-1"] == [finding.subject for finding in findings]
    assert len(findings[0].message) < 400


@given(st.permutations(["a", "a", "b", "b", "c"]))
def test_a_tie_is_told_alike_in_any_order(values: list[str]) -> None:
    """Who was read first does not matter; every value is in the evidence."""
    findings = _found(Rule("m", "s", Over.CLUSTER, same=True), *values)
    expected = "\n".join(f"node-{i}: {value}" for i, value in enumerate(values))

    assert [expected] == [finding.evidence for finding in findings]


def test_the_slow_one_among_peers_is_named() -> None:
    """Against the median of all. How much four values vary is not known: only a gross difference names one."""
    rule = Rule("m", "s", Over.PEERS, warn_below=0.8, fail_below=0.5)

    assert [] == _found(rule, 10, 10, 10, 8.1)
    assert [("WARN", "node-3")] == _levels(_found(rule, 10, 10, 10, 6))
    assert [("FAIL", "node-3")] == _levels(_found(rule, 10, 10, 10, 4))


def test_each_entry_of_an_array_has_its_own_peers() -> None:
    """Bandwidth at 1 KiB is not compared with bandwidth at 8 MiB."""
    rule = Rule("m", "s", Over.PEERS, fail_below=0.5)
    findings = _found(rule, (0.1, 9.0), (0.1, 9.0), (0.1, 9.0), (0.1, 2.0))

    assert [("FAIL", "node-3")] == _levels(findings)
    assert ("[1]",) == findings[0].elements
    assert findings[0].message == "m[1] is 2, 22 % of the median of its peers (9), threshold 50 %"


def test_a_comparison_without_enough_peers_says_so() -> None:
    """As missing evidence; and a median of zero is a broken measurement."""
    rule = Rule("m", "s", Over.PEERS, fail_below=0.5, min_peers=4)
    few, zero = _found(rule, 10, 10, 1, expected=4), _found(rule, 0, 0, 0, 5)

    assert [(Level.WARN, Cause.EVIDENCE)] == [(f.level, f.cause) for f in few]
    assert [(Level.FAIL, Cause.EVIDENCE)] == [(f.level, f.cause) for f in zero]
    assert [(Level.WARN, Cause.EVIDENCE)] == [(f.level, f.cause) for f in _found(rule, expected=4)]


def test_rule_of_an_optional_check_only_warns_of_a_missing_value() -> None:
    """Its values still count in full."""
    rule = Rule("m", "s", fail_below=1)

    assert [("WARN", "node-0")] == _levels(_found(rule, None, required=False))
    assert [("FAIL", "node-0")] == _levels(_found(rule, 0.5, required=False))


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({}, "no threshold and no other condition"),
        ({"equals": 0, "fail_below": 1.0}, "write two rules"),
        ({"same": True, "over": "cluster", "fail_below": 1.0}, "write two rules"),
        ({"same": True}, "over = "),
        ({"equals": 0, "over": "peers"}, "leave over out"),
        ({"fail_below": 2, "warn_below": 1}, "less than fail_below"),
        ({"fail_above": 1, "warn_above": 2}, "greater than fail_above"),
        ({"equals": 0, "level": "PASS"}, "neither WARN nor FAIL"),
        ({"equals": 0, "source": " "}, "the threshold has no source"),
        ({"fail_below": float("nan")}, "finite"),
        ({"fact": "gpu_colour"}, "no column"),
        ({"fact": "nvlinks", "over": "cluster"}, "each subject"),
        ({"fact": "nvlinks", "equals": 1}, "would be ignored"),
        ({"uniform": True, "fail_below": 1}, "would be ignored"),
        ({"over": "node"}, "rules"),
        ({"over": "slowest", "fail_below": 0.5}, "rules"),
        ({"over": "expected", "fail_below": 0.8}, "rules"),
        ({"expect": "gemm", "fail_below": 0.8}, "rules"),
        ({"at": "sizes", "fail_below": 0.8}, "rules"),
        ({"over": "slowest", "deviations": 3.0, "fail_above": 0.2}, "rules"),
        ({"over": "subject", "deviations": 3.0, "fail_below": 0.8}, "rules"),
        ({"metric": "wrong_elements", "equals": 0, "needs_cpu": True}, "needs_cpu"),
        ({"metric": "wrong_elements", "fail_above": 0, "needs_cpu": True}, "needs_cpu"),
        ({"metric": "digest", "over": "cluster", "same": True, "needs_cpu": True}, "needs_cpu"),
        ({"min_version": "R570"}, "version"),
        ({"min_version": "570", "equals": 1}, "version"),
        ({"min_version": "570", "over": "cluster"}, "version"),
    ],
)
def test_a_rule_that_would_hold_nothing_is_refused(rule: dict[str, object], why: str) -> None:
    """A threshold that is silently ignored is a pass that nobody earned."""
    line = {"metric": "m", "source": "s", **rule}
    policy = {
        "name": "p", "instance_types": ["cpu"], "on_warn": "go", "max_unfit_fraction": 0.25,
        "checks": {CHECK: {"rules": [line]}},
    }  # fmt: skip
    with pytest.raises(DecodeError, match=why) as caught:
        load(policy)

    assert caught.value.path.startswith(f"checks.{CHECK}.rules[0]")


@pytest.mark.parametrize("over", [Over.SUBJECT, Over.CLUSTER])
def test_minus_one_is_no_small_count(over: Over) -> None:
    """Tools print it for "I cannot tell"; a rule that bounds from above alone once passed it."""
    rule = Rule("errors", "source", over, fail_above=10)
    rows = [Observation(CHECK, f"node-{n}", Outcome.MEASURED, 0.1, {"errors": (0, -n)}) for n in range(2)]

    (found,) = apply(CHECK, CheckPolicy(rules=(rule,)), rows, 2)

    assert (Level.FAIL, Cause.EVIDENCE, "node-1") == (found.level, found.cause, found.subject)


def test_the_odd_rank_among_many_is_named_itself() -> None:
    """Not its node alone: the GPU is the rank's, and so are its seven neighbours' votes."""
    rows = [
        Observation("a.b", f"node-{rank // 8}/rank-{rank}", Outcome.MEASURED, 0.1, {"x": str(rank == 11)})
        for rank in range(16)
    ]
    rule = Rule("x", "source", over=Over.CLUSTER, same=True)

    assert ["node-1/rank-11"] == [f.subject for f in apply("a.b", CheckPolicy(rules=(rule,)), rows, 16)]


@pytest.mark.parametrize(
    ("drivers", "gpu", "levels"),
    [
        (("570.133.20", "570.133.20", "570.86.15"), "H100", [("WARN", "node-2")]),
        (("570.133.20", "570.86.15"), "H100", [("WARN", "cluster")]),
        (("570.133.20", "570.133.20", "550.163.01"), "H100", [("FAIL", "node-2")]),
        (("570.133.20",) * 3 + ("570.86.15", "580.65.06"), "A10G", [("WARN", "node-3"), ("FAIL", "node-4")]),
        (("570.133.20", "570.86.15", "550.54.14"), "H100", [("FAIL", "cluster")]),
        (("570.133.20", "570.133.20", "570.86.15"), "GB200", [("FAIL", "node-2")]),
        (("570.133.20", "570.133.20", "unknown"), "H100", [("FAIL", "node-2")]),
        (("570.133.20", "570.133.20", ""), "H100", [("FAIL", "node-2")]),
        (("570.133.20", "570.133.20"), "H100", []),
    ],
)
def test_drivers_of_one_branch_are_rolled_out_node_by_node(
    drivers: tuple[str, ...], gpu: str, levels: list[tuple[str, str]]
) -> None:
    """A WARN; another branch, a driver that is no version, and nodes that are joined by NVLink stay a FAIL."""
    assert levels == _versions("driver", drivers, RuleContext(instance=Instance(8, gpu, MADE_UP)))


@pytest.mark.parametrize("metric", ["torch", "cuda", "nccl_version"])
def test_another_version_of_something_else_is_a_fail(metric: str) -> None:
    """Also of the same first number."""
    assert [("FAIL", "node-2")] == _versions(metric, ("2.3.0", "2.3.0", "2.4.0"), RuleContext())
