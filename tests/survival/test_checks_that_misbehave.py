"""A check that fails in any way costs one observation and makes the gate say that it cannot tell."""

from __future__ import annotations

import pytest

from checks.model import Cause, Outcome
from checks.process.tree import start_ticks
from tests.survival.world import Ended, World, run

SABOTAGE = ("raises", "hangs", "nan", "gigabyte", "exits", "daemon")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """One job with every misbehaving node check in it."""
    return run(World(sabotage=SABOTAGE, few=True), tmp_path_factory.mktemp("misbehave"))


def reason(ended: Ended, check: str) -> str:
    """Why the check's observation is none, with the FAIL it made."""
    (row,) = [o for o in ended.report.observations if o.check == check]
    (finding,) = [f for f in ended.verdict.findings if f.check == check]
    assert (Outcome.ERRORED, Cause.EVIDENCE) == (row.outcome, finding.cause)
    return row.reason


def test_a_check_that_raises(ended: Ended) -> None:
    """It is named with what it raised."""
    assert "ZeroDivisionError: deliberate" in reason(ended, "sabotage.raises")


def test_a_check_that_hangs(ended: Ended) -> None:
    """It is ended at its deadline although it ignores SIGTERM."""
    assert "deadline of 1 s" in reason(ended, "sabotage.hangs")


def test_a_check_that_returns_nan(ended: Ended) -> None:
    """NaN is no number."""
    assert "nan in value" in reason(ended, "sabotage.nan")


def test_a_check_that_exits_with_zero_and_no_result(ended: Ended) -> None:
    """An exit code is no measurement."""
    assert "exit code 0 and left no result" in reason(ended, "sabotage.exits")


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
    """Four observations are missing, every other one is there."""
    checks = ended.verdict.coverage.checks

    assert (3, 4) == (ended.exit_code, checks.required - checks.observed)
