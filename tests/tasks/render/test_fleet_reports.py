"""The fleets that the pages and pictures are made of: all checks of one report are about the same machines."""

from __future__ import annotations

from checks.model import Value, node_of
from tests.tasks.render.fleets import cut_off, fleet, judged

SICK = "ip-10-0-0-13"


def _texts(value: Value) -> set[str]:
    return (
        {value}
        if isinstance(value, str)
        else {str(one) for one in value}
        if isinstance(value, tuple)
        else set()
    )


def test_a_fleet_names_no_node_that_it_does_not_have() -> None:
    """Its machines were renamed, and so were their peers; where peers are ranks, each is one of this job."""
    report = fleet(4)
    named = {text for row in report.observations for value in row.metrics.values() for text in _texts(value)}
    pairs = [row for row in report.observations if row.check == "nccl.pairs"]

    assert set() == {text for text in named if text.startswith("node-")}
    assert set(report.declared.node_names) == {node_of(row.subject) for row in pairs}
    assert {str(rank) for rank in range(32)} == {
        text for row in pairs for text in _texts(row.metrics["peers"])
    }


def test_a_host_that_is_cut_off_is_slow_for_every_check_that_tests_pairs() -> None:
    """TCP and the ranks' pair tests name the same one, as they would of a bad cable; a healthy fleet has no suspect."""
    verdict, beside = judged(cut_off(fleet(6), [SICK], 0.3))
    suspects = {suspect.subject for one in beside.shown for suspect in one.decoded.suspects}

    assert {(SICK, "network.pairs"), (SICK, "nccl.pairs")} == {(f.subject, f.check) for f in verdict.findings}
    assert {SICK} == suspects
    assert () == judged(fleet(6))[0].findings
