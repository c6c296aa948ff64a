"""How loud the last line of a gate's log is."""

from __future__ import annotations

import logging

import pytest

from checks.model import Answer, Level
from tasks import finish
from tasks.gate.outcome import Decision, Ending, JudgedReport, Outcome
from tests.sample_reports import healthy, verdict_of, wrong_sums

GOOD = JudgedReport(healthy(), verdict_of(healthy()))
BAD = JudgedReport(wrong_sums(healthy()), verdict_of(wrong_sums(healthy())))


@pytest.mark.parametrize(
    ("ending", "decision", "judged", "level"),
    [
        (Ending.VERDICT, Decision.LAUNCHED, GOOD, logging.INFO),
        (Ending.VERDICT, Decision.PASSED, GOOD, logging.INFO),
        (Ending.VERDICT, Decision.OVERRIDDEN, BAD, logging.WARNING),
        (Ending.VERDICT, Decision.OBSERVED, BAD, logging.WARNING),
        (Ending.VERDICT, Decision.REFUSED, BAD, logging.ERROR),
        (Ending.VERDICT, Decision.CANNOT_TELL, None, logging.WARNING),
        (Ending.VERDICT, Decision.AWAITING, BAD, logging.WARNING),
        (Ending.NO_CAPACITY, None, None, logging.WARNING),
        (Ending.REJECTED, None, None, logging.WARNING),
        (Ending.JOB_FAILED, Decision.LAUNCHED, GOOD, logging.ERROR),
    ],
)
def test_the_last_line_is_as_loud_as_the_end(
    monkeypatch: pytest.MonkeyPatch,
    ending: Ending,
    decision: Decision | None,
    judged: JudgedReport | None,
    level: int,
) -> None:
    """One line, which is the sentence that the final state has as well."""
    said: list[tuple[int, str]] = []
    monkeypatch.setattr(finish.LOG, "log", lambda loud, text: said.append((loud, text)))
    outcome = Outcome("g-1", ending, decision, judged, None, "why it is so")

    state = finish.failed_state(outcome, "test")

    assert [(level, state.message)] == said
    assert (BAD.verdict.level, GOOD.verdict.answer) == (Level.FAIL, Answer.GO)
