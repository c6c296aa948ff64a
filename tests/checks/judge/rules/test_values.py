"""How a value is shown, and which values cannot be true."""

from __future__ import annotations

import pytest

from checks.judge.rules.apply import apply
from checks.judge.rules.wording import figure, show, unequal
from checks.model import Cause, Level, Observation, Outcome, Value
from checks.model_details import Reference
from checks.policy import CheckPolicy, Over, Rule


def said(rule: Rule, value: Value) -> list[tuple[Level, Cause, str]]:
    """What the rule says of one node."""
    rows = [Observation("compute.gemm", "node-0", Outcome.MEASURED, 1.0, {rule.metric: value})]
    return [(f.level, f.cause, f.message) for f in apply("compute.gemm", CheckPolicy(rules=(rule,)), rows, 1)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.2, "0.2"), (12, "12"), (452.94, "452.9"), (9999.4, "9,999"), (19961, "19,961"), (2e9, "2,000,000,000"),
        (-12345.6, "-12,346"), (1e21, "1e+21"),
    ],
)  # fmt: skip
def test_a_number_is_written_as_people_write_it(value: float, text: str) -> None:
    """Never "1.996e+04"."""
    assert text == figure(value)


@pytest.mark.parametrize(
    ("value", "threshold", "said"),
    [
        (1_000_000_000, 2_000_000_000, "has 953.7 MiB of memory available, threshold 1.863 GiB"),
        (1_999_999_999, 2_000_000_000, "has 1.862645148 GiB of memory available, threshold 1.862645149 GiB"),
    ],
)
def test_bytes_that_differ_from_their_threshold_look_different(value: int, threshold: int, said: str) -> None:
    """Also where both have the same first digits in their unit."""
    rule = Rule("memory_available_bytes", "s", fail_below=threshold)
    rows = [Observation("system.resources", "node-0", Outcome.MEASURED, 1.0, {rule.metric: value})]
    (found,) = apply("system.resources", CheckPolicy(rules=(rule,)), rows, 1)

    assert said == found.message
    assert found.compared and Reference.THRESHOLD is found.compared.reference


def test_a_long_text_is_cut_between_words() -> None:
    """A part of a word is never read as a word; up to 120 characters nothing is cut."""
    words = "begin " * 20 + "the end"

    assert "x" * 120 == show("x" * 120)
    assert f"{'x' * 70} ... {'x' * 40}" == show("x" * 121)
    assert f"{'begin ' * 11}... {'begin ' * 5}the end" == show(words)


def test_a_message_of_a_tool_keeps_its_middle() -> None:
    """Without it "Verify that the cooling is functional" says that it is; only what is very long is cut, at its end."""
    words = "verify that " * 30 + "it is functional"
    said, cut = (
        unequal("dcgm.diag", "hardware_failures", [("", text)], "")[0] for text in (words, f"{words} {words}")
    )

    assert f"fails DCGM's diagnostic: {words}" == said
    assert cut.startswith(said) and cut.endswith(" ...")


@pytest.mark.parametrize(
    ("rule", "impossible"),
    [
        (Rule("m", "s", fail_above=10), True),
        (Rule("m", "s", warn_above=10), True),
        (Rule("m", "s", fail_below=-5, fail_above=10), False),
        (Rule("m", "s", warn_below=-5, warn_above=10), False),
    ],
)
def test_a_count_below_zero_was_not_measured(rule: Rule, impossible: bool) -> None:
    """A tool that cannot tell prints -1. Only a rule with lower thresholds is about values that may be negative."""
    found = said(rule, -1)

    assert impossible is any(cause is Cause.EVIDENCE for _, cause, _ in found)
    assert [] == said(rule, 0)


@pytest.mark.parametrize(
    ("value", "levels"),
    [
        ("550.1", []),
        ("549.9", [(Level.FAIL, Cause.HARDWARE)]),
        (("550.1", "549.9"), [(Level.FAIL, Cause.HARDWARE)]),
        (("unknown", "551"), [(Level.FAIL, Cause.EVIDENCE)]),
        ("unknown", [(Level.FAIL, Cause.EVIDENCE)]),
    ],
)
def test_a_driver_is_compared_by_its_version(value: Value, levels: list[tuple[Level, Cause]]) -> None:
    """What is no version is not new enough, and not too old either: nobody can tell."""
    assert levels == [(level, cause) for level, cause, _ in said(Rule("m", "s", min_version="550.0"), value)]


@pytest.mark.parametrize(("nodes", "blamed"), [(1, ["node-0/rank-2"]), (2, ["cluster"])])
def test_the_ranks_of_one_node_are_no_majority_among_several_nodes(nodes: int, blamed: list[str]) -> None:
    """They may all be wrong together; on a single node there is nobody else to ask."""
    subjects = ["node-0/rank-0", "node-0/rank-1", "node-0/rank-2" if nodes == 1 else "node-1/rank-2"]
    rows = [
        Observation("training.ddp", subject, Outcome.MEASURED, 1.0, {"m": value})
        for subject, value in zip(subjects, ("a", "a", "b"), strict=True)
    ]
    line = CheckPolicy(rules=(Rule("m", "s", Over.CLUSTER, same=True),))

    assert blamed == [finding.subject for finding in apply("training.ddp", line, rows, 3)]
