"""Bandwidth beside what was expected: the numbers of the facts, with their source, and nothing made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.facts.builtin import builtin
from checks.judge.rules.expected_values import expected_busbw
from checks.model import Outcome
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.views.bandwidth import panels
from tasks.render.views.expectations import (
    NOTHING_EXPECTED,
    bandwidth_rows,
    bandwidth_table,
    expectations,
    said_of,
    sweeps,
    telling,
)
from tests.sample_reports import FACTS, POLICY, healthy, with_metric
from tests.tasks.render.fleets import SIZES, TYPE, fleet, judged, slower


def test_a_rank_that_is_slow_is_the_slowest() -> None:
    """Least, median and most of the ranks of each size, the sizes in order."""
    (sweep,) = sweeps(healthy(2, 2))
    slow = with_metric(
        healthy(2, 2), "collective.all_reduce", "node-1/rank-3", "busbw_gbps", (0.5,) * len(sweep.samples)
    )
    last = sweeps(slow)[0].samples[-1]

    assert sorted(s.size_bytes for s in sweep.samples) == [s.size_bytes for s in sweep.samples]
    assert (0.5, 4) == (last.least, last.ranks)
    assert last.least < last.middle < last.most


def test_the_expectation_is_the_facts_own() -> None:
    """At each measured size what the facts know, of the type, nodes, ranks, collective and transport; with its source."""
    report = fleet(2)
    found = expectations(report, builtin())
    known = expected_busbw(builtin(), TYPE, 2, 16, "all_reduce", 2**30, "efa")
    at = found.at("nccl.all_reduce", 2.0**30)
    curve = found.curve("nccl.all_reduce")

    assert known is not None and at is not None and curve is not None
    assert (known.value, known.low) == (at.value, at.low)
    assert known.provenance.source in curve.source


def test_a_size_of_which_nothing_is_known_has_no_expectation() -> None:
    """A KiB says nothing of bandwidth, and no line is made up for it."""
    found = expectations(fleet(2), builtin())

    assert found.at("nccl.inter_node", float(SIZES[0])) is None


def test_what_nothing_is_known_of_is_said() -> None:
    """A collective without an expectation is named, and a type that the facts lack."""
    found = expectations(fleet(3), builtin())
    alien = expectations(healthy(), replace(FACTS, instances={}))

    assert found.curve("nccl.alltoall") is None
    assert any("alltoall over 24 ranks of 3 x p5.48xlarge (efa)" in line for line in found.unknown)
    assert any("Nothing is known of cpu" in line for line in alien.unknown)


def test_where_nobody_looked_the_page_says_so() -> None:
    """A page without facts does not look as if all were as expected."""
    report = healthy()
    page = html(report, judged(report, POLICY)[0], "local")

    assert NOTHING_EXPECTED.unknown[0] in page


def test_bandwidths_stand_beside_what_is_expected() -> None:
    """Where nothing is known, that is in the row."""
    report = fleet(2)
    rows = bandwidth_table(bandwidth_rows(sweeps(report), judged(report)[1].expected)).rows
    unknown = bandwidth_table(bandwidth_rows(sweeps(healthy()), NOTHING_EXPECTED)).rows

    assert "0.95" == next(row[-1] for row in rows if row[:2] == ("nccl.all_reduce", "1 GiB"))
    assert {("not known", "")} == {row[-2:] for row in unknown}


def test_a_summary_has_the_largest_size_and_the_one_furthest_below() -> None:
    """Each row once."""
    report = slower(fleet(1), "nccl.intra_node", "ip-10-0-0-11", 0.5)
    rows = telling(bandwidth_rows(sweeps(report), judged(report)[1].expected))
    shares = [row.of_expected for row in rows if row.of_expected is not None]

    assert len({row.check for row in rows}) <= len(rows) == len(set(rows))
    assert min(shares) < 0.6 and {"1 GiB"} == {
        row.sample.size for row in rows[: len({r.check for r in rows})]
    }


def test_the_share_is_the_slowest_ranks() -> None:
    """Half as fast as the others, who reach 0.97 of what is expected."""
    report = slower(fleet(1), "nccl.intra_node", "ip-10-0-0-11", 0.5)
    _, beside = judged(report)
    rows = [row for row in bandwidth_rows(sweeps(report), beside.expected) if row.check == "nccl.intra_node"]
    last = telling(rows)[0]

    assert pytest.approx(0.5 * 0.97, rel=0.03) == last.of_expected
    assert said_of(last).endswith(f"so {last.of_expected:.2f} of it")


def test_a_panel_draws_its_expectation_inside_its_box() -> None:
    """An expectation above all that was measured raises the scale."""
    report = slower(fleet(1), "nccl.intra_node", "ip-10-0-0-11", 0.1)
    _, beside = judged(report)
    panel = next(p for p in panels(sweeps(report), beside.expected) if p.check == "nccl.intra_node")
    heights = [float(place.split(" ")[1]) for place in panel.expected[1:].split("L")]

    assert heights and all(16 <= y <= 212 for y in heights)
    assert all(16 <= y <= 212 for _, y in panel.dots)
    assert min(heights) < min(y for _, y in panel.dots)
    assert panel.source


def test_what_was_not_measured_is_not_drawn() -> None:
    """A rank that errored adds nothing to the others' curve."""
    report = healthy(2, 2)
    rows = tuple(
        replace(row, outcome=Outcome.ERRORED, metrics={}, reason="gone")
        if row.check == "collective.all_reduce"
        else row
        for row in report.observations
    )

    assert () == sweeps(replace(report, observations=rows))


def test_the_summary_has_the_bandwidths_and_whose_expectation_it_is() -> None:
    """Markdown: largest size of each, share, source."""
    report = fleet(2)
    verdict, beside = judged(report)
    page = markdown(report, verdict, "p5", beside)

    assert "## Bandwidth" in page and "| nccl.all_reduce | 1 GiB |" in page
    assert "Expected of nccl.all\\_reduce" in page or "Expected of nccl.all_reduce" in page
