"""A report that was judged and that the store does not take."""

from __future__ import annotations

from pathlib import Path

from checks.model import Answer
from tasks.finish import failed_outcome
from tasks.store.base import StoreFull
from tests.tasks.sessions import session
from tests.tasks.test_finish import NO_GO


def test_a_report_that_cannot_be_stored_is_told_with_what_was_observed(tmp_path: Path) -> None:
    """One sentence, the remedy of the store, and where the report is instead; no word about a report that was cut."""
    one = session(tmp_path)
    one.judged = NO_GO
    error = StoreFull("the store /s is full (No space left on device). Free space there.", "It is in /tmp/x.")
    outcome = failed_outcome(one, error, None)

    assert outcome.judged is not None
    (finding,) = outcome.judged.verdict.findings
    assert f"the report could not be stored: {error}" == finding.message == outcome.reason
    assert ("It is in /tmp/x.", "Run the gate again when the store can be written.") == (
        finding.evidence,
        finding.remedy,
    )
    assert NO_GO.verdict.coverage == outcome.judged.verdict.coverage
    assert ((), Answer.CANNOT_TELL) == (outcome.judged.verdict.condemned, outcome.judged.verdict.answer)
