"""Ask a person what to do with a verdict, and say what they answered. Asked twice, it asks nobody a second time."""

from __future__ import annotations

import time
from dataclasses import replace

from checks import model
from checks.decode import DecodeError
from checks.model import SCHEMA_VERSION, Level
from checks.report import digest, dump_plain, load
from tasks.events import emit_answered, emit_asked
from tasks.form import GateDecision as GateDecision
from tasks.form import described
from tasks.gatefile import Mode
from tasks.judge import judged as judge_again
from tasks.kept import report_key
from tasks.lease import Asking, LeaseError
from tasks.notifiers.base import Asked
from tasks.outcome import Judged
from tasks.page import page_question
from tasks.places import run_url
from tasks.progress import Progress, tell
from tasks.publish import Published
from tasks.question import (
    Action,
    Answer,
    Question,
    keep_given,
    keep_question,
    read_given,
    read_question,
    weighed,
)
from tasks.render.headline import headline
from tasks.session import Session
from tasks.threads import to_end
from tasks.waiting import PICKUP_S, Wait, comes_back

# How often a person may have the checks run again before the answer is yes or no.
RECHECKS = 3
MINUTE_S = 60.0


class QuestionLost(LeaseError):
    """What was asked can no longer be told; nothing is launched on an answer to it."""


async def ask(session: Session, judged: Judged, minutes: int) -> Answer | None:
    """The answer, nobody's where none came in time; None where none is asked, or nobody can answer (`minutes` is 0).

    Raises StopAsked, LeaseError, StoreError; Pause where this process is to end, and the run comes back.
    """
    if not asks(session, judged) or not minutes:
        return None
    key = f"gate-{session.keeper.lease.attempt}-{judged.report.attempt}"
    given = await to_end(_read, session, key)
    if given is None:
        question = await to_end(_asked, session, judged, key, minutes)
        form = session.setting.gate.approval.form_may_override
        tell(Progress("question", f"{question.said}: waiting for a person"))
        answer = await Wait(session, question, described(question, judged, form)).answer()
        given = _limited(session, weighed(question, answer, form))
        await to_end(_settle, session, given)
        emit_answered(session, given)
    session.answer = given
    tell(Progress("question", f"{given.action.value}: on the word of {given.by}", answered=given.line))
    return given


def asks(session: Session, judged: Judged) -> bool:
    """Whether this verdict is left to a person: a WARN where the policy asks, a FAIL where the gate file does."""
    if session.setting.gate.policy.mode is Mode.OBSERVE:
        return False
    return judged.verdict.answer is model.Answer.ASK or overrides(session, judged)


def overrides(session: Session, judged: Judged) -> bool:
    """Whether to launch this would override a FAIL, and the gate file lets somebody."""
    return judged.verdict.level is Level.FAIL and session.setting.gate.approval.on_fail == "ask"


async def recheck(session: Session, answer: Answer | None) -> bool:
    """Whether the checks begin again on a person's word; what is left of the jobs is ended. Raises LaunchError, LeaseLost."""
    if answer is None or answer.action is not Action.RECHECK or answer.note:
        return False
    await to_end(_begin_again, session)
    return True


async def came_back(session: Session) -> tuple[Judged, Published] | None:
    """What was asked about, where this process takes over from one that waited. None for a run that begins.

    The report is judged anew, by the same function; another verdict than the one that was asked about is no verdict.
    """
    if session.asked is None:
        return None
    asking, session.asked = session.asked, None
    judged = await to_end(_judged, session, asking)
    session.judged = judged
    place = session.setting.store.place
    return judged, Published(
        place(report_key(session.gate_id)), place(f"gates/{session.gate_id}/report.html")
    )


def _judged(session: Session, asking: Asking) -> Judged:
    data = session.setting.store.get(report_key(session.gate_id))
    try:
        again = judge_again(session, load(data or b""), digest(data or b""))
    except DecodeError as error:
        raise QuestionLost(
            f"the report that was asked about cannot be read: {error}. Start a new run."
        ) from error
    if digest(dump_plain(again.verdict)) != asking.verdict:
        raise QuestionLost(
            "the report that was asked about is judged otherwise now: report, policy, facts or this program were changed "
            "while the question waited. Nothing was launched. Start a new run."
        )
    return again


def _read(session: Session, key: str) -> Answer | None:
    try:
        return read_given(session.setting.store, session.gate_id, key)
    except DecodeError as error:
        raise QuestionLost(f"the answer that was given cannot be read: {error}. Start a new run.") from error


def _asked(session: Session, judged: Judged, key: str, minutes: int) -> Question:
    """The question, kept, told to whoever may answer, and the cluster parked for it: each once."""
    setting, asking = session.setting, session.keeper.lease.asking
    try:
        question = read_question(setting.store, session.gate_id, key)
    except DecodeError as error:
        raise QuestionLost(f"the question cannot be read: {error}. Start a new run.") from error
    if question is None:
        question = _made(session, judged, key, minutes)
        keep_question(setting.store, question)
    if asking is None or asking.key != key:
        run = question.flow_run_id
        by_slack = bool(question.approvers or question.overriders)
        asked = Asked(run, key, question.deadline, question.override, run_url(run), by_slack)
        page_question(session, judged, asked, _line(question))
        emit_asked(session, judged, asked)
        if comes_back(session):
            about = digest(dump_plain(judged.verdict))
            session.keeper.ask(Asking(key, about, question.deadline, question.deadline + PICKUP_S))
    return question


def _made(session: Session, judged: Judged, key: str, minutes: int) -> Question:
    gate, now = session.setting.gate, time.time()
    return Question(
        SCHEMA_VERSION, session.gate_id, gate.name, gate.cluster.name, session.keeper.lease.owner.flow_run_id, key,
        headline(judged.verdict, gate.name), overrides(session, judged), now, now + minutes * MINUTE_S,
        gate.approval.approvers, gate.approval.overriders,
    )  # fmt: skip


def _line(question: Question) -> str:
    until = time.strftime("%H:%M UTC", time.gmtime(question.deadline))
    what = "Override this FAIL?" if question.override else "Launch all the same?"
    return f"{question.said}. {what} Answer by {until}; in Prefect the run is paused, Resume is in its menu"


def _limited(session: Session, answer: Answer) -> Answer:
    """Somebody may have the checks run again only so often."""
    if answer.action is not Action.RECHECK or session.keeper.lease.rechecks < RECHECKS:
        return answer
    return replace(answer, note=f"the checks ran {RECHECKS} times more already, on a person's word")


def _settle(session: Session, answer: Answer) -> None:
    keep_given(session.setting.store, answer)
    if session.keeper.lease.asking is not None:
        session.keeper.ask(None)


def _begin_again(session: Session) -> None:
    session.keeper.recheck()
    session.answer = None
    session.begin_again()
