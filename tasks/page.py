"""Tell a person. A page that cannot be sent is said in the log, and changes nothing else."""

from __future__ import annotations

import os

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.model import Answer
from tasks.deliver import deliver
from tasks.notifiers.base import Page
from tasks.outcome import Decision, Ending, Judged, Outcome
from tasks.redact import redact
from tasks.render.headline import explanation, headline
from tasks.session import Session
from tasks.threads import to_end

FINDINGS = 20


@task(cache_policy=NO_CACHE, task_run_name="page about {outcome.gate_id}")
async def page(session: Session, outcome: Outcome) -> str:
    """Send it by the first notifier that works; returns where it went, "" for nowhere."""
    return await to_end(send, session, outcome)


def wanted(outcome: Outcome) -> bool:
    """Whether somebody has to hear: of everything but a go that went well."""
    if outcome.decision is Decision.OBSERVED and outcome.judged is not None:
        return outcome.code != 0 or outcome.judged.verdict.answer is not Answer.GO
    return outcome.code != 0


def send(session: Session, outcome: Outcome) -> str:
    """The page, through the gate's notifiers in their order."""
    return deliver(session.setting, page_of(session, outcome))


def page_question(session: Session, judged: Judged, minutes: int) -> str:
    """Ask for an answer in Prefect's UI, before the run is paused."""
    said = headline(judged.verdict, session.setting.gate.name)
    question = f"{said}. Answer in Prefect within {minutes} minutes: the run is paused, Resume is in its menu"
    return send(session, Outcome(session.gate_id, Ending.VERDICT, Decision.AWAITING, judged, None, question))


def page_of(session: Session, outcome: Outcome) -> Page:
    """The culprit, or that the gate could not tell; never a secret."""
    gate = session.setting.gate
    title = title_of(outcome, gate.name)
    lines = [outcome.reason] if outcome.reason != title else []
    if outcome.judged is not None:
        verdict = outcome.judged.verdict
        lines += [explanation(verdict), ""]
        for finding in verdict.findings[:FINDINGS]:
            remedy = f" Remedy: {finding.remedy}" if finding.remedy else ""
            said = f"{finding.subject}: {finding.check}: {finding.message}"
            lines.append(f"- {finding.level.value} {finding.cause.value} {said}{remedy}")
        if len(verdict.findings) > FINDINGS:
            lines.append(f"- and {len(verdict.findings) - FINDINGS} more in the report")
    lines += [f"- MACHINES MAY STILL BE PAID FOR: {said}" for said in session.unreleased]
    lines += [
        "",
        f"Placement: {outcome.placement or session.placed}",
        f"Gate: {outcome.gate_id} ({session.setting.file})",
        f"Report: {outcome.html or 'none was made'}",
    ]
    text = redact("\n".join(lines), os.environ)
    return Page(outcome.gate_id, gate.cluster.name, redact(title, os.environ), text, outcome.html or "")


def title_of(outcome: Outcome, name: str) -> str:
    """The one line that says it all."""
    if outcome.judged is None or outcome.code in (2, 4, 5):
        return f"gate {name}: {outcome.reason}"
    if outcome.decision is Decision.OBSERVED:
        return f"observed only, training was started: {headline(outcome.judged.verdict, name)}"
    return headline(outcome.judged.verdict, name)
