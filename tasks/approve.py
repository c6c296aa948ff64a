"""Asks a person what to do with a verdict, and reports the answer. When it is called again it does not ask a second time."""

from __future__ import annotations

import time
from dataclasses import replace

from checks import model
from checks.documents.report import digest, dump_plain
from checks.model import SCHEMA_VERSION, Level
from checks.value_types import DecodeError
from tasks.gate.approval.answers import question_text
from tasks.gate.approval.wait import PICKUP_S, ApprovalWait, can_resume_elsewhere
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.lease.lease import LeaseError, OpenQuestion
from tasks.gate.links import run_url
from tasks.gate.outcome import JudgedReport
from tasks.gate.progress import Progress, report_progress
from tasks.gate.question import (
    ApprovalAction,
    ApprovalAnswer,
    Question,
    checked_answer,
    keep_final_answer,
    keep_question,
    read_final_answer,
    read_question,
)
from tasks.gate.session import Session
from tasks.gate_file.model import Mode
from tasks.judge import judge_again
from tasks.notifiers.base import PendingQuestion
from tasks.orchestration.events import emit_answer, emit_question
from tasks.orchestration.status import publish_state
from tasks.page import notify_question, notify_replaced
from tasks.publish import PublishedReport, published_report
from tasks.render.headline import headline

# How often a person may have the checks run again before the answer is yes or no.
RECHECKS = 3
MINUTE_S = 60.0


class QuestionLost(LeaseError):
    """The question that was asked cannot be read any more; nothing is launched because of an answer to it."""


async def ask_for_approval(session: Session, judged: JudgedReport, minutes: int) -> ApprovalAnswer | None:
    """Return the answer (NOBODY's if none came in time), or None if no question is asked or nobody can answer (`minutes` is 0).

    Raises RunCancelled, LeaseError, StoreError; Pause where this process is to end, and the run comes back.
    """
    if not needs_approval(session, judged) or not minutes:
        return None
    key = f"gate-{session.renewal.lease.attempt}-{judged.report.attempt}"
    received = await run_to_end(_read, session, judged, key)
    if received is None:
        question = await run_to_end(_ask, session, judged, key, minutes)
        form = session.context.gate.approval.form_may_override
        report_progress(Progress("question", f"{question.said}: waiting for approval", waits=True))
        await publish_state(
            session, f"The gate waits for a person. {_line(question)}, with the button Resume here."
        )
        answer = await ApprovalWait(session, question, question_text(question, judged, form)).answer()
        received = _limited(session, checked_answer(question, answer, form))
        await run_to_end(_settle, session, received)
        await publish_state(session)
        emit_answer(session, received)
    session.answer = received
    report_progress(
        Progress("question", f"{received.action.value}: answered by {received.by}", answer=received.summary)
    )
    return received


def needs_approval(session: Session, judged: JudgedReport) -> bool:
    """Whether a person decides on this verdict: a WARN if the policy asks for it, a FAIL if the gate file does."""
    if session.context.gate.policy.mode is Mode.OBSERVE:
        return False
    return judged.verdict.answer is model.Answer.ASK or may_be_overridden(session, judged)


def may_be_overridden(session: Session, judged: JudgedReport) -> bool:
    """Whether to launch this would override a FAIL, and the gate file lets somebody."""
    return judged.verdict.level is Level.FAIL and session.context.gate.approval.on_fail == "ask"


async def rerun_checks(session: Session, answer: ApprovalAnswer | None) -> bool:
    """Whether the checks begin again because a person decided so; what is left of the jobs is ended. Raises LaunchError, LeaseLost."""
    if answer is None or answer.action is not ApprovalAction.RECHECK or answer.note:
        return False
    await run_to_end(_begin_again, session)
    return True


async def load_resumed_verdict(session: Session) -> tuple[JudgedReport, PublishedReport] | None:
    """The verdict of the question, if this process takes over from one that waited. None for a run that begins.

    The report is judged anew, by the same function; another verdict than the one that was asked about is no verdict.
    """
    if session.open_question is None:
        return None
    asking, session.open_question = session.open_question, None
    judged = await run_to_end(_judged, session, asking)
    session.judged = judged
    return judged, published_report(session)


def _judged(session: Session, asking: OpenQuestion) -> JudgedReport:
    try:
        again = judge_again(session)
    except DecodeError as error:
        raise QuestionLost(f"the report of the question cannot be read: {error}. Start a new run.") from error
    if digest(dump_plain(again.verdict)) != asking.verdict:
        raise QuestionLost(
            "the report of the question now has another verdict: report, policy, facts or this program were changed "
            "while the question was open. Nothing was launched. Start a new run."
        )
    return again


def _read(session: Session, judged: JudgedReport, key: str) -> ApprovalAnswer | None:
    try:
        question = read_question(session.context.store, session.gate_id, key)
        answer = read_final_answer(session.context.store, session.gate_id, key)
    except DecodeError as error:
        raise QuestionLost(f"the recorded answer cannot be read: {error}. Start a new run.") from error
    now = digest_of(judged), may_be_overridden(session, judged)
    # An answer that a dead gate followed already is of what trains now.
    if question is not None and not session.trained and (question.verdict, question.override) != now:
        raise QuestionLost(f"people were asked about another verdict: {question.said}. Start a new run.")
    return answer


def _ask(session: Session, judged: JudgedReport, key: str, minutes: int) -> Question:
    """Keep the question, notify those who may answer, and park the cluster's lock for it: each once."""
    context, asking = session.context, session.renewal.lease.asking
    try:
        question = read_question(context.store, session.gate_id, key)
    except DecodeError as error:
        raise QuestionLost(f"the question cannot be read: {error}. Start a new run.") from error
    if question is None:
        gate, now = session.context.gate, time.time()
        question = Question(
            SCHEMA_VERSION, session.gate_id, gate.name, gate.cluster.name, session.renewal.lease.owner.flow_run_id, key,
            headline(judged.verdict, gate.name), may_be_overridden(session, judged), now, now + minutes * MINUTE_S,
            gate.approval.approvers, gate.approval.overriders, verdict=digest_of(judged),
        )  # fmt: skip
        keep_question(context.store, question)
    if asking is None or asking.key != key:
        run = question.flow_run_id
        by_slack = bool(question.approvers or question.overriders)
        pending = PendingQuestion(run, key, question.deadline, question.override, run_url(run), by_slack)
        notify_question(session, judged, pending, _line(question))
        emit_question(session, judged, pending)
        if can_resume_elsewhere(session):
            notify_replaced(session)
            about = digest(dump_plain(judged.verdict))
            asking = OpenQuestion(key, about, question.deadline, question.deadline + PICKUP_S)
            session.renewal.change(asking=asking)
    return question


def digest_of(judged: JudgedReport) -> str:
    """The digest of the verdict: another answer and other findings have another one."""
    return digest(dump_plain((judged.verdict.answer, judged.verdict.level, judged.verdict.findings)))


def _line(question: Question) -> str:
    until = time.strftime("%H:%M UTC", time.gmtime(question.deadline))
    return f"{question.said}. Answer by {until}"


def _limited(session: Session, answer: ApprovalAnswer) -> ApprovalAnswer:
    """Somebody may have the checks run again only so often."""
    if answer.action is not ApprovalAction.RECHECK or session.renewal.lease.rechecks < RECHECKS:
        return answer
    again = "once" if RECHECKS == 1 else f"{RECHECKS} times"
    return replace(answer, note=f"the checks were already repeated {again} on request")


def _settle(session: Session, answer: ApprovalAnswer) -> None:
    keep_final_answer(session.context.store, answer)
    if session.renewal.lease.asking is not None:
        session.renewal.change(asking=None)


def _begin_again(session: Session) -> None:
    session.renewal.change(rechecks=session.renewal.lease.rechecks + 1)
    session.begin_again()
