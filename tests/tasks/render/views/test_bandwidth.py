"""Bandwidth beside what was expected: the numbers of the facts, with their source, and nothing made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from checks.facts.builtin import builtin
from checks.judge.rules.expected_values import expected_busbw
from checks.model import Outcome
from tasks.render.html import html
from tasks.render.views.bandwidth import NO_TABLE, CollectiveRate, bandwidth, bandwidth_table
from tests.sample_reports import FACTS, POLICY, healthy, with_metric
from tests.tasks.render.fleets import SIZES, TYPE, changed, fleet, judged

ERRORED: Any = {"outcome": Outcome.ERRORED, "metrics": {}, "reason": "gone"}


def test_a_rank_that_is_slow_is_the_slowest() -> None:
    """Least, median and most of the ranks of each size, the sizes in order."""
    sizes = [rate.size_bytes for rate in bandwidth(healthy(2, 2), FACTS).rates]
    rates = (0.5,) * len(sizes)
    slow = with_metric(healthy(2, 2), "collective.all_reduce", "node-1/rank-3", "busbw_gbps", rates)
    last = bandwidth(slow, FACTS).rates[-1]

    assert sorted(sizes) == sizes
    assert (0.5, 4) == (last.least, last.ranks)
    assert last.least < last.middle < last.most


def _at(rates: tuple[CollectiveRate, ...], check: str, size: float) -> float | None:
    return next(rate.expected for rate in rates if (rate.check, rate.size_bytes) == (check, size))


def test_the_expectation_is_the_facts_own() -> None:
    """At each measured size what the facts know, of the type, nodes, ranks, collective and transport; with its source; a KiB says
    nothing of bandwidth.
    """
    found = bandwidth(fleet(2), builtin())
    known = expected_busbw(builtin(), TYPE, 2, 16, "all_reduce", 2**30, "efa")

    assert known is not None and known.value == _at(found.rates, "nccl.all_reduce", 2.0**30)
    assert any(known.provenance.source in line for line in found.sources)
    assert None is _at(found.rates, "nccl.inter_node", float(SIZES[0]))


def test_bandwidth_lists_collectives_and_types_without_expectation() -> None:
    """A collective without an expectation is named, and a type that the facts lack."""
    found = bandwidth(fleet(3), builtin())
    alien = bandwidth(healthy(), replace(FACTS, instances={}))

    assert not any("nccl.alltoall" in line for line in found.sources)
    assert any("alltoall over 24 ranks of 3 x p5.48xlarge (efa)" in line for line in found.unknown)
    assert any("Nothing is known of cpu" in line for line in alien.unknown)


def test_bandwidth_page_states_that_it_has_no_facts() -> None:
    """A page without facts does not look as if all were as expected."""
    report = healthy()

    assert NO_TABLE in html(report, judged(report, POLICY)[0], "local")
    assert {("not known", "")} == {row[-2:] for row in bandwidth_table(bandwidth(report, None).rates).body}


def test_bandwidth_has_no_row_for_a_collective_that_errored() -> None:
    """A collective that errored has no row."""
    report = healthy(2, 2)
    for node in ("node-0", "node-1"):
        report = changed(report, "collective.all_reduce", node, lambda row: replace(row, **ERRORED))

    assert () == bandwidth(report, FACTS).rates
