"""The end of a gate: its outcome, who is notified, what is kept in the store, and the state that Prefect shows."""

from __future__ import annotations

import dataclasses
import logging
import os
from pathlib import Path
from typing import Any

import httpx
from prefect.client.schemas.objects import State
from prefect.logging import get_logger
from prefect.states import Completed, Failed

from checks.exit_codes import Exit
from checks.judge.verdict import unstored
from checks.model import Answer, Level
from tasks import judge
from tasks.approve import needs_approval
from tasks.collect import has_trained
from tasks.gate.blocking_calls import opaque, run_to_end
from tasks.gate.lease.lease import TRAIN, LeaseError, LeaseHeld, taken_over
from tasks.gate.outcome import (
    MAY_HAVE_STARTED,
    REFUSALS,
    STARTED_BY_NODES,
    Decision,
    Ending,
    GateOutcome,
    JudgedReport,
    Training,
    ended_otherwise,
    keep_outcome,
    refusal_decision,
    with_billed,
    with_ending,
    without_training,
)
from tasks.gate.progress import Progress, report_end, report_progress
from tasks.gate.question import AnswerChannel, ApprovalAnswer
from tasks.gate.session import Session
from tasks.gate.submission import PreflightFailed
from tasks.gate_file.model import Mode
from tasks.launch import LaunchResult, PoolLost, nodes_text, pool_cost_so_far, price_text
from tasks.launchers import base
from tasks.orchestration.events import emit_end
from tasks.orchestration.follow import unanswered
from tasks.orchestration.server.http_client import service_fault
from tasks.orchestration.server.settings import configured_api_url
from tasks.orchestration.status import publish_end
from tasks.page import needs_notification, notify_outcome, send_notification
from tasks.paging.content import title_of
from tasks.publish import PublishedReport, may_have_launched, publish_ending, published_report, with_past
from tasks.render.headline import basis, headline
from tasks.store.base import StoreError
from tasks.text.inert import one_line
from tasks.text.redact import redact

LOG = get_logger("prelaunch")
# An HTTP error is of Prefect's client: engines, stores and notifiers have errors of their own.
SESSION_ERRORS = (base.LaunchError, StoreError, LeaseError, httpx.HTTPError)
# The names of Prefect's final states that are not the decision's.
ENDING_NAMES = {
    Ending.NO_CAPACITY: "NoCapacity",
    Ending.REJECTED: "Rejected",
    Ending.JOB_FAILED: "TrainingFailed",
}


class NotLaunched(Exception):
    """Why a gate launched nothing, or why what it launched failed. The final state contains it."""


class ClusterBusy(NotLaunched):
    """Another gate holds the cluster's lock. This does not mean that anything is wrong with the cluster."""


def may_launch(session: Session, judged: JudgedReport, answer: ApprovalAnswer | None) -> bool:
    """Whether the training may start: GO, an approval if one is needed, or observe mode."""
    if judged.verdict.answer is Answer.GO or session.context.gate.policy.mode is Mode.OBSERVE:
        return True
    return needs_approval(session, judged) and answer is not None and answer.launches


def refused_outcome(
    session: Session,
    judged: JudgedReport,
    published: PublishedReport,
    answer: ApprovalAnswer | None,
    more: str = "",
) -> GateOutcome:
    """The outcome if the verdict or a person refuses; `more` is what else the notification has to say."""
    # What was left to a person may be judged a go by now: without that person's word it is a refusal all the same.
    decision = Decision.REFUSED if answer is not None else refusal_decision(judged.verdict.answer)
    reason = headline(judged.verdict, session.context.gate.name)
    if answer is not None:
        reason = "; ".join(filter(None, (_refusal_reason(answer), basis(judged.verdict))))
    reason += f" ({more})" if more else ""
    return _outcome(session, Ending.VERDICT, decision, judged, published, reason)


def _refusal_reason(answer: ApprovalAnswer) -> str:
    if answer.note:
        return f"the answer of {answer.by} is not valid: {answer.note}"
    if answer.via is AnswerChannel.NOBODY:
        return answer.reason
    reason = one_line(answer.reason, 300)
    return f"{answer.by} refused{f' ({reason})' if reason else ''}"


def checked_outcome(session: Session, judged: JudgedReport, published: PublishedReport) -> GateOutcome:
    """The outcome of a gate that was asked for a verdict only."""
    if judged.verdict.answer is not Answer.GO:
        return refused_outcome(session, judged, published, None)
    reason = f"{headline(judged.verdict, session.context.gate.name)} (no training was requested)"
    return _outcome(session, Ending.VERDICT, Decision.PASSED, judged, published, reason)


def launched_outcome(
    session: Session,
    judged: JudgedReport,
    published: PublishedReport,
    answer: ApprovalAnswer | None,
    launch: LaunchResult,
) -> GateOutcome:
    """The outcome if training was submitted. It may have failed, or its own nodes may have refused it."""
    name = session.context.gate.name
    observed = session.context.gate.policy.mode is Mode.OBSERVE
    if launch.rechecked is not None and launch.rechecked.verdict.answer is not Answer.GO and not observed:
        again = headline(launch.rechecked.verdict, name)
        refusal = f"the training got other machines than those that passed; they were checked again: {again}"
        decision = refusal_decision(launch.rechecked.verdict.answer)
        outcome = _outcome(session, Ending.VERDICT, decision, launch.rechecked, published, refusal)
        return dataclasses.replace(outcome, training=launch.training)
    decision = launch_decision(session, answer) if launch.ran else Decision.NOT_LAUNCHED
    reason = headline(judged.verdict, name)
    if judged.reused:
        reason += f" (PASS of {judged.reused} reused)"
    if answer is not None:
        approval = "against the verdict, approved" if answer.override else "approved"
        reason += f" (launched {approval} by {answer.by}: {one_line(answer.reason, 300)})"
    ending = Ending.VERDICT
    if launch.training.state in (base.JobState.FAILED, base.JobState.CANCELLED, base.JobState.UNKNOWN):
        ending = Ending.JOB_FAILED
        state = "" if launch.training.state is base.JobState.FAILED else f"{launch.training.state.value}: "
        reason = f"{state}{launch.training.cause or launch.training.detail}"
    outcome = _outcome(session, ending, decision, judged, published, reason)
    return dataclasses.replace(outcome, training=launch.training)


async def notify_launch(session: Session, judged: JudgedReport) -> None:
    """Notify people of a launch against the verdict now: the end of the training may be days away."""
    launch = LaunchResult(Training(session.renewal.lease.job(TRAIN), base.JobState.PENDING))
    outcome = launched_outcome(session, judged, published_report(session), session.answer, launch)
    if needs_notification(outcome):
        await run_to_end(send_notification, session, with_ending(outcome, session.context.gate.name))


def launch_decision(session: Session, answer: ApprovalAnswer | None) -> Decision:
    """The decision of a gate that started the training."""
    if session.context.gate.policy.mode is Mode.OBSERVE:
        return Decision.OBSERVED
    return Decision.OVERRIDDEN if answer is not None and answer.override else Decision.LAUNCHED


def failed_outcome(session: Session, error: Exception, published: PublishedReport | None) -> GateOutcome:
    """The outcome if an engine, the store, the lock or the Prefect server failed, from what was known by then."""
    if isinstance(error, httpx.HTTPError):
        fault = service_fault(error)
        if fault is None:
            return defect_outcome(session, error)
        url = configured_api_url(os.environ, Path.cwd()) or ""
        error = base.EngineUnavailable(unanswered(url, fault))
    judged = session.judged or (session.previous if session.excluded else None)
    reason = f"{error}{leave_training(session)}"
    if (
        published is not None
        and judged is not None
        and published.digest not in ("", judged.verdict.digests.report)
    ):
        published = None  # of an earlier round
    if isinstance(error, StoreError) and judged is not None and published is None:
        refused = not may_have_launched(session, judged)
        reason = f"the report could not be stored: {reason}"
        judged = dataclasses.replace(judged, verdict=unstored(reason, error.instead, judged.verdict))
        decision = refusal_decision(judged.verdict.answer) if refused else Decision.CANNOT_TELL
        return _outcome(session, Ending.VERDICT, decision, judged, None, reason)
    if isinstance(error, PreflightFailed):
        rejected = _outcome(session, Ending.REJECTED, None, None, published, reason)
        return dataclasses.replace(rejected, key=error.key)
    # Without the store or the lock only a NO-GO stands, and only of a gate that no other process began: its answer may be lost.
    is_lost = isinstance(error, StoreError | LeaseError)
    is_own_no_go = (
        judged is not None and judged.verdict.answer is Answer.NO_GO and not session.renewal.lease.adopted
    )
    if judged and published and not may_have_launched(session, judged) and (is_own_no_go or not is_lost):
        refusal = f"{headline(judged.verdict, session.context.gate.name)} (then: {reason})"
        return _outcome(
            session, Ending.VERDICT, refusal_decision(judged.verdict.answer), judged, published, refusal
        )
    if is_lost:
        return _outcome(session, Ending.VERDICT, Decision.CANNOT_TELL, None, published, reason)
    if judged is not None and published is not None:
        return _not_launched(session, error, reason, judged, published)
    if isinstance(error, base.UnseenJob):
        return _outcome(session, Ending.VERDICT, Decision.CANNOT_TELL, None, None, reason)
    ending = Ending.REJECTED if isinstance(error, base.LaunchRejected) else Ending.NO_CAPACITY
    return _outcome(session, ending, None, None, published, reason)


def _not_launched(
    session: Session, error: Exception, reason: str, judged: JudgedReport, published: PublishedReport
) -> GateOutcome:
    """Whether, after a GO, the engine had no machines for the training or refused it. A training that ran counts as launched."""
    verdict = f"the verdict was {judged.verdict.answer.value}"
    if session.trained:
        message = f"{verdict} and the training ran, but its end could not be observed: {reason}"
        return _outcome(session, Ending.JOB_FAILED, Decision.LAUNCHED, judged, published, message)
    if isinstance(error, base.EngineUnavailable) and not isinstance(error, base.NotSubmitted):
        message = f"{verdict}, and whether the training was launched is not known: {reason}"
        outcome = _outcome(session, Ending.JOB_FAILED, Decision.LAUNCHED, judged, published, message)
        job = session.renewal.lease.job(TRAIN)
        return dataclasses.replace(outcome, training=Training(job, base.JobState.UNKNOWN, str(error)))
    # A pool that is lost while the training waits for machines expired: nobody took it away.
    waited = isinstance(error, PoolLost) and session.waiting_since is not None
    if not (waited or isinstance(error, base.NoCapacity | base.QuotaExceeded)):
        message = f"{verdict}, but the training could not be launched: {error}"
        return _outcome(session, Ending.JOB_FAILED, Decision.NOT_LAUNCHED, judged, published, message)
    message = f"{verdict}, but the training got no machines: {error} {pool_cost_so_far(session)}".rstrip()
    return _outcome(session, Ending.NO_CAPACITY, Decision.NOT_LAUNCHED, judged, published, message)


def leave_training(session: Session) -> str:
    """Let a training that was seen to run go on, though the gate breaks off; the sentence about it, "" where there is none."""
    job, judged = session.renewal.lease.job(TRAIN), session.judged
    refused = judged is not None and not may_launch(session, judged, session.answer)
    if not (session.trained and session.may_run(job)) or refused or session.renewal.lost.is_set():
        return ""
    session.let_go(job)
    status = session.statuses.get(job)
    last = f" (the engine said last: {status.text})" if status is not None else ""
    return f"; the training {job} was seen to run and is not ended{last}: nobody follows it any more"


def defect_outcome(session: Session, error: Exception) -> GateOutcome:
    """The outcome of a defect in our code or in a library: nothing is launched, and what may run is ended with the session, except a
    training that was seen to run. A Prefect server that failed is a failed service, also where a library raised something else
    because of it.
    """
    if (fault := service_fault(error)) is not None:
        return failed_outcome(session, fault, None)
    LOG.error("the gate broke", exc_info=error)
    cause = one_line(redact(f"{type(error).__name__}: {error}", os.environ), 500)
    reason = f"this is an error in prelaunch itself, so there is no verdict: {cause}{leave_training(session)}"
    return _outcome(session, Ending.VERDICT, Decision.CANNOT_TELL, None, None, reason)


def billed_machines(session: Session) -> tuple[str, ...]:
    """The machines that may still be billed, each as a sentence with what to do, and their price; () if there are none."""
    if not session.unreleased:
        return ()
    cost = f"{nodes_text(session)} cost {price_text(session, 1.0)} an hour until then"
    return tuple(f"{line[:1].upper()}{line[1:].rstrip('.')}." for line in (*session.unreleased, cost))


async def finish_gate(session: Session, outcome: GateOutcome) -> State[Any]:
    """Release kept machines, notify people, keep the outcome, hand it to the command line, and return the final state."""
    if outcome.report is None and outcome.judged is None:  # what was judged is said with its end
        report_progress(Progress("verdict", outcome.reason))
    name = session.context.gate.name
    outcome = await run_to_end(with_possible_training, session, outcome)
    outcome = with_ending(
        without_training(outcome, session.launches and not session.trained, session.launches), name
    )
    if outcome.judged is not None and outcome.html is not None and ended_otherwise(outcome.judged, name):
        await publish_ending(session, outcome.judged)
    await run_to_end(session.release_machines)
    if outcome.placement is not None:
        outcome = dataclasses.replace(outcome, placement=session.placed)
    heard = needs_notification(outcome) or bool(session.unreleased or session.previous or session.replaced)
    delivery = await (
        notify_outcome(session, opaque(outcome)) if heard else run_to_end(send_notification, session, outcome)
    )
    session.notified = len(session.unreleased)
    outcome = with_ending(with_billed(outcome, billed_machines(session)), name)
    try:
        if outcome.code is not Exit.GO:
            await run_to_end(judge.void_pass, session)  # a PASS whose training failed proves less than it did
    except StoreError as error:
        LOG.error("an older PASS could not be voided: %s", error)
    await run_to_end(_keep_outcome, session, outcome, delivery)
    await publish_end(session, outcome)
    emit_end(session, outcome)
    report_end(outcome)
    return failed_state(outcome, name)


def _keep_outcome(session: Session, outcome: GateOutcome, delivery: object) -> None:
    """Keep the outcome, unless another run has taken over the gate, whose end is that of the other run."""
    store, lease = session.context.store, session.renewal.lease
    try:
        run, is_lost = lease.owner.flow_run_id, session.renewal.lost.is_set()
        if is_lost and taken_over(store, lease.cluster, outcome.gate_id, run):
            return
        keep_outcome(store, outcome, outcome.code, lease.cluster, delivery)
    except (LeaseError, StoreError) as error:
        LOG.error("the outcome could not be stored: %s", error)


def with_possible_training(session: Session, outcome: GateOutcome) -> GateOutcome:
    """The outcome of a refused job whose nodes decide by themselves, with what the engine says of it, unless it is known that no node
    became the training.
    """
    job, judged = session.renewal.lease.job(TRAIN), outcome.judged
    refused = judged is not None and outcome.decision in REFUSALS and outcome.training is None
    if judged is None or not refused or not session.in_job or job not in session.begun:
        return outcome
    begun = has_trained(session, job)
    if begun is False:
        return outcome
    status = session.context.launcher.state(job)
    note = STARTED_BY_NODES if begun else MAY_HAVE_STARTED
    note = f"{note} The engine says of job {job}: {one_line(status.text, 300)}."
    noted = dataclasses.replace(judged, context=dataclasses.replace(judged.context, training=note))
    return dataclasses.replace(outcome, judged=noted, training=Training(job, status.state, status.detail))


def reject_request(error: Exception) -> State[Any]:
    """The end of a request that cannot be run: nothing was started."""
    report_end(GateOutcome("", Ending.REJECTED, None, None, None, str(error)))
    error_type = ClusterBusy if isinstance(error, LeaseHeld) else NotLaunched
    return Failed(name="Rejected", message=str(error), data=error_type(str(error)))


def failed_state(outcome: GateOutcome, name: str) -> State[Any]:
    """A failure that is red in the UI and has no traceback; its message says what to do first."""
    message = title_of(outcome, name)[:2000]
    LOG.log(level_of(outcome), message)
    decision, ending = outcome.decision or Decision.CANNOT_TELL, outcome.ending
    refused = decision is Decision.REFUSED
    unlaunched = decision is Decision.NOT_LAUNCHED and ending is Ending.JOB_FAILED
    by_decision = ending not in ENDING_NAMES or refused or unlaunched
    state_name = decision_name(decision) if by_decision else ENDING_NAMES[ending]
    if outcome.code is Exit.GO:
        return Completed(name=state_name, message=message)
    return Failed(name=state_name, message=message, data=NotLaunched(message))


def decision_name(decision: Decision) -> str:
    """The name of Prefect's final state, such as "CannotTell"."""
    return decision.value.title().replace("_", "")


def level_of(outcome: GateOutcome) -> int:
    """The level of the last line of the gate's log: an error for what failed, a warning for what could not be told or done, or for
    what was started in spite of a finding.
    """
    if outcome.code is Exit.GO:
        clean = outcome.judged is None or outcome.judged.verdict.level not in (Level.WARN, Level.FAIL)
        return logging.INFO if clean else logging.WARNING
    failed = outcome.code in (Exit.NO_GO, Exit.JOB_FAILED) and outcome.decision is not Decision.AWAITING
    return logging.ERROR if failed else logging.WARNING


def _outcome(
    session: Session,
    ending: Ending,
    decision: Decision | None,
    judged: JudgedReport | None,
    published: PublishedReport | None,
    reason: str,
) -> GateOutcome:
    if session.excluded:
        nodes = "; ".join(session.excluded.values())
        reason += f" (excluded after a refusal: {one_line(nodes, 500)})"
    trains = decision in (Decision.LAUNCHED, Decision.OVERRIDDEN)
    left_out = {name: one_line(text, 200) for name, text in session.left_out.items() if trains}
    report, html = (published.report, published.html) if published is not None else (None, None)
    judged = with_past(judged, published) if judged is not None else None
    return GateOutcome(
        session.gate_id, ending, decision, judged, None, reason, report, html, session.placed, session.answer,
        left_out=left_out,
    )  # fmt: skip
