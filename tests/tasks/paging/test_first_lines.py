"""The first line about each end of a gate, side by side on every channel: tests/golden/first_lines.txt.

UPDATE_GOLDEN=1 writes the file. Each line is made by the code that sends it.
"""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree

import pytest

from checks.model import NodeEnd, Report
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
from tasks.notifiers.pagerduty import summary_of
from tasks.notifiers.slack.messages import notification_message
from tasks.paging.content import page_of
from tasks.render import rejected
from tasks.render.context import NO_CONTEXT
from tasks.render.html import html
from tasks.render.junit import junit
from tasks.render.markdown import markdown
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric, without_node, wrong_sums

GOLDEN = Path(__file__).parents[2] / "golden" / "first_lines.txt"
NAME = "bravo"
SILENT = replace(without_node(healthy(), "node-1"), ends=(NodeEnd("node-1", 7, "CUDA error"),))
FAST_CLOCK = with_metric(healthy(), "system.clock", "node-0", "wall_rate", 1.5)
NOT_LEARNING = with_metric(healthy(), "training.ddp", "node-1/rank-2", "loss_ratio", 1.0)
UNSYNCHRONISED = with_metric(healthy(), "system.clock", "node-0", "synchronised", False)
ASKS = replace(POLICY, on_warn=OnWarn.ASK)


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
    failed = Training(
        "bravo-1-train",
        JobState.FAILED,
        "node-1 exited 1; logs: /x",
        "node-1, rank 3: RuntimeError: my loss exploded",
    )
    ended = replace(failed, state=JobState.CANCELLED)
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
        "training failed": end(
            Decision.LAUNCHED, healthy(), ending=Ending.JOB_FAILED, training=failed,
            reason="node-1, rank 3: RuntimeError: my loss exploded",
        ),
        "cancelled during the training": cancelled_by(
            end(Decision.LAUNCHED, healthy(), ending=Ending.CANCELLED, training=ended), "cancelled by SIGTERM"
        ),
        "cancelled after a refusal": cancelled_by(end(None, wrong_sums(healthy()), ending=Ending.CANCELLED), "cancelled by SIGINT"),
        "its time was up": cancelled_by(
            end(Decision.LAUNCHED, healthy(), ending=Ending.CANCELLED, training=ended), "its time was up (60 minutes)"
        ),
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
    context = SimpleNamespace(gate=gate, file="bravo.toml", store=SimpleNamespace(location=str))
    renewal = SimpleNamespace(lease=SimpleNamespace(owner=SimpleNamespace(host="login-1")))
    made = SimpleNamespace(context=context, unreleased=(), placed="none", gate_id="bravo-1", renewal=renewal)
    return cast("Session", made)


def lines_of(outcome: GateOutcome, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The first line on each channel."""
    show(argparse.Namespace(format="text", junit=None, summary=None, html=None), NAME, outcome)
    page = page_of(page_session(), outcome)
    found = {
        "terminal": capsys.readouterr().out.splitlines()[0],
        "Prefect's state": failed_state(outcome, NAME).message or "",
        "PagerDuty": summary_of(page),
        "Slack": notification_message(page).text,
        "mail": page.title,
    }
    if outcome.judged is None:
        if outcome.ending is Ending.REJECTED:
            one = rejected.of(outcome.reason)
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
    summary = rejected.markdown(rejected.of(held), NAME).splitlines()[0]
    said = reject_request(LeaseHeld(held)).message or ""
    parts.append(
        f"busy: another gate holds the lock\n  Prefect's state:\n    {said}\n  GitHub:\n    {summary}\n"
    )
    return "\n".join(parts)


def test_the_first_lines_are_what_the_golden_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Read them side by side: who, what, how bad, against which threshold, and the same everywhere."""
    found = told(ends(), capsys)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")

    assert GOLDEN.read_text(encoding="utf-8") == found


def test_junit_is_not_green_where_the_training_failed() -> None:
    """A list of tests would show a pipeline that all is well."""
    report = healthy()
    context = replace(
        NO_CONTEXT, first_line="TRAINING FAILED bravo: exit code 1", failed="training failed: exit code 1"
    )
    went = ElementTree.fromstring(junit(report, verdict_of(report), NAME))
    failed = ElementTree.fromstring(junit(report, verdict_of(report), NAME, context))

    assert [one.get("failures") for one in (went, failed)] == ["0", "1"]
    assert [one.get("message") for one in failed.iter("failure")] == ["training failed: exit code 1"]


def test_the_page_of_a_training_that_failed_says_what_to_do_and_repeats_nothing() -> None:
    """The machines had passed: nobody drains a node for it."""
    page = page_of(page_session(), with_ending(ends()["training failed"], NAME))

    assert (
        "Before that, the checks: PASS" in page.text
        and "This condemns no node. Read the training's log" in page.text
    )
    assert f"{page.title}\n{page.text}".count("my loss exploded") == 1
    assert "Training: job bravo-1-train failed: node-1 exited 1; logs: /x" in page.text
