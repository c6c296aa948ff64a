"""When the nodes were measured is said with a verdict that is considerably later: a PASS that is used again, or an old report."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from checks.documents.report import digest, dump
from checks.judge.clocks import seconds_of
from checks.model import Report
from flows.cli.output import text_of
from tasks.gate.approval.answers import question_text
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport
from tasks.gate.question import Question
from tasks.judge import report_verdict
from tasks.notifiers.pagerduty import trigger
from tasks.notifiers.slack.messages import notification_message
from tasks.paging.content import page_of
from tasks.publish import verdict_page
from tasks.render.headline import measured_before
from tasks.render.html import html
from tasks.store import records
from tasks.store.records import record_of
from tests.sample_reports import healthy, verdict_of, wrong_sums
from tests.tasks.paging.test_content import page_session
from tests.tasks.sessions import session

JUDGED, MEASURED = "2026-11-23T10:12:00Z", "2026-11-20T10:12:00Z"
SAID = "The nodes were measured 3 days before this verdict, 2026-11-20 10:12 UTC."


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (MEASURED, SAID),
        ("2026-11-23T07:12:00+00:00", "The nodes were measured 3 hours before this verdict, 2026-11-23 07:12 UTC."),
        ("2026-11-22T02:12:00Z", "The nodes were measured 32 hours before this verdict, 2026-11-22 02:12 UTC."),
        ("2026-11-23T09:12:00Z", ""),
        ("2026-11-23T10:20:00Z", ""),
        ("yesterday", ""),
    ],
)  # fmt: skip
def test_the_age_is_said_in_peoples_units(measured: str, said: str) -> None:
    """Where the two are usually so near to each other, and where a time is not known, nothing is said."""
    assert said == measured_before(seconds_of(JUDGED), seconds_of(measured))


def shown(report: Report, said: str) -> JudgedReport:
    made = JudgedReport(report, verdict_of(report), "g-0")
    return replace(made, context=replace(made.context, measured=said))


def pages(judged: JudgedReport) -> dict[str, str]:
    """All pages and messages with the verdict, without line breaks and escapes."""
    report, verdict, context = judged.report, judged.verdict, judged.context
    ended = GateOutcome("bravo-1", Ending.VERDICT, Decision.LAUNCHED, judged, None, "", "r")
    page = page_of(page_session(), ended)
    asked = Question(1, "g-1", "g", "c", "f", "k", "asks", False, 1.0, 2.0, (), ())
    made = {
        "html": html(report, verdict, "c", context),
        "artifact": verdict_page(judged, "c", ("/r.html", "/f.html"), "g.toml", "h"),
        "PagerDuty": str(trigger(page, "k")["payload"]),
        "Slack": str(notification_message(page).blocks),
        "mail": page.text,
        "question": question_text(asked, judged, False),
        **{form: text_of(report, verdict, "c", form, context) for form in ("text", "markdown")},
    }
    return {name: " ".join(text.replace("&#58;", ":").split()) for name, text in made.items()}


def test_every_page_and_message_says_it() -> None:
    """Once."""
    found = pages(shown(wrong_sums(healthy()), SAID))

    assert dict.fromkeys(found, 1) == {name: text.count(SAID) for name, text in found.items()}


def test_a_fresh_verdict_has_no_word_about_it() -> None:
    """Its pages are what they were."""
    assert not any("before this verdict" in text for text in pages(shown(healthy(2, 1), "")).values())


def test_a_gate_says_how_old_the_report_is_that_it_judges(tmp_path: Path) -> None:
    """By its own clock. One that was measured just now is as before."""
    own, now = session(tmp_path), datetime.fromtimestamp(time.time(), UTC).isoformat()
    old, fresh = (
        report_verdict(own, replace(healthy(2, 1), measured_at=when)).context.measured
        for when in (MEASURED, now)
    )

    assert "before this verdict" in old and fresh == ""


def test_a_verdict_that_is_made_again_counts_from_the_first_one(tmp_path: Path) -> None:
    """Somebody answered a question the next morning, or the process died: the machines were measured just before the verdict."""
    own, report = session(tmp_path), replace(healthy(2, 1), measured_at=MEASURED)
    for judged, said in (("2026-11-20T10:13:00Z", ""), (JUDGED, SAID)):
        kept = record_of("g-1", report, verdict_of(report), "r", seconds_of(judged) or 0.0, "local", "c")
        records.keep(own.context.store, kept)

        assert said == report_verdict(own, report, digest(dump(report))).context.measured
