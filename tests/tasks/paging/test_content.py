"""Who hears what, how loud, and in which words: every end of a gate.

The first line about each end, as the code that sends it makes it, is in tests/golden/first_lines.txt: UPDATE_GOLDEN=1 writes it.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree

import pytest

from checks.judge.verdict import conclude
from checks.model import LINK as BETWEEN
from checks.model import Cause, Count, Coverage, Digests, Finding, Level, NodeEnd, Report, Verdict
from checks.policy import OnWarn, Policy
from flows.cli.gate_output import show
from tasks.finish import failed_state, reject_request
from tasks.gate.lease.lease import LeaseHeld
from tasks.gate.outcome import (
    Decision,
    Ending,
    GateOutcome,
    JudgedReport,
    Training,
    cancelled_by,
    first_line,
    with_ending,
)
from tasks.gate.question import AnswerChannel, ApprovalAction, ApprovalAnswer
from tasks.gate.session import Session
from tasks.launchers.base import JobState
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tasks.notifiers.base import Audience, PageKind, Severity
from tasks.notifiers.pagerduty import summary_of
from tasks.notifiers.slack.messages import notification_message
from tasks.paging import content
from tasks.render import rejected
from tasks.render.context import NO_CONTEXT
from tasks.render.headline import culprits
from tasks.render.html import html
from tasks.render.junit import junit
from tasks.render.markdown import markdown
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric, without_node, wrong_sums
from tests.tasks.launchers.golden import golden_text
from tests.tasks.notifiers.means import page

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

GOLDEN = Path(__file__).parents[2] / "golden" / "first_lines.txt"
NAME = "bravo"
SILENT = replace(without_node(healthy(), "node-1"), ends=(NodeEnd("node-1", 7, "CUDA error"),))
FAST_CLOCK = with_metric(healthy(), "system.clock", "node-0", "wall_rate", 1.5)
NOT_LEARNING = with_metric(healthy(), "training.ddp", "node-1/rank-2", "loss_ratio", 1.0)
UNSYNCHRONISED = with_metric(healthy(), "system.clock", "node-0", "synchronised", False)
ASKS = replace(POLICY, on_warn=OnWarn.ASK)


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
    ("decision", "words", "ending", "expected"),
    [
        (Decision.LAUNCHED, NOTHING, Ending.VERDICT, (Audience.OWNER, Severity.INFO, PageKind.GO)),
        (Decision.LAUNCHED, WARNING, Ending.VERDICT, (Audience.OWNER, Severity.INFO, PageKind.GO)),
        (Decision.PASSED, NOTHING, Ending.VERDICT, (Audience.OWNER, Severity.INFO, PageKind.GO)),
        (Decision.REFUSED, HARDWARE, Ending.VERDICT, (Audience.ONCALL, Severity.CRITICAL, PageKind.REFUSED)),
        (Decision.REFUSED, MIXED, Ending.VERDICT, (Audience.ONCALL, Severity.CRITICAL, PageKind.REFUSED)),
        (Decision.REFUSED, LINK, Ending.VERDICT, (Audience.ONCALL, Severity.CRITICAL, PageKind.REFUSED)),
        (Decision.REFUSED, IMAGE, Ending.VERDICT, (Audience.OWNER, Severity.ERROR, PageKind.REFUSED)),
        (Decision.REFUSED, CONFIGURED, Ending.VERDICT, (Audience.OWNER, Severity.ERROR, PageKind.REFUSED)),
        (Decision.REFUSED, APPLICATION, Ending.VERDICT, (Audience.OWNER, Severity.ERROR, PageKind.REFUSED)),
        (Decision.REFUSED, WARNING, Ending.VERDICT, (Audience.OWNER, Severity.WARNING, PageKind.REFUSED)),
        (Decision.AWAITING, WARNING, Ending.VERDICT, (Audience.OWNER, Severity.WARNING, PageKind.REFUSED)),
        (Decision.CANNOT_TELL, EVIDENCE, Ending.VERDICT, (Audience.OWNER, Severity.ERROR, PageKind.CANNOT_TELL)),
        (Decision.CANNOT_TELL, None, Ending.VERDICT, (Audience.OWNER, Severity.ERROR, PageKind.CANNOT_TELL)),
        (None, None, Ending.VERDICT, (Audience.OWNER, Severity.ERROR, PageKind.CANNOT_TELL)),
        (Decision.OVERRIDDEN, HARDWARE, Ending.VERDICT, (Audience.ONCALL, Severity.CRITICAL, PageKind.OVERRIDDEN)),
        (Decision.OVERRIDDEN, EVIDENCE, Ending.VERDICT, (Audience.ONCALL, Severity.CRITICAL, PageKind.OVERRIDDEN)),
        (Decision.OBSERVED, NOTHING, Ending.VERDICT, (Audience.OWNER, Severity.INFO, PageKind.GO)),
        (Decision.OBSERVED, HARDWARE, Ending.VERDICT, (Audience.ONCALL, Severity.CRITICAL, PageKind.OBSERVED)),
        (Decision.OBSERVED, IMAGE, Ending.VERDICT, (Audience.OWNER, Severity.ERROR, PageKind.OBSERVED)),
        (Decision.OBSERVED, EVIDENCE, Ending.VERDICT, (Audience.OWNER, Severity.ERROR, PageKind.OBSERVED)),
        (Decision.OBSERVED, WARNING, Ending.VERDICT, (Audience.OWNER, Severity.WARNING, PageKind.OBSERVED)),
        (Decision.LAUNCHED, NOTHING, Ending.JOB_FAILED, (Audience.OWNER, Severity.ERROR, PageKind.TRAINING_FAILED)),
        (Decision.OBSERVED, HARDWARE, Ending.JOB_FAILED, (Audience.OWNER, Severity.ERROR, PageKind.TRAINING_FAILED)),
        (Decision.OVERRIDDEN, HARDWARE, Ending.JOB_FAILED, (Audience.OWNER, Severity.ERROR, PageKind.TRAINING_FAILED)),
        (None, None, Ending.NO_CAPACITY, (Audience.OWNER, Severity.ERROR, PageKind.NO_CAPACITY)),
        (None, None, Ending.REJECTED, (Audience.OWNER, Severity.ERROR, PageKind.REJECTED)),
    ],
)  # fmt: skip
def test_outcome_decides_audience_severity_and_kind_of_its_page(
    decision: Decision | None, words: tuple[str, ...] | None, ending: Ending, expected: object
) -> None:
    """The hardware's on-call hears of broken hardware and of overrides alone; everything else is the owner's."""
    made = outcome(decision, words, ending)
    kind = content.kind_of(made)

    assert expected == (content.audience_of(made, kind), content.severity_of(made, kind), kind)


def test_no_missing_evidence_ever_reaches_the_hardware() -> None:
    """Whatever was decided on it, but for an override, which is loud."""
    decisions = [one for one in (*Decision, None) if one is not Decision.OVERRIDDEN]
    ends = [outcome(one, words, end) for one in decisions for end in Ending for words in (EVIDENCE, None)]

    assert {Audience.OWNER} == {content.audience_of(end, content.kind_of(end)) for end in ends}


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
    assert (blames, named) == (content.blames_hardware(verdict(*words)), culprits(verdict(*words)))


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

    assert about == content.about_of(end, content.kind_of(end))


def test_a_training_that_failed_names_the_node_whose_log_says_why() -> None:
    """The node of the failure, where there is one; a verdict that blames others is not about the training."""
    training = Training("j", JobState.FAILED, "", "node-3: KeyError", "node-3")
    failed = outcome(Decision.LAUNCHED, NOTHING, Ending.JOB_FAILED)
    ends = [replace(failed, training=one) for one in (training, replace(training, node=""), None)]

    assert [("node-3",), (), ()] == [content.about_of(end, content.kind_of(end)) for end in ends]


def test_a_page_repeats_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its title becomes the state's message and a mail's subject. Cut first, a part of a secret would stay; the cut is said."""
    monkeypatch.setenv("MY_API_TOKEN", "hunter2hunter2")
    made = replace(outcome(None, None, Ending.NO_CAPACITY), reason="refused: token hunter2hunter2")
    cut = " [cut: the rest is in the report]"
    text = "x" * (content.EVIDENCE - len(cut) - 7) + "hunter2hunter2" + "y" * 99
    finding = Finding(Level.FAIL, Cause.HARDWARE, "gpu.memory", "node-0", "uncorrectable errors: 3", text)
    (item,) = content.items_of(conclude([finding], WHOLE, POLICY, 4, DIGESTS, None), NO_CONTEXT)

    assert "NO CAPACITY p5: refused: token [removed]" == content.title_of(made, "p5")
    assert content.EVIDENCE >= len(item.evidence)
    assert "hunt" not in item.evidence and item.evidence.endswith(cut)


def half_broken() -> Report:
    report = healthy(8, 1)
    for node in range(4):
        report = wrong_sums(report, f"node-{node}/rank-{node}")
    return report


def end(
    decision: Decision | None, report: Report | None, policy: Policy = POLICY, **more: object
) -> GateOutcome:
    judged = None if report is None else JudgedReport(report, verdict_of(report, policy))
    made = GateOutcome("bravo-1", Ending.VERDICT, decision, judged, None, "")
    return replace(made, **more)  # type: ignore[arg-type]


def answered(action: ApprovalAction, why: str, override: bool = False) -> ApprovalAnswer:
    return ApprovalAnswer(1, "bravo-1", "k", action, "ana", AnswerChannel.PREFECT, True, why, 1.0, override)


def ends() -> dict[str, GateOutcome]:
    refused = answered(ApprovalAction.BLOCK, "maintenance tonight")
    launched = answered(ApprovalAction.LAUNCH, "deadline tomorrow", override=True)
    why = "node-1, rank 3: RuntimeError: my loss exploded"
    failed = Training("bravo-1-train", JobState.FAILED, "node-1 exited 1; logs: /x", why)
    ended = replace(failed, state=JobState.CANCELLED)
    trained = end(Decision.LAUNCHED, healthy(), ending=Ending.CANCELLED, training=ended)
    return {
        "go": end(Decision.PASSED, healthy()),
        "hardware": end(Decision.REFUSED, wrong_sums(healthy())),
        "configuration": end(Decision.REFUSED, FAST_CLOCK),
        "application": end(Decision.REFUSED, NOT_LEARNING),
        "evidence": end(Decision.CANNOT_TELL, SILENT),
        "image or policy": end(Decision.REFUSED, half_broken()),
        "waits for a person": end(Decision.AWAITING, UNSYNCHRONISED, ASKS),
        "refused by a person": end(
            Decision.REFUSED, UNSYNCHRONISED, ASKS, answer=refused, reason="ana (Prefect's form) refused (maintenance tonight)"
        ),
        "overridden": end(Decision.OVERRIDDEN, wrong_sums(healthy()), answer=launched),
        "no capacity": end(
            None, None, ending=Ending.NO_CAPACITY, reason="job bravo-1-check: no p5.48xlarge is free in us-east-1. Try later."
        ),
        "training failed": end(Decision.LAUNCHED, healthy(), ending=Ending.JOB_FAILED, training=failed, reason=why),
        "cancelled during the training": cancelled_by(trained, "cancelled by SIGTERM"),
        "cancelled after a refusal": cancelled_by(end(None, wrong_sums(healthy()), ending=Ending.CANCELLED), "cancelled by SIGINT"),
        "its time was up": cancelled_by(trained, "its time was up (60 minutes)"),
        "cancelled without a verdict": cancelled_by(
            replace(end(None, None, ending=Ending.CANCELLED), started=True), "cancelled by SIGINT"
        ),
        "cancelled before anything started": cancelled_by(end(None, None, ending=Ending.CANCELLED), "cancelled by SIGINT"),
        "rejected": end(
            None, None, ending=Ending.REJECTED, reason="bravo.toml: cluster.nodes: expected a whole number above 0, found 0"
        ),
    }  # fmt: skip


def page_session() -> Session:
    gate = SimpleNamespace(name=NAME, cluster=SimpleNamespace(name=NAME))
    store, slurm = SimpleNamespace(location=str), SlurmLauncher(Path("/jobs"), SlurmOptions(exclude="n9"))
    context = SimpleNamespace(gate=gate, file="bravo.toml", store=store, launcher=slurm)
    renewal = SimpleNamespace(lease=SimpleNamespace(owner=SimpleNamespace(host="login-1")))
    made = SimpleNamespace(
        context=context,
        unreleased=(),
        placed="none",
        gate_id="bravo-1",
        renewal=renewal,
        excluded={"n8": ""},
        launches=False,
    )
    return cast("Session", made)


def lines_of(outcome: GateOutcome, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The first line on each channel."""
    show(argparse.Namespace(format="text", junit=None, summary=None, html=None), NAME, outcome)
    page = content.page_of(page_session(), outcome)
    found = {
        "terminal": capsys.readouterr().out.splitlines()[0],
        "Prefect's state": failed_state(outcome, NAME).message or "",
        "PagerDuty": summary_of(page),
        "Slack": notification_message(page).text,
        "mail": page.title,
    }
    if outcome.judged is None:
        if outcome.ending is Ending.REJECTED:
            one = rejected.from_error(outcome.reason)
            found["GitHub"] = rejected.markdown(one, NAME).splitlines()[0]
        return found
    report, verdict = outcome.judged.report, outcome.judged.verdict
    context = replace(NO_CONTEXT, first_line=first_line(outcome, NAME))
    tree = ElementTree.fromstring(junit(report, verdict, NAME, context))
    page_text = html(report, verdict, NAME, context)
    kind, word = re.findall(r"<h1([^>]*)>(.*?)</h1>", page_text)[0]
    said = re.findall(r'class="said">(?:Verdict: )?<strong>(.*?)</strong>', page_text)[0]
    return found | {
        "GitHub": unescape(markdown(report, verdict, NAME, context).splitlines()[0]),
        "JUnit": next(one.get("value", "") for one in tree.iter("property") if one.get("name") == "headline"),
        "HTML": unescape(word if kind else f"{word} {said}"),
    }


def told(outcomes: dict[str, GateOutcome], capsys: pytest.CaptureFixture[str]) -> str:
    """Each distinct line once, with the channels that show it."""
    parts = []
    for case, outcome in outcomes.items():
        channels: dict[str, list[str]] = {}
        for channel, line in lines_of(outcome, capsys).items():
            channels.setdefault(line, []).append(channel)
        same = [line for line, names in channels.items() if names != ["GitHub"]]
        assert [first_line(outcome, NAME)] == same, case
        said = "\n".join(f"  {', '.join(names)}:\n    {line}" for line, names in channels.items())
        parts.append(f"{case}\n{said}\n")
    held = "cluster bravo is locked by gate bravo-1 (bravo.toml, process 7 on login-1). Wait for that gate, or end its process."
    summary = rejected.markdown(rejected.from_error(held), NAME).splitlines()[0]
    said = reject_request(LeaseHeld(held)).message or ""
    parts.append(
        f"busy: another gate holds the lock\n  Prefect's state:\n    {said}\n  GitHub:\n    {summary}\n"
    )
    return "\n".join(parts)


def test_the_first_lines_are_what_the_golden_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Read them side by side: who, what, how bad, against which threshold, and the same everywhere."""
    found = told(ends(), capsys)

    assert golden_text(GOLDEN, found) == found


def test_the_page_of_a_training_that_failed_says_what_to_do_and_repeats_nothing() -> None:
    """The machines had passed: nobody drains a node for it."""
    page = content.page_of(page_session(), with_ending(ends()["training failed"], NAME))

    assert "The checks had ended before that. PASS" in page.text
    assert "No node is blamed, because the checks had passed. Read the training's log" in page.text
    assert f"{page.title}\n{page.text}".count("my loss exploded") == 1
    assert "Training: job bravo-1-train failed: node-1 exited 1; logs: /x" in page.text


def test_a_mail_has_remedy_and_evidence_with_each_finding_and_the_report_before_the_rest() -> None:
    """A woken person reads from the top, and types what is there."""
    text = content.page_of(page_session(), ends()["evidence"]).text
    lines = text.splitlines()
    at = lines.index("CANNOT TELL: node-1 sent no report (its process exited 7)")

    assert lines[at + 1].startswith("  Do: See whether the node is up")
    assert "  | Its log ends: CUDA error" == lines[at + 2]
    assert text.index("\nReport: ") < text.index("\nGate file: ") < text.index("\nGate id: bravo-1")
    assert "Training:" not in text and "Placement:" not in text


def test_a_refusal_after_an_approval_says_why_it_refuses() -> None:
    """The training got other machines, of which nobody had asked."""
    other, launched = "the training got other machines", answered(ApprovalAction.LAUNCH, "a short run")
    ended = end(Decision.CANNOT_TELL, SILENT, answer=launched, reason=other)

    assert other == content.page_of(page_session(), ended).text.splitlines()[0]


def test_the_page_about_billed_machines_names_the_verdict() -> None:
    """Nobody takes it for a refusal."""
    made = content.unreleased_page(page(PageKind.GO, title="GO bravo: 2 of 2 nodes"), ("the pool of g-1",))

    assert made.title == "MACHINES MAY STILL BE BILLED p5-prod: the pool of g-1"
    assert "Verdict of the gate: GO bravo: 2 of 2 nodes" in made.text.splitlines()


def test_only_a_go_proves_the_nodes_that_it_measured() -> None:
    """By the engine's names, as remediation has them."""
    report = healthy()
    first, *others = report.nodes
    report = replace(report, nodes=(replace(first, identity={"engine_node": "ip-10-0-0-1"}), *others))
    judged = JudgedReport(report, verdict())

    assert content._judged(page(PageKind.CANNOT_TELL), judged).returned == ()
    proven = ("ip-10-0-0-1", *(node.name for node in others))
    assert content._judged(page(PageKind.GO), judged).returned == proven
