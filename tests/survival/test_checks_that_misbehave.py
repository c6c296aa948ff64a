"""A check that fails in any way costs one observation and makes the gate say that it cannot tell. One job has all of them."""

from __future__ import annotations

import pytest

from checks.model import Cause, Outcome
from checks.process.tree import start_ticks
from tests.survival.world import Ended, World, run

SABOTAGE = ("raises", "hangs", "nan", "gigabyte", "exits", "daemon", "counts", "blind")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """One job with every misbehaving node check in it."""
    return run(World(sabotage=SABOTAGE, few=True), tmp_path_factory.mktemp("misbehave"))


def test_check_without_a_measurement_is_missing_evidence(ended: Ended) -> None:
    """A check that raises, one that hangs and ignores SIGTERM, one whose value is no number, one that exits without a result, and
    a closing check whose first measurement failed, which is no zero.
    """
    for check, said in (
        ("sabotage.raises", "ZeroDivisionError: deliberate"),
        ("sabotage.hangs", "deadline of 1 s"),
        ("sabotage.nan", "nan in value"),
        ("sabotage.exits", "exit code 0 and left no result"),
        ("sabotage.blind", "(first measurement: the counters cannot be read)"),
    ):
        (row,) = [o for o in ended.report.observations if o.check == check]
        (finding,) = [f for f in ended.verdict.findings if f.check == check]

        assert (Outcome.ERRORED, Cause.EVIDENCE) == (row.outcome, finding.cause)
        assert said in row.reason


def test_a_check_that_prints_a_gigabyte(ended: Ended) -> None:
    """Its output is cut and flagged; what it measured counts."""
    (row,) = [o for o in ended.report.observations if o.check == "sabotage.gigabyte"]

    assert (Outcome.MEASURED, True) == (row.outcome, row.evidence_truncated)
    assert not [f for f in ended.verdict.findings if f.check == "sabotage.gigabyte"]


def test_a_check_that_leaves_a_daemon_behind(ended: Ended) -> None:
    """It measured, and what it left is ended with the run."""
    (row,) = [o for o in ended.report.observations if o.check == "sabotage.daemon"]
    pid = row.metrics["value"]

    assert isinstance(pid, int) and start_ticks(pid) is None


def test_the_answer_is_cannot_tell_and_nothing_else_is_lost(ended: Ended) -> None:
    """Five observations are missing, every other one is there."""
    checks = ended.verdict.coverage.checks

    assert (3, 5) == (ended.exit_code, checks.required - checks.observed)


def test_a_closing_check_compares(ended: Ended) -> None:
    """Its first measurement is from before the ranks, its second from after them."""
    observations = {observation.check: observation for observation in ended.report.observations}
    counts = observations["sabotage.counts"]

    assert counts.metrics == {"delta": 2, "before_the_ranks": True, "after_the_ranks": True}
    assert counts.started_s > observations["site.adds"].started_s > 0
