"""Since when a finding stands, and when it was last seen."""

from __future__ import annotations

from tasks.reports.fleet.fleet import Fleet
from tasks.reports.fleet.states import HOUR_S
from tasks.reports.fleet.text import node_text
from tasks.store.node_history import NEWEST
from tasks.store.node_rows import Standing
from tests.tasks.reports.fleet.test_states import CLOCK, DAY_S, NOW, SILENT, fleet, gate, node, only, utc


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
    dates = f"(since {one.since}, {one.since_gate_id}; last seen {one.last_seen}, {one.gate_id})"
    assert dates in node_text(only(found), found)


def test_a_finding_of_one_gate_is_dated_once() -> None:
    """First and last are the same."""
    found = fleet(gate(HOUR_S, node("a", Standing.DOUBTFUL, [CLOCK])))
    (one,) = only(found).open

    assert f"(since {utc(NOW - HOUR_S)}, g-{HOUR_S:.0f})" in node_text(only(found), found)
    assert one.since == one.last_seen


def test_missing_evidence_stands_since_the_last_proof() -> None:
    """Which is what answers it."""
    silent = node("a", Standing.CANNOT_TELL, [SILENT], None)
    gates = (gate(age * DAY_S, row) for age, row in ((9, silent), (8, node("a")), (7, silent), (6, silent)))
    found = fleet(*gates)

    assert [(f"g-{7 * DAY_S:.0f}", f"g-{6 * DAY_S:.0f}", False)] == _dates(found)


def test_finding_beyond_the_kept_gates_is_dated_at_least_since_the_oldest() -> None:
    """It stands at least since the oldest of the newest gates."""
    bad = node("a", Standing.DOUBTFUL, [CLOCK])
    found = fleet(*(gate(HOUR_S * age, bad) for age in range(80, 0, -1)))

    assert [(f"g-{NEWEST * HOUR_S:.0f}", f"g-{HOUR_S:.0f}", True)] == _dates(found)
    assert "(at least since " in node_text(only(found), found)
