"""Since when a finding stands, when it was last seen, and whether it is new to the gate that has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from checks.model import CLUSTER
from tasks.reports.fleet.earlier import earlier_findings
from tasks.reports.fleet.model import Fleet
from tasks.reports.fleet.states import HOUR_S
from tasks.reports.fleet.text import node_text
from tasks.store.node_rows import NEWEST, GateNodes, Standing
from tasks.store.records import KeptFinding
from tests.tasks.reports.fleet.test_states import (
    CLOCK,
    DAY_S,
    GEMM,
    NOW,
    SILENT,
    fleet,
    gate,
    node,
    only,
    utc,
)


def _dates(found: Fleet) -> list[tuple[str, str, bool]]:
    """Of each open finding: the first gate of its row, the last one, and whether the row may be longer."""
    return [(one.since_gate_id, one.gate_id, one.at_least) for one in only(found).open]


def test_a_finding_stands_since_the_first_gate_of_its_unbroken_row() -> None:
    """A gate that measured the check without it ends a row; one that did not measure it ends none."""
    bad, other = node("a", Standing.DOUBTFUL, [CLOCK]), ("compute.gemm",)
    found = fleet(
        gate(9 * DAY_S, bad), gate(8 * DAY_S, node("a")), gate(7 * DAY_S, bad), gate(6 * DAY_S, node("a"), checks=other),
        gate(5 * DAY_S, bad), gate(4 * DAY_S, node("a"), checks=other),
    )  # fmt: skip

    assert [(f"g-{7 * DAY_S:.0f}", f"g-{5 * DAY_S:.0f}", False)] == _dates(found)
    (one,) = only(found).open
    assert (utc(NOW - 7 * DAY_S), utc(NOW - 5 * DAY_S)) == (one.since, one.last_seen)
    assert f"(since {one.since}, {one.since_gate_id}; last seen {one.last_seen}, {one.gate_id})" in node_text(
        only(found), found
    )


def test_a_finding_of_one_gate_is_dated_once() -> None:
    """First and last are the same."""
    found = fleet(gate(HOUR_S, node("a", Standing.DOUBTFUL, [CLOCK])))
    (one,) = only(found).open

    assert f"(since {utc(NOW - HOUR_S)}, g-{HOUR_S:.0f})" in node_text(only(found), found)
    assert one.since == one.last_seen


def test_missing_evidence_stands_since_the_last_proof() -> None:
    """Which is what answers it."""
    silent = node("a", Standing.CANNOT_TELL, [SILENT], None)
    found = fleet(
        gate(9 * DAY_S, silent), gate(8 * DAY_S, node("a")), gate(7 * DAY_S, silent), gate(6 * DAY_S, silent)
    )

    assert [(f"g-{7 * DAY_S:.0f}", f"g-{6 * DAY_S:.0f}", False)] == _dates(found)


def test_of_a_row_that_is_longer_than_what_is_kept_the_beginning_is_not_known() -> None:
    """It stands at least since the oldest of the newest gates."""
    bad = node("a", Standing.DOUBTFUL, [CLOCK])
    found = fleet(*(gate(HOUR_S * age, bad) for age in range(80, 0, -1)))

    assert [(f"g-{NEWEST * HOUR_S:.0f}", f"g-{HOUR_S:.0f}", True)] == _dates(found)
    assert "(at least since " in node_text(only(found), found)


def _day(number: int) -> str:
    """As a person reads the time of the gate of so many days ago."""
    return f"{utc(NOW - number * DAY_S)[:16].replace('T', ' ')} UTC"


def _said(
    finding: KeptFinding,
    *gates: GateNodes,
    machines: Mapping[tuple[str, str], int] | None = None,
) -> str:
    """What is said of it; "" where nobody can say."""
    found = earlier_findings([finding], "now", gates, machines or {})
    one = found.get((finding.check, finding.subject, finding.message))
    return one.said if one is not None else ""


BAD, GOOD, GONE = (
    node("a", Standing.DOUBTFUL, [CLOCK]),
    node("a"),
    node("a", Standing.CANNOT_TELL, [SILENT], None),
)
OTHER = ("compute.gemm",)


@pytest.mark.parametrize(
    ("finding", "gates", "said"),
    [
        (
            CLOCK, (gate(9 * DAY_S, BAD), gate(4 * DAY_S, GOOD), gate(3 * DAY_S, BAD), gate(2 * DAY_S, GOOD, checks=OTHER)),
            f"also in 2 of the last 3 gates that measured it, first {_day(9)}",
        ),
        (CLOCK, (gate(DAY_S, BAD),), f"also in the last gate that measured it, first {_day(1)}"),
        (CLOCK, (gate(2 * DAY_S, GOOD),), "new: not in the last gate that measured it"),
        (
            CLOCK, (gate(9 * DAY_S, BAD), *(gate(age * DAY_S, GOOD) for age in range(6, 0, -1))),
            f"not in the last 5 gates that measured it; before that, first {_day(9)}",
        ),
        (CLOCK, (gate(DAY_S, GOOD, checks=OTHER), gate(DAY_S / 2, GONE)), ""),
        (SILENT, (gate(2 * DAY_S, GOOD), gate(DAY_S, GONE)), f"also in 1 of the last 2 gates that measured it, first {_day(1)}"),
        (replace(GEMM, subject="a/rank-1"), (gate(DAY_S, node("a", Standing.CONDEMNED, [GEMM])),),
         f"also in the last gate that measured it, first {_day(1)}"),
        (replace(CLOCK, metric="", message="is 3 s behind"), (gate(DAY_S, node("a", findings=[
            replace(CLOCK, metric="", message="is 12 s behind")])),), f"also in the last gate that measured it, first {_day(1)}"),
        (replace(CLOCK, metric="wall_rate"), (gate(DAY_S, BAD),), "new: not in the last gate that measured it"),
        (replace(CLOCK, subject=CLUSTER), (replace(gate(DAY_S, GOOD), cluster_findings=(replace(CLOCK, subject=CLUSTER),)),),
         f"also in the last gate that measured it, first {_day(1)}"),
    ],
)  # fmt: skip
def test_a_finding_is_known_from_earlier_gates_or_new(
    finding: KeptFinding, gates: tuple[GateNodes, ...], said: str
) -> None:
    """Gates that did not measure its check do not count: what nobody looked for is neither known nor new."""
    assert said == _said(finding, *gates)


def test_a_machine_is_followed_and_not_its_name() -> None:
    """One that has another name now keeps its findings, and one that has its name begins without any."""
    past = gate(DAY_S, BAD, node("b"))
    of_a, of_b = {(past.gate_id, "a"): 0}, {(past.gate_id, "b"): 1}

    assert "new" in _said(CLOCK, past, machines={**of_a, **of_b, ("now", "a"): 1})
    assert "also" in _said(replace(CLOCK, subject="b"), past, machines={**of_a, **of_b, ("now", "b"): 0})
    assert "" == _said(CLOCK, past, machines={**of_a, ("now", "a"): 2})
    assert "also" in _said(CLOCK, past, machines={("now", "a"): 2})
