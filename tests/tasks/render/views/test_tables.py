"""The figures as rows for tables: worst first, every key in every row, what is not known said."""

from __future__ import annotations

from dataclasses import replace

from checks.model import Answer, Count, Level
from tasks.render.context import NO_CONTEXT
from tasks.render.html import html
from tasks.render.views.tables import bandwidth_table, finding_rows, pair_rows
from tests.sample_reports import healthy, verdict_of, with_metric, without_node, without_row, wrong_sums
from tests.tasks.render.fleets import cut_off, fleet, judged


def test_findings_are_rows_the_worst_first() -> None:
    """Level, cause, where, check, message and remedy."""
    report = with_metric(
        wrong_sums(without_node(healthy(6, 2), "node-5")), "system.clock", "node-2", "synchronised", False
    )
    rows = finding_rows(verdict_of(report))

    assert ["FAIL", "CANNOT TELL", "WARN"] == [row["level"] for row in rows]
    assert ("node-1/rank-3", "Do not train on this rank's node: run the gate without it.") == (
        rows[0]["where"],
        rows[0]["remedy"],
    )


def test_a_go_has_a_row_that_says_so() -> None:
    """Else the newest table of this key would be an older refusal."""
    (row,) = finding_rows(verdict_of(healthy()))

    assert ("PASS", "cluster") == (row["level"], row["where"])
    assert "within the policy" in str(row["message"])


def test_what_nobody_could_tell_has_no_row_that_says_pass() -> None:
    """Coverage that is not whole is no go, even where no finding says what is missing."""
    verdict = verdict_of(healthy())
    coverage = replace(verdict.coverage, nodes=Count(1, 2))
    unknown = replace(verdict, level=Level.FAIL, answer=Answer.CANNOT_TELL, coverage=coverage)
    (row,) = finding_rows(unknown)

    assert ("CANNOT TELL", "cluster") == (row["level"], row["where"])
    assert "evidence is missing" in str(row["message"])
    assert "within the policy" not in html(healthy(), unknown, "local")


def test_bandwidths_stand_beside_what_is_expected() -> None:
    """Largest size first; where nothing is known, that is said."""
    report = fleet(2)
    rows = bandwidth_table(report, judged(report)[1])
    first = next(row for row in rows if row["check"] == "nccl.all_reduce")

    assert ("1 GiB", "0.95") == (first["size"], first["slowest of expected"])
    assert {"not known"} == {row["expected, GB/s"] for row in bandwidth_table(healthy(), NO_CONTEXT)}


def test_pairs_are_rows_with_the_named_ones_first() -> None:
    """Those that a finding names, then the slowest; every direction once."""
    report = cut_off(fleet(4), ["ip-10-0-0-13"], 0.3)
    rows = pair_rows(report, judged(report)[0])

    assert 12 == len(rows)
    assert ["yes"] * 6 + [""] * 6 == [row["named by a finding"] for row in rows]
    assert {"0.3"} == {row["GB/s"] for row in rows[:6]}


def test_a_direction_without_a_measurement_is_before_the_slow_ones() -> None:
    """Missing evidence is not fast."""
    report = without_row(healthy(3, 1), "network.pairs", "node-1")
    rows = [row for row in pair_rows(report, verdict_of(report)) if not row["named by a finding"]]

    assert "not measured" in {row["GB/s"] for row in pair_rows(report, verdict_of(report))}
    assert "not measured" not in {row["GB/s"] for row in rows[2:]}


def test_what_was_not_measured_has_no_table() -> None:
    """A report of one node, and one that cannot be read."""
    assert [] == pair_rows(healthy(1, 2), verdict_of(healthy(1, 2)))
    assert ([], []) == (bandwidth_table(None, NO_CONTEXT), pair_rows(None, verdict_of(healthy())))


def test_every_row_has_every_key() -> None:
    """Prefect's table takes its columns from the first row."""
    report = cut_off(fleet(4), ["ip-10-0-0-13"], 0.3)
    verdict, context = judged(report)

    for rows in (finding_rows(verdict), bandwidth_table(report, context), pair_rows(report, verdict)):
        assert 1 == len({tuple(row) for row in rows})
