"""The end of a gate: what it is called, who hears, what is kept, and the state that Prefect shows."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from prefect.client.schemas.objects import State
from prefect.logging import get_logger
from prefect.states import Cancelled, Completed, Failed

from checks.model import Answer
from checks.report import dump_plain
from checks.verdict import unreadable
from tasks import reuse
from tasks.announce import announce_end
from tasks.ask import asks
from tasks.events import emit_end
from tasks.gatefile import Mode
from tasks.launch import Launched
from tasks.launchers.base import JobState, LaunchError, LaunchRejected, NoCapacity, QuotaExceeded
from tasks.lease import LeaseError, LeaseHeld
from tasks.looking import LookedWrong
from tasks.outcome import Decision, Ending, Judged, Outcome, refusal
from tasks.page import note, page, wanted
from tasks.paging import title_of
from tasks.placing import PoolLost, kept_so_far
from tasks.progress import Progress, tell, tell_end
from tasks.publish import Published
from tasks.question import Answer as PersonsAnswer
from tasks.question import Via
from tasks.redact import redact
from tasks.render.clean import one_line
from tasks.render.headline import headline
from tasks.session import Session
from tasks.store.base import StoreError
from tasks.threads import to_end

LOG = get_logger("prelaunch")
SESSION_ERRORS = (LaunchError, StoreError, LeaseError)
FAILED_NAMES = {
    Decision.NOT_LAUNCHED: "NotLaunched",
    Decision.REFUSED: "Refused",
    Decision.CANNOT_TELL: "CannotTell",
    Decision.AWAITING: "Awaiting",
}
DONE_NAMES = {
    Decision.LAUNCHED: "Launched",
    Decision.PASSED: "Passed",
    Decision.OVERRIDDEN: "Overridden",
    Decision.OBSERVED: "Observed",
}


class NotLaunched(Exception):
    """Why a gate launched nothing, or what it launched failed; it stands in the final state."""


class Busy(NotLaunched):
    """Another gate holds the cluster: that says nothing of the cluster itself."""


def may_launch(session: Session, judged: Judged, answer: PersonsAnswer | None) -> bool:
    """Go, a person's word where one is asked, or observe mode."""
    if judged.verdict.answer is Answer.GO or session.setting.gate.policy.mode is Mode.OBSERVE:
        return True
    return asks(session, judged) and answer is not None and answer.launches


def refused(
    session: Session, judged: Judged, published: Published, answer: PersonsAnswer | None, more: str = ""
) -> Outcome:
    """The verdict, or the person, says no; `more` is what else a page has to say."""
    # What was left to a person may be judged a go by now: without that person's word it is a refusal all the same.
    decision = Decision.REFUSED if answer is not None else refusal(judged.verdict.answer)
    reason = headline(judged.verdict, session.setting.gate.name)
    if answer is not None:
        reason = f"{_said_no(answer)}: {reason}"
    reason += f" ({more})" if more else ""
    return _outcome(session, Ending.VERDICT, decision, judged, published, reason)


def _said_no(answer: PersonsAnswer) -> str:
    if answer.note:
        return f"{answer.by} answered {answer.action.value}, and it does not count: {answer.note}"
    if answer.via is Via.NOBODY:
        return answer.reason
    why = one_line(answer.reason, 300)
    return f"{answer.by} said no{f' ({why})' if why else ''}"


def checked(session: Session, judged: Judged, published: Published) -> Outcome:
    """The verdict, where nothing was to be launched."""
    if judged.verdict.answer is not Answer.GO:
        return refused(session, judged, published, None)
    said = f"{headline(judged.verdict, session.setting.gate.name)} (nothing was to be launched)"
    return _outcome(session, Ending.VERDICT, Decision.PASSED, judged, published, said)


def launched(
    session: Session, judged: Judged, published: Published, answer: PersonsAnswer | None, seen: Launched
) -> Outcome:
    """Training was started; it may have failed, or its own nodes may have refused it in place."""
    name = session.setting.gate.name
    observed = session.setting.gate.policy.mode is Mode.OBSERVE
    if seen.rechecked is not None and seen.rechecked.verdict.answer is not Answer.GO and not observed:
        said = (
            f"other machines than those that passed; checked again: {headline(seen.rechecked.verdict, name)}"
        )
        decision = refusal(seen.rechecked.verdict.answer)
        made = _outcome(session, Ending.VERDICT, decision, seen.rechecked, published, said)
        return dataclasses.replace(made, training=seen.training)
    overridden = answer is not None and answer.override
    decision = Decision.OVERRIDDEN if overridden else Decision.LAUNCHED
    decision = Decision.OBSERVED if observed else decision
    decision = decision if seen.ran else Decision.NOT_LAUNCHED
    reason = headline(judged.verdict, name)
    if judged.reused:
        reason += f" (PASS of {judged.reused} reused)"
    if answer is not None:
        word = "against the verdict, on the word" if overridden else "on the word"
        reason += f" (launched {word} of {answer.by}: {one_line(answer.reason, 300)})"
    ending = Ending.VERDICT
    if seen.training.state in (JobState.FAILED, JobState.CANCELLED, JobState.UNKNOWN):
        ending = Ending.JOB_FAILED
        said = judged.verdict.answer.value
        reason = f"the verdict was {said}, but training {seen.training.state.value}: {seen.training.detail}"
    made = _outcome(session, ending, decision, judged, published, reason)
    return dataclasses.replace(made, training=seen.training)


def failed(session: Session, error: Exception, published: Published | None) -> Outcome:
    """An engine, the store or the lease failed: by what was known then."""
    judged, reason = session.judged, str(error)
    if isinstance(error, StoreError):
        verdict = unreadable(
            f"it could not be kept: {reason}", session.setting.policy, session.setting.facts, b""
        )
        made = None if judged is None else dataclasses.replace(judged, verdict=verdict)
        return _outcome(session, Ending.VERDICT, Decision.CANNOT_TELL, made, None, reason)
    if isinstance(error, LeaseError):
        return _outcome(session, Ending.VERDICT, Decision.CANNOT_TELL, None, published, reason)
    if isinstance(error, LookedWrong):
        return _outcome(session, Ending.REJECTED, None, None, published, reason)
    if judged is not None and published is not None and not _may_have_launched(session, judged):
        said = f"{headline(judged.verdict, session.setting.gate.name)} (then: {reason})"
        return _outcome(session, Ending.VERDICT, refusal(judged.verdict.answer), judged, published, said)
    if judged is not None and published is not None:
        return _not_launched(session, error, judged, published)
    ending = Ending.REJECTED if isinstance(error, LaunchRejected) else Ending.NO_CAPACITY
    return _outcome(session, ending, None, None, published, reason)


def _not_launched(session: Session, error: Exception, judged: Judged, published: Published) -> Outcome:
    """After a go: the engine had no machines for the training, or refused it. A training that ran before was launched."""
    verdict = f"the verdict was {judged.verdict.answer.value}"
    if session.trained:
        said = f"{verdict} and the training ran, but it could not be followed to its end: {error}"
        return _outcome(session, Ending.JOB_FAILED, Decision.LAUNCHED, judged, published, said)
    # A pool that is lost while the training waits for machines expired: nobody took it away.
    waited = isinstance(error, PoolLost) and session.waiting_since is not None
    if not (waited or isinstance(error, NoCapacity | QuotaExceeded)):
        said = f"{verdict}, but the training could not be launched: {error}"
        return _outcome(session, Ending.JOB_FAILED, Decision.NOT_LAUNCHED, judged, published, said)
    said = f"{verdict}, but the training got no machines: {error} {kept_so_far(session)}".rstrip()
    return _outcome(session, Ending.NO_CAPACITY, Decision.NOT_LAUNCHED, judged, published, said)


def broken(session: Session, error: Exception) -> Outcome:
    """A defect, of ours or of a library: nothing is launched, and what may run is ended with the session."""
    LOG.error("the gate broke", exc_info=error)
    said = one_line(redact(f"{type(error).__name__}: {error}", os.environ), 500)
    reason = f"an error of prelaunch itself, so it cannot tell: {said}"
    return _outcome(session, Ending.VERDICT, Decision.CANNOT_TELL, None, None, reason)


async def end(session: Session, outcome: Outcome) -> State[Any]:
    """Release what is kept, page whoever has to hear, keep the outcome, tell the command line, and name the state."""
    if outcome.report is None:  # what was published has been told
        tell(Progress("verdict", outcome.reason))
    await to_end(session.release)
    if outcome.placement is not None:
        outcome = dataclasses.replace(outcome, placement=session.placed)
    heard = wanted(outcome) or bool(session.unreleased)
    told = await page(session, outcome) if heard else await note(session, outcome)
    try:
        if outcome.code != 0:
            await to_end(reuse.forget, session)  # a PASS whose training failed proves less than it did
    except StoreError as error:
        LOG.error("an older PASS could not be voided: %s", error)
    try:
        kept = dump_plain({**summary(outcome), "told": told})
        await to_end(session.setting.store.put, f"gates/{outcome.gate_id}/outcome.json", kept)
    except StoreError as error:
        LOG.error("the outcome is not kept: %s", error)
    await announce_end(session, outcome)
    emit_end(session, outcome)
    tell_end(outcome)
    return state_of(outcome, session.setting.gate.name)


def rejected(error: Exception) -> State[Any]:
    """The request cannot be run: nothing was started."""
    tell_end(Outcome("", Ending.REJECTED, None, None, None, str(error)))
    why = Busy if isinstance(error, LeaseHeld) else NotLaunched
    return Failed(name="Rejected", message=str(error), data=why(str(error)))


def stopped(error: Exception) -> State[Any]:
    """Somebody cancelled the run; its jobs have been ended."""
    return Cancelled(message=str(error))


def state_of(outcome: Outcome, name: str) -> State[Any]:
    """A failure that is red in the UI and has no traceback; its message says what to do first."""
    said = title_of(outcome, name)[:2000]
    if outcome.code == 0:
        LOG.info(said)
        return Completed(name=DONE_NAMES[outcome.decision or Decision.LAUNCHED], message=said)
    LOG.error(said)
    if outcome.decision is Decision.REFUSED:
        return Failed(name="Refused", message=said, data=NotLaunched(said))
    named = {Ending.NO_CAPACITY: "NoCapacity", Ending.REJECTED: "Rejected"}
    if outcome.decision is not Decision.NOT_LAUNCHED:
        named[Ending.JOB_FAILED] = "TrainingFailed"
    word = named.get(outcome.ending) or FAILED_NAMES.get(
        outcome.decision or Decision.CANNOT_TELL, "CannotTell"
    )
    return Failed(name=word, message=said, data=NotLaunched(said))


def summary(outcome: Outcome) -> dict[str, object]:
    """What is kept of an outcome beside report and verdict."""
    training = outcome.training
    return {
        "gate_id": outcome.gate_id,
        "decision": outcome.decision,
        "ending": outcome.ending,
        "exit_code": outcome.code,
        "reason": outcome.reason,
        "answer": outcome.judged.verdict.answer if outcome.judged else None,
        "reused": outcome.judged.reused if outcome.judged else "",
        "training": {"job_id": training.job_id, "state": training.state, "detail": training.detail}
        if training
        else None,
        "placement": outcome.placement,
        "approval": outcome.answer,
    }


def _outcome(
    session: Session,
    ending: Ending,
    decision: Decision | None,
    judged: Judged | None,
    published: Published | None,
    reason: str,
) -> Outcome:
    report, html = (published.report, published.html) if published is not None else (None, None)
    return Outcome(
        session.gate_id, ending, decision, judged, None, reason, report, html, session.placed, session.answer
    )


def _may_have_launched(session: Session, judged: Judged) -> bool:
    """Whether the verdict, or a person's word, let the training start."""
    observed = session.setting.gate.policy.mode is Mode.OBSERVE
    said = session.answer is not None and session.answer.launches
    return observed or said or judged.verdict.answer is Answer.GO
