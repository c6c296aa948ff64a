"""The natural order of names, whatever a machine calls itself."""

from __future__ import annotations

from itertools import permutations

from checks.judge.verdict import decide
from checks.value_types import natural
from tests.sample_reports import FACTS, POLICY, healthy, with_metric


def test_numbers_in_names_are_compared_as_numbers() -> None:
    """Whatever the order was before; names that differ in zeros alone have an order too."""
    wanted = [
        "7",
        "a",
        "node",
        "node-2",
        "node-13",
        "node-13/rank-9",
        "node-13/rank-10",
        "node-129",
        "rack-1-node-2",
    ]
    for names in (wanted[::-1], *list(permutations(wanted))[:500:7]):
        assert wanted == sorted(names, key=natural)

    assert natural("node-01") != natural("node-1")


def test_a_number_longer_than_any_machine_has_is_compared_too() -> None:
    """int() refuses more than 4300 digits."""
    assert natural("n" + "9" * 5000) < natural("n1" + "0" * 5000)
    assert sorted(["²", "٣", "", "-"], key=natural) == ["", "-", "²", "٣"]


def test_the_findings_of_a_verdict_and_the_condemned_nodes_are_in_natural_order() -> None:
    """node-2 before node-10."""
    report = healthy(12, 1)
    for place in (11, 10, 2):
        report = with_metric(report, "compute.gemm", f"node-{place}/rank-{place}", "wrong_elements", 9)
    verdict = decide(report, POLICY, FACTS)

    assert ("node-2", "node-10", "node-11") == verdict.condemned
    assert ["node-2/rank-2", "node-10/rank-10", "node-11/rank-11"] == [
        finding.subject for finding in verdict.findings if finding.check == "compute.gemm"
    ]
