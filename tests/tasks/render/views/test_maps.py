"""A matrix of rates: the bad parts stand together, whatever the size, and what is missing is no rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tasks.render.views.maps import STEPS, TABLE, Matrix, heat_map, pair_map, pair_matrix
from tests.sample_reports import healthy, verdict_of, with_metric, without_row
from tests.tasks.render.fleets import cut_off, fleet, judged


def _matrix(names: int, slow: tuple[str, ...] = (), bad: frozenset[tuple[str, str]] = frozenset()) -> Matrix:
    every = tuple(f"h{i}" for i in range(names))
    values = {(a, b): 1.0 if {a, b} & set(slow) else 10.0 for a in every for b in every if a != b}
    return Matrix("t", "GB/s", every, values, bad, frozenset(slow))


def test_condemned_parts_stand_together_first() -> None:
    """Rows and columns in one order."""
    made = heat_map(_matrix(30, ("h7", "h21", "h28")))

    assert ("h7", "h21", "h28") == made.names[:3]
    assert (TABLE, 30 - TABLE) == (len(made.rows), made.hidden)


def test_those_with_the_same_bad_partners_stand_together() -> None:
    """A switch between two groups: its hosts are bad towards the same others."""
    pairs = [(a, b) for a in ("h1", "h5", "h9") for b in ("h2", "h6", "h8")]
    bad = frozenset([*pairs, *((b, a) for a, b in pairs)])
    first = heat_map(_matrix(12, bad=bad)).names[:6]

    assert {"h1", "h5", "h9"} in ({*first[:3]}, {*first[3:]})
    assert {"h2", "h6", "h8"} in ({*first[:3]}, {*first[3:]})


def test_what_was_not_measured_is_no_shade_of_slow() -> None:
    """It has a text and no step, and is counted."""
    matrix = _matrix(3)
    made = heat_map(Matrix("t", "GB/s", matrix.names, {**matrix.values, ("h0", "h1"): None}))
    cell = dict(made.rows)["h0"][1]

    assert ("none", None, False) == (cell.text, cell.step, cell.bad)
    assert made.said == "5 of 6 directions measured, 10 GB/s; 1 not measured"


def test_a_fleet_is_cut_to_its_worst_parts() -> None:
    """The rest is counted."""
    made = heat_map(_matrix(200, ("h190",)))

    assert ("h190", TABLE, 200 - TABLE) == (made.names[0], len(made.rows), made.hidden)


@given(st.lists(st.floats(0, 1e18), min_size=6, max_size=6))
def test_any_rates_make_a_map(values: list[float]) -> None:
    """Steps within the key; a greater rate never has a darker shade."""
    names = ("a", "b", "c")
    pairs = [(a, b) for a in names for b in names if a != b]
    made = heat_map(Matrix("t", "u", names, dict(zip(pairs, values, strict=True))))
    steps = {(a, b): cell.step for a, row in made.rows for b, cell in zip(made.names, row, strict=True)}
    ordered = [steps[pair] for _, pair in sorted(zip(values, pairs, strict=True))]

    assert all(step is not None and 0 <= step < STEPS for step in ordered)
    assert sorted(ordered, key=lambda step: step or 0) == ordered


def test_the_report_of_a_slow_host_makes_its_row_the_first() -> None:
    """network.pairs of a report, through the verdict's own findings."""
    report = cut_off(fleet(8), ["ip-10-0-0-15"], 0.2)
    verdict, _ = judged(report)
    made = pair_map(report, verdict)

    assert made is not None
    assert "ip-10-0-0-15" == made.names[0]
    assert {"ip-10-0-0-15"} == made.condemned
    assert {0} == {cell.step for cell in made.rows[0][1] if cell.text}


def test_a_slow_link_is_marked_both_ways_and_no_host_is() -> None:
    """One path of many."""
    speeds = (0.01, 4.0, 4.0, 4.0)
    report = with_metric(healthy(5, 1), "network.pairs", "node-2", "bandwidth_gbps", speeds)
    matrix = pair_matrix(report, verdict_of(report))

    assert matrix is not None
    assert {("node-0", "node-2"), ("node-2", "node-0")} == matrix.bad
    assert frozenset() == matrix.condemned


def test_a_host_that_measured_nothing_has_an_empty_row() -> None:
    """It is there, and is not slow."""
    report = without_row(healthy(3, 1), "network.pairs", "node-1")
    made = pair_map(report, verdict_of(report))

    assert made is not None
    assert {"none"} == {cell.text for cell in dict(made.rows)["node-1"] if cell.text}
    assert "2 not measured" in made.said
