"""Who hears what, how loud, and in which words: every end of a gate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.judge.verdict import conclude
from checks.model import LINK as BETWEEN
from checks.model import Cause, Count, Coverage, Digests, Finding, Level, Verdict
from checks.policy import OnWarn
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport, Training
from tasks.launchers.base import JobState
from tasks.notifiers.base import Audience, PageKind, Severity
from tasks.paging import content
from tasks.paging.content import (
    about_of,
    audience_of,
    blames_hardware,
    items_of,
    kind_of,
    severity_of,
    title_of,
)
from tasks.render.context import NO_CONTEXT
from tasks.render.headline import culprits
from tests.sample_reports import POLICY, healthy

WHOLE = Coverage(Count(4, 4), Count(0, 0), Count(8, 8), Count(9, 9))
DIGESTS = Digests("r", "p", "f", None, "e")
HARDWARE = ("FAIL HARDWARE",)
IMAGE = ("FAIL HARDWARE", "FAIL HARDWARE 1", "FAIL HARDWARE 2")
LINK = ("FAIL HARDWARE link",)
CONFIGURED = ("FAIL CONFIGURATION",)
APPLICATION = ("FAIL APPLICATION",)
EVIDENCE = ("FAIL EVIDENCE",)
WARNING = ("WARN HARDWARE",)
MIXED = ("FAIL EVIDENCE 1", "FAIL HARDWARE")
NOTHING: tuple[str, ...] = ()


def verdict(*words: str, on_warn: OnWarn = OnWarn.ASK) -> Verdict:
    """A verdict of findings such as "FAIL HARDWARE" (of node-0), "FAIL EVIDENCE 2" or "FAIL HARDWARE link"."""
    found = []
    for word in words:
        level, cause, where = [*word.split(), "0"][:3]
        subject = f"node-0{BETWEEN}node-1" if where == "link" else f"node-{where}"
        found.append(Finding(Level[level], Cause[cause], "gpu.memory", subject, "uncorrectable errors: 3"))
    return conclude(found, WHOLE, replace(POLICY, on_warn=on_warn), 4, DIGESTS, None)


def outcome(
    decision: Decision | None, words: tuple[str, ...] | None, ending: Ending = Ending.VERDICT
) -> GateOutcome:
    """An end by this verdict; None where nothing was judged."""
    judged = None if words is None else JudgedReport(healthy(), verdict(*words))
    return GateOutcome("g-1", ending, decision, judged, None, "why it ended")


@pytest.mark.parametrize(
    ("decision", "words", "ending", "audience", "severity", "kind"),
    [
        (Decision.LAUNCHED, NOTHING, Ending.VERDICT, Audience.OWNER, Severity.INFO, PageKind.GO),
        (Decision.LAUNCHED, WARNING, Ending.VERDICT, Audience.OWNER, Severity.INFO, PageKind.GO),
        (Decision.PASSED, NOTHING, Ending.VERDICT, Audience.OWNER, Severity.INFO, PageKind.GO),
        (Decision.REFUSED, HARDWARE, Ending.VERDICT, Audience.ONCALL, Severity.CRITICAL, PageKind.REFUSED),
        (Decision.REFUSED, MIXED, Ending.VERDICT, Audience.ONCALL, Severity.CRITICAL, PageKind.REFUSED),
        (Decision.REFUSED, LINK, Ending.VERDICT, Audience.ONCALL, Severity.CRITICAL, PageKind.REFUSED),
        (Decision.REFUSED, IMAGE, Ending.VERDICT, Audience.OWNER, Severity.ERROR, PageKind.REFUSED),
        (Decision.REFUSED, CONFIGURED, Ending.VERDICT, Audience.OWNER, Severity.ERROR, PageKind.REFUSED),
        (Decision.REFUSED, APPLICATION, Ending.VERDICT, Audience.OWNER, Severity.ERROR, PageKind.REFUSED),
        (Decision.REFUSED, WARNING, Ending.VERDICT, Audience.OWNER, Severity.WARNING, PageKind.REFUSED),
        (Decision.AWAITING, WARNING, Ending.VERDICT, Audience.OWNER, Severity.WARNING, PageKind.REFUSED),
        (Decision.CANNOT_TELL, EVIDENCE, Ending.VERDICT, Audience.OWNER, Severity.ERROR, PageKind.CANNOT_TELL),
        (Decision.CANNOT_TELL, None, Ending.VERDICT, Audience.OWNER, Severity.ERROR, PageKind.CANNOT_TELL),
        (None, None, Ending.VERDICT, Audience.OWNER, Severity.ERROR, PageKind.CANNOT_TELL),
        (Decision.OVERRIDDEN, HARDWARE, Ending.VERDICT, Audience.ONCALL, Severity.CRITICAL, PageKind.OVERRIDDEN),
        (Decision.OVERRIDDEN, EVIDENCE, Ending.VERDICT, Audience.ONCALL, Severity.CRITICAL, PageKind.OVERRIDDEN),
        (Decision.OBSERVED, NOTHING, Ending.VERDICT, Audience.OWNER, Severity.INFO, PageKind.GO),
        (Decision.OBSERVED, HARDWARE, Ending.VERDICT, Audience.ONCALL, Severity.CRITICAL, PageKind.OBSERVED),
        (Decision.OBSERVED, IMAGE, Ending.VERDICT, Audience.OWNER, Severity.ERROR, PageKind.OBSERVED),
        (Decision.OBSERVED, EVIDENCE, Ending.VERDICT, Audience.OWNER, Severity.ERROR, PageKind.OBSERVED),
        (Decision.OBSERVED, WARNING, Ending.VERDICT, Audience.OWNER, Severity.WARNING, PageKind.OBSERVED),
        (Decision.LAUNCHED, NOTHING, Ending.JOB_FAILED, Audience.OWNER, Severity.ERROR, PageKind.TRAINING_FAILED),
        (Decision.OBSERVED, HARDWARE, Ending.JOB_FAILED, Audience.OWNER, Severity.ERROR, PageKind.TRAINING_FAILED),
        (Decision.OVERRIDDEN, HARDWARE, Ending.JOB_FAILED, Audience.OWNER, Severity.ERROR, PageKind.TRAINING_FAILED),
        (None, None, Ending.NO_CAPACITY, Audience.OWNER, Severity.ERROR, PageKind.NO_CAPACITY),
        (None, None, Ending.REJECTED, Audience.OWNER, Severity.ERROR, PageKind.REJECTED),
    ],
)  # fmt: skip
def test_outcome_decides_audience_severity_and_kind_of_its_page(
    decision: Decision | None,
    words: tuple[str, ...] | None,
    ending: Ending,
    audience: Audience,
    severity: Severity,
    kind: PageKind,
) -> None:
    """The hardware's on-call hears of broken hardware and of overrides alone; everything else is the owner's."""
    made = outcome(decision, words, ending)

    assert (audience, severity, kind) == (
        audience_of(made, kind_of(made)),
        severity_of(made, kind_of(made)),
        kind_of(made),
    )


def test_no_missing_evidence_ever_reaches_the_hardware() -> None:
    """Whatever was decided on it, but for an override, which is loud."""
    decisions = [one for one in (*Decision, None) if one is not Decision.OVERRIDDEN]
    ends = [
        outcome(decision, words, ending)
        for decision in decisions
        for ending in Ending
        for words in (EVIDENCE, None)
    ]

    assert {Audience.OWNER} == {audience_of(end, kind_of(end)) for end in ends}


@pytest.mark.parametrize(
    ("words", "blames", "named"),
    [
        (HARDWARE, True, ("node-0",)),
        (MIXED, True, ("node-0",)),
        (LINK, True, ("node-0", "node-1")),
        (IMAGE, False, ("cluster",)),
        (CONFIGURED, False, ("node-0",)),
        (EVIDENCE, False, ()),
        (WARNING, False, ("node-0",)),
        (NOTHING, False, ()),
    ],
)
def test_page_blames_and_names_no_machine_for_missing_evidence(
    words: tuple[str, ...], blames: bool, named: tuple[str, ...]
) -> None:
    """Never a machine for missing evidence, and the cluster where too many fail alike."""
    assert (blames, named) == (blames_hardware(verdict(*words)), culprits(verdict(*words)))


@pytest.mark.parametrize(
    ("subjects", "about"),
    [
        # A silent node first: what other nodes lack follows from it.
        ((("report", "node-1"), ("network.pairs", "node-0"), ("compute.gemm", "cluster")), ("node-1",)),
        ((("compute.gemm", "node-2"), ("disk.io", "node-3/rank-6")), ("node-2", "node-3")),
        (tuple(("compute.gemm", f"node-{number}/rank-{number}") for number in range(4)), ("compute.gemm",)),
        ((("report", "cluster"),), ("report",)),
        (tuple(("report", f"node-{number}") for number in range(4)), ("report",)),
    ],
)
def test_page_about_missing_evidence_names_what_lacks_it(
    subjects: tuple[tuple[str, str], ...], about: tuple[str, ...]
) -> None:
    """Another fault has other names, and opens another incident."""
    found = [Finding(Level.FAIL, Cause.EVIDENCE, check, subject, "no report") for check, subject in subjects]
    made = conclude(found, WHOLE, POLICY, 4, DIGESTS, None)
    end = GateOutcome("g-1", Ending.VERDICT, Decision.CANNOT_TELL, JudgedReport(healthy(), made), None, "")

    assert about == about_of(end, kind_of(end))


def test_a_training_that_failed_names_the_node_whose_log_says_why() -> None:
    """The node of the failure, where there is one; a verdict that blames others is not about the training."""
    training = Training("j", JobState.FAILED, "", "node-3: KeyError", "node-3")
    ends = [
        replace(outcome(Decision.LAUNCHED, NOTHING, Ending.JOB_FAILED), training=one)
        for one in (training, replace(training, node=""), None)
    ]

    assert [("node-3",), (), ()] == [about_of(end, kind_of(end)) for end in ends]


def test_a_title_repeats_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes the state's message, the mail's subject and the incident's summary."""
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    made = replace(outcome(None, None, Ending.NO_CAPACITY), reason="refused: token hunter2hunter2")

    assert "NO CAPACITY p5: refused: token [removed]" == title_of(made, "p5")


def test_a_secret_at_the_place_of_a_cut_is_gone_and_the_cut_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut first, a part of it would stay that nobody knows any more."""
    monkeypatch.setenv("MY_API_TOKEN", "hunter2hunter2")
    cut = " [cut: the rest is in the report]"
    text = "x" * (content.EVIDENCE - len(cut) - 7) + "hunter2hunter2" + "y" * 99
    finding = Finding(Level.FAIL, Cause.HARDWARE, "gpu.memory", "node-0", "uncorrectable errors: 3", text)
    found = conclude([finding], WHOLE, POLICY, 4, DIGESTS, None)
    (item,) = items_of(found, NO_CONTEXT)

    assert content.EVIDENCE >= len(item.evidence)
    assert "hunt" not in item.evidence and item.evidence.endswith(cut)
