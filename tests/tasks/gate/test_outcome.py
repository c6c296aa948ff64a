"""What became of the training, on every page of a verdict: said of a gate that refused, and of no other."""

from __future__ import annotations

import pytest

from tasks.gate import outcome
from tasks.gate.outcome import (
    NOBODY_ASKED,
    NOT_STARTED,
    Decision,
    Ending,
    GateOutcome,
    JudgedReport,
    Training,
    kept_logs,
    without_training,
)
from tasks.launchers.base import JobState
from tasks.render.context import VerdictContext
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.terminal import terminal
from tasks.store.folder import FolderStore
from tasks.store.layout import log_key
from tests.sample_reports import healthy, verdict_of, wrong_sums

REPORT = wrong_sums(healthy(6, 2), "node-1/rank-3")
JUDGED = JudgedReport(REPORT, verdict_of(REPORT))
RAN = Training("g-1-train-1", JobState.FAILED)


def said(
    decision: Decision | None, launches: bool = True, training: Training | None = None, requested: bool = True
) -> str:
    """The sentence on the outcome's pages."""
    made = GateOutcome("g-1", Ending.VERDICT, decision, JUDGED, training, "why it ended")
    judged = without_training(made, launches, requested).judged
    return judged.context.training if judged else ""


@pytest.mark.parametrize("decision", list(Decision))
def test_a_gate_that_refused_says_that_no_training_was_started(decision: Decision) -> None:
    """By its decision; one that launched, passed or observed says nothing."""
    launched = decision in (Decision.LAUNCHED, Decision.PASSED, Decision.OVERRIDDEN, Decision.OBSERVED)

    assert said(decision) == ("" if launched else NOT_STARTED)


def test_outcome_text_denies_no_training_that_was_started_or_not_requested() -> None:
    """A policy that leaves warnings to a person does not make a gate wait that was to launch nothing, and the page says so. A training
    that was started may have been refused by its own nodes after their checks.
    """
    assert said(Decision.REFUSED, launches=False, requested=False) == ""
    assert said(Decision.AWAITING, launches=False, requested=False) == NOBODY_ASKED
    assert said(Decision.AWAITING, launches=False, training=RAN) == ""
    assert said(Decision.REFUSED, training=RAN) == ""


@pytest.mark.parametrize("training", ["", NOT_STARTED])
def test_every_page_says_it(training: str) -> None:
    """HTML, Markdown and terminal, once each."""
    shown = VerdictContext(training=training)
    pages = [render(REPORT, JUDGED.verdict, "local", context=shown) for render in (html, markdown, terminal)]

    assert [1 if training else 0] * 3 == [page.count(NOT_STARTED) for page in pages]


@pytest.mark.parametrize("ending", list(Ending))
@pytest.mark.parametrize("decision", [*Decision, None])
def test_every_end_of_a_gate_has_an_exit_code(ending: Ending, decision: Decision | None) -> None:
    """What an ending says already counts first; only what launched, passed or observed is a 0, and nothing known is a 3."""
    code = GateOutcome("g-1", ending, decision, None, None, "why it ended").code
    endings = {Ending.REJECTED: 2, Ending.JOB_FAILED: 4, Ending.NO_CAPACITY: 5, Ending.CANCELLED: 130}
    good = (Decision.LAUNCHED, Decision.PASSED, Decision.OVERRIDDEN, Decision.OBSERVED)
    decided = 0 if decision in good else 3 if decision in (Decision.CANNOT_TELL, None) else 1

    assert code == endings.get(ending, decided)


def test_the_logs_of_the_training_come_first_and_are_bounded(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of each, in the order of the nodes, without credentials and control characters; how many are left out is said."""
    monkeypatch.setattr(outcome, "MOST_LOGS", 3)
    monkeypatch.setattr(outcome, "LOG_CHARACTERS", 1_000)
    for node in (10, 2, 0, 4, 5):
        text = f"begin {'x' * 2_000} url=https://ada:hunter22@h \x1b[31mend of {node}\n"
        store.put(log_key("g-1", RAN.job_id, f"node-{node}"), text.encode())
    store.put(log_key("g-1", "g-1-check-1", "node-0"), b"checked\n")
    found = kept_logs(store, "g-1", RAN.job_id)

    assert found.startswith(f"==> {RAN.job_id}, node-0 (the last 1,000 characters) <==\nxxx")
    assert found.index("end of 0\n") < found.index("end of 2\n") < found.index("end of 4\n")
    assert "hunter22" not in found and "\x1b" not in found and "checked" not in found and "begin" not in found
    assert found.endswith(f"2 more logs are in {store.root}/gates/g-1/logs/{RAN.job_id}\n")


def test_the_logs_of_the_checks_stand_for_a_training_that_has_none(store: FolderStore) -> None:
    """And a gate without any log has none."""
    store.put(log_key("g-1", "g-1-check-1", "node-0"), "caf\u00e9\n".encode())

    assert kept_logs(store, "g-1", "") == "==> g-1-check-1, node-0 <==\ncaf\u00e9\n"
    assert kept_logs(store, "g-2", "") == ""
    for node in ("node-0", "node-1"):
        store.put(log_key("g-3", "g-3-check-1", node), b"\n")
    assert kept_logs(store, "g-3", "") == ""  # headings alone would be no log
