"""The end of a gate that somebody cancels: what is kept of it, so that whoever looks later sees that it was, and how far it had come.

A command that runs the flow in its own process knows which signal it was, and keeps it itself (`flows/cli/gate_output.py`). A worker's
process, or a hook when that is gone, keeps it here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from prefect.client.schemas.objects import State
from prefect.logging import get_logger
from prefect.states import Cancelled

from checks.documents.report import digest, load
from checks.exit_codes import Exit
from checks.runner.deadline import limited
from checks.value_types import DecodeError
from tasks.collect import LOG_BYTES, has_trained, keep_logs
from tasks.finish import launch_decision
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import TRAIN
from tasks.gate.lease.renewal import LeaseRenewal
from tasks.gate.links import run_links
from tasks.gate.outcome import (
    MAY_HAVE_STARTED,
    MOST_LOGS,
    NOT_STARTED,
    Ending,
    GateOutcome,
    Training,
    cancelled_by,
    first_line,
    keep_outcome,
    with_ending,
)
from tasks.gate.progress import LISTENER, Progress, report_end, report_progress
from tasks.gate.session import Session, end_run
from tasks.gate_file.request import GateRequest
from tasks.judge import report_verdict
from tasks.launchers.base import JobState, LaunchError
from tasks.launchers.log_end import NodeLog, cause_of, node_log, read_log
from tasks.orchestration.events import emit_cancelled
from tasks.page import notify_replaced, show_cancelled
from tasks.publish import put_pages
from tasks.store.base import StoreError
from tasks.store.layout import html_key, outcome_key, report_key
from tasks.text.inert import one_line

LOG = get_logger("prelaunch")
# Whoever cancels waits for it, and the jobs end after it.
LOGS_S = 3.0
IN_PREFECT = "cancelled in Prefect"
FROM_OUTSIDE = "cancelled in Prefect, or with the process of its worker"
LOCK_TAKEN = "another run has the lock of its cluster, and its jobs were left to that run"


def cancelled_outcome(session: Session, ended: bool | None = None) -> GateOutcome:
    """The outcome of a gate that somebody cancelled, as far as it had come; who did it is for the caller to say (`cancelled_by`).

    `ended`: whether its training was ended; by default whether it ends with the session.
    """
    begun = _begun(session)
    job = "" if begun is False else session.training or session.renewal.lease.job(TRAIN)
    if ended is None:
        ended = session.may_run(job)
    state = JobState.CANCELLED if ended else JobState.UNKNOWN
    judged = session.judged
    if judged is not None and session.launches and not begun:
        note = NOT_STARTED if begun is False else MAY_HAVE_STARTED
        judged = replace(judged, context=replace(judged.context, training=note))
    return GateOutcome(
        session.gate_id,
        Ending.CANCELLED,
        launch_decision(session, session.answer) if begun else None,
        judged,
        replace(_training(session, job, state), certain=bool(begun)) if job else None,
        "",
        placement=session.placed,
        answer=session.answer,
        started=bool(session.begun),
    )


def _begun(session: Session) -> bool | None:
    """Whether the training was started; None where only the nodes of its job know that, and what they wrote cannot be read in time."""
    job = session.renewal.lease.job(TRAIN)
    if session.training or session.trained:
        return True
    if session.judged is None or not session.in_job or job not in session.begun:
        return False
    try:
        return limited(LOGS_S, lambda: has_trained(session, job))
    except (OSError, TimeoutError):
        return None


def _training(session: Session, job: str, state: JobState) -> Training:
    """The training with what is known of its failure, where it had failed on a node before anybody cancelled it."""
    status = session.statuses.get(job)
    codes = {} if status is None else {node: code for node, code in status.exit_codes.items() if code}
    if not codes:
        return Training(job, state)
    logs: list[NodeLog] = []
    try:
        limited(LOGS_S, lambda: logs.extend(_logs(session, job, tuple(codes)[:MOST_LOGS])))
    except (LaunchError, TimeoutError) as error:
        LOG.warning("why the training had failed could not be read: %s", error)
    ends = "; ".join(f"{node} ended with exit code {code}" for node, code in tuple(codes.items())[:MOST_LOGS])
    return Training(job, state, ends, one_line(cause_of(logs).text, 300))


def _logs(session: Session, job: str, nodes: tuple[str, ...]) -> Iterator[NodeLog]:
    return (node_log(node, read_log(session.context.launcher, job, node, LOG_BYTES)) for node in nodes)


async def end_cancelled_gate(session: Session) -> State[Any]:
    """End the jobs of a run that somebody cancelled, keep how it ended, and return the final state."""
    outcome = await run_to_end(_end_and_keep, session, IN_PREFECT)
    line = first_line(outcome, session.context.gate.name)
    emit_cancelled(session, line)
    report_end(outcome)
    return Cancelled(message=line)


def note_interruption(session: Session, ended: GateOutcome | None = None) -> None:
    """End the jobs of an interrupted flow, and hand its outcome to the command that runs it, which knows what did it; in a worker's
    process, keep it.

    `ended`: the gate had ended, and only its last messages were interrupted.
    """
    if ended is not None:
        report_end(ended)
        store = session.context.store
        try:
            if store.get(outcome_key(ended.gate_id)) is None:
                keep_outcome(store, ended, ended.code, session.context.gate.cluster.name)
        except StoreError as error:
            LOG.error("the outcome could not be stored: %s", error)
    elif LISTENER.get() is None:
        _end_and_keep(session, FROM_OUTSIDE)
    else:
        report_end(cancelled_outcome(session))
        if session.end_jobs():
            notify_replaced(session)
        else:
            report_progress(Progress("end", LOCK_TAKEN, unended=True))


def _end_and_keep(session: Session, by: str) -> GateOutcome:
    """End the jobs, and only then keep how it ended: a store that hangs leaves no machines running. A failure is logged.

    Where another run has the lock, it has adopted the gate: the jobs and their end are its own, and nothing is kept here.
    """
    outcome = cancelled_outcome(session)
    if not session.end_jobs():
        return cancelled_by(outcome, by, LOCK_TAKEN)
    outcome = cancelled_by(outcome, by, "; ".join(session.unreleased))
    try:
        outcome = keep_cancelled(session.context, outcome, outcome.code)
        show_cancelled(session.context, outcome, run_links(session.renewal.lease.owner.flow_run_id))
    except StoreError as error:
        LOG.error("how the gate ended could not be stored: %s", error)
    notify_replaced(session)
    return outcome


def keep_cancelled(context: GateContext, outcome: GateOutcome, code: Exit) -> GateOutcome:
    """Keep how a cancelled gate ended: its outcome, its pages if it had a verdict, and the logs of its training. Returns it with the
    places of the report. Raises StoreError.
    """
    store, gate_id = context.store, outcome.gate_id
    keep_outcome(store, outcome, code, context.gate.cluster.name)
    judged = with_ending(outcome, context.gate.name).judged
    if judged is not None and store.get(report_key(gate_id)) is not None:
        places = store.location(report_key(gate_id)), store.location(html_key(gate_id))
        outcome = replace(outcome, report=places[0], html=places[1])
        put_pages(context, gate_id, judged, judged.context)
    if outcome.training is not None:
        keep_logs(context, gate_id, outcome.training.job_id, context.declared.node_names[:MOST_LOGS])
    return outcome


def end_run_from_outside(request: GateRequest, flow_run_id: str, cancelled: bool) -> None:
    """End the jobs of a run whose process is gone; of one that was cancelled, keep how it ended. Idempotent."""
    context = open_gate_context(request)
    held = leases.lease_of_run(context.store, flow_run_id)
    unended = end_run(request, flow_run_id)
    if held is None or unended is None or not cancelled:
        return
    try:
        if context.store.get(outcome_key(held.lease.gate_id)) is None:
            _keep_cancelled_run(Session(context, LeaseRenewal(context.store, held), request.launch), unended)
    except (StoreError, LaunchError, DecodeError) as error:
        LOG.error("how %s ended could not be stored: %s", held.lease.gate_id, error)


def _keep_cancelled_run(session: Session, unended: str) -> None:
    job, engine = session.renewal.lease.job(TRAIN), session.context.launcher
    session.begun.update(name for name in session.renewal.lease.jobs if not engine.state(name).absent)
    data = session.context.store.get(report_key(session.gate_id))
    if data is not None:
        session.judged = report_verdict(session, load(data), digest(data))
        session.training = job if not session.in_job and job in session.begun else ""
    outcome = cancelled_by(cancelled_outcome(session, ended=True), IN_PREFECT, unended)
    outcome = keep_cancelled(session.context, outcome, outcome.code)
    show_cancelled(session.context, outcome, run_links(session.renewal.lease.owner.flow_run_id))
