"""The sentences of rules: what a metric means is said in words, with its number and its threshold in people's units."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checks.judge.rules.wording import (
    bounded,
    noun_of,
    plural,
    predicate_of,
    several,
    spoken,
    subjects_text,
    unequal,
)
from checks.model import Cause, Finding, Level
from checks.model_details import Comparison, Reference, Relation
from checks.policy import Rule, load

POLICIES = Path("deployments/policies")
# Metrics of a policy's own examples, which keep their names.
OWN = ("own.cluster", "own.word", "declaration")


def rules() -> Iterator[tuple[str, Rule]]:
    for path in sorted(POLICIES.glob("*.toml")):
        for check, line in load(tomllib.loads(path.read_text("utf-8"))).checks.items():
            yield from ((check, rule) for rule in line.rules if check not in OWN)


def below(value: float, threshold: float, unit: str = "", of: float | None = None) -> Comparison:
    reference = Reference.THRESHOLD if of is None else Reference.NODE
    return Comparison(value, unit, Relation.BELOW, threshold, reference, of)


def test_every_metric_of_a_shipped_policy_has_words() -> None:
    """A new rule about a metric without words would show its name in a page's title."""
    bare = {
        f"{check}/{rule.metric}"
        for check, rule in rules()
        if not predicate_of(check, rule.metric)
        and noun_of(check, rule.metric) == rule.metric.replace("_", " ")
        and "_" in rule.metric
    }

    assert bare == set()


def test_texts_are_shown_where_the_values_are_texts() -> None:
    """A text has no number to fill into a predicate, and a number is no text."""
    odd = {
        f"{check}/{rule.metric}"
        for check, rule in rules()
        if (said := predicate_of(check, rule.metric))
        and rule.equals is not None
        and isinstance(rule.equals, str) is not ("{texts}" in said)
    }

    assert odd == set()


@pytest.mark.parametrize(
    "compared, element, said",
    [
        (below(0.2, 0.95, "GB/s"), "", "copies 0.2 GB/s in memory, threshold 0.95"),
        (below(0.94996, 0.95, "GB/s"), "", "copies 0.94996 GB/s in memory, threshold 0.95"),
        (below(1065.4, 2500, "GB/s"), "GPU 3", "GPU 3 copies 1,065 GB/s in memory, threshold 2,500"),
        (
            below(620, 0.8, "GB/s", of=1000),
            "",
            "copies 620 GB/s in memory, 62 % of the median of its node (1,000 GB/s), threshold 80 %",
        ),
        (
            below(899.6, 0.9, "GB/s", of=1000),
            "",
            "copies 899.6 GB/s in memory, 89.96 % of the median of its node (1,000 GB/s), threshold 90 %",
        ),
    ],
)
def test_a_number_is_shown_with_its_threshold(compared: Comparison, element: str, said: str) -> None:
    """Both have so many digits that they differ."""
    found, is_predicate = bounded("compute.memory_bandwidth", "copy_gbps", element, compared)

    assert (found, is_predicate) == (said, not element)


@pytest.mark.parametrize(
    "check, metric, odd, wanted, said",
    [
        ("collective.all_reduce", "wrong_elements", [("", 12)], 0, "computes wrong sums (12 wrong values in all_reduce)"),
        ("gpu.modes", "persistence", [("GPU 2", 0)], 1, "GPU 2 has persistence mode off"),
        ("gpu.modes", "persistence", [("GPU 2", 0), ("GPU 5", 0)], 1, "GPU 2 and GPU 5 have persistence mode off"),
        (
            "gpu.processes",
            "processes",
            [("GPU 0", 1), ("GPU 1", 2)],
            0,
            "GPU 0 is in use by 1 other process; GPU 1 is in use by 2 other processes",
        ),
        ("efa.devices", "provider", [("", "tcp")], "efa", "provider of libfabric is tcp, it must be efa"),
        ("dcgm.diag", "hardware_failures", [("GPU 1", "pcie: error 45")], "", "fails DCGM's diagnostic: GPU 1: pcie: error 45"),
        (
            "dcgm.diag", "hardware_failures", [(f"GPU {n}", "pcie: Skip") for n in range(8)], "",
            "fails DCGM's diagnostic: GPU 0 to 7: pcie: Skip",
        ),
        ("site.own", "flags", [("", "bad")], "good", "flags is bad, it must be good"),
    ],
)  # fmt: skip
def test_values_that_are_not_what_they_must_be(
    check: str, metric: str, odd: list[tuple[str, object]], wanted: object, said: str
) -> None:
    """The elements with the same value are named together, with the verb for several."""
    assert unequal(check, metric, odd, wanted)[0] == said


@pytest.mark.parametrize(
    "one, several",
    [
        ("has it", "have it"), ("is it", "are it"), ("was it", "were it"), ("does it", "do it"), ("reaches it", "reach it"),
        ("carries it", "carry it"), ("computes it", "compute it"), ("lost it", "lost it"), ("cannot see", "cannot see"),
    ],
)  # fmt: skip
def test_a_predicate_for_several_subjects(one: str, several: str) -> None:
    """Only a verb in the present has another form."""
    assert plural(one) == several


def test_a_finding_is_one_sentence_with_its_subject() -> None:
    """The message of a predicate continues the sentence; any other stands after a colon."""
    old = Finding(Level.FAIL, Cause.HARDWARE, "x", "node-1", "driver is old")
    wrong = replace(old, subject="node-1/rank-3", message="computes wrong sums", is_predicate=True)

    assert spoken(wrong) == "node-1, rank 3 computes wrong sums"
    assert spoken(old) == "node-1: driver is old"


@pytest.mark.parametrize(
    ("subjects", "said"),
    [
        (["node-1/rank-3"], "node-1, rank 3"),
        ([f"node-5/rank-{rank}" for rank in range(40, 48)], "node-5, ranks 40 to 47"),
        ([f"node-5/rank-{rank}" for rank in (0, 1, 5, 6, 7, 9)], "node-5, ranks 0, 1, 5 to 7 and 9"),
        ([f"node-5/rank-{rank}" for rank in range(0, 40, 2)], "20 ranks"),
        ([f"node-5/rank-{rank}{'9' * 4999}" for rank in (1, 2)], "2 ranks"),
        (["n1", "n2", "n3"], "node n1, node n2 and node n3"),
        (["node-1/rank-0", "node-2/rank-8"], "2 ranks"),
        ([f"node-{node}" for node in range(4)], "4 nodes"),
    ],
)
def test_several_subjects_are_one(subjects: list[str], said: str) -> None:
    """A whole node is told from one GPU of it; more than can be named is a number."""
    assert said == subjects_text(subjects)


def test_a_number_that_holds_for_each_subject_is_said_so() -> None:
    """And not of all together."""
    assert "each have 12 wrong values" == several("has 12 wrong values")
    assert "compute wrong sums" == several("computes wrong sums")
    counted = several("computes wrong sums (12 wrong values in all_reduce)")
    assert "compute wrong sums (each: 12 wrong values in all_reduce)" == counted
    assert "each lack 2 GPUs (8 declared)" == several("lacks 2 GPUs (8 declared)")
