"""Handles waiting runs from outside: one whose deadline has passed, and one that somebody ended in Prefect."""

from __future__ import annotations

import logging
import time

from prefect.client.orchestration import get_client

from checks.value_types import DecodeError
from tasks.finish import refused_outcome
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.jobs import cancel_jobs
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import HeldLease, Lease, OpenQuestion
from tasks.gate.lease.renewal import LeaseRenewal
from tasks.gate.outcome import Ending, GateOutcome, keep_outcome, with_ending, without_training
from tasks.gate.question import ApprovalAnswer, expired_answer, nobodys_answer, read_question
from tasks.gate.record.request import kept_request
from tasks.gate.session import Session
from tasks.gate_file.read import GateFileError
from tasks.judge import judge_again
from tasks.orchestration.run_state import run_is_final
from tasks.page import send_notification
from tasks.publish import published_report, store_pages
from tasks.store.layout import outcome_key

LOG = logging.getLogger("prelaunch")
ENDED = "its run was ended in Prefect while it waited for approval"
# What the server's own rules ask of the form.
NOBODY = {"action": "block", "reason": "", "approver": "nobody"}


def expire_question(context: GateContext, flow_run_id: str) -> str:
    """End a question whose time is up, or whose run was ended in Prefect; returns what was done, "" for nothing. Idempotent.

    A run that still waits is resumed, so that it ends itself: an answer in time that did not reach it stands. One that has
    ended in Prefect is closed here: its jobs are ended, its lock is released, its outcome is kept and people are notified. Raises
    LaunchError, LeaseError, StoreError, and what Prefect's client raises where the server does not answer.
    """
    held = leases.lease_of_run(context.store, flow_run_id)
    if held is None or held.lease.asking is None:
        return ""
    done, asking = "", held.lease.asking
    if time.time() > asking.deadline and _resume(flow_run_id):
        done = "resumed so that it is refused: nobody answered in time"
    if run_is_final(flow_run_id):
        cancel_jobs(held.lease)
        close_expired_gate(context, held.lease)
        leases.release(context.store, held)
        done = "its run had ended; its jobs were ended, and the cluster is free"
    return done


def _resume(flow_run_id: str) -> bool:
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(flow_run_id).state  # type: ignore[arg-type]
        if state is None or not state.is_paused():
            return False
        response = client.resume_flow_run(flow_run_id, run_input=NOBODY)  # type: ignore[arg-type]
        return response.state is not None and not response.state.is_final()


def close_expired_gate(context: GateContext, lease: Lease, reason: str = ENDED) -> None:
    """Keep the end of a gate that no longer waits (refused), and notify people. Its own request names the gate. Idempotent."""
    if lease.asking is None or context.store.get(outcome_key(lease.gate_id)) is not None:
        return
    own = _own(context, lease)
    session = Session(own, LeaseRenewal(own.store, HeldLease(lease, b"")))
    outcome = without_training(_outcome(session, lease.asking, reason), launches=True)
    outcome = with_ending(outcome, own.gate.name)
    if outcome.judged is not None and outcome.judged.context.training:
        store_pages(session, outcome.judged)
    send_notification(session, outcome)
    keep_outcome(context.store, outcome, outcome.code, own.gate.cluster.name)


def _own(context: GateContext, lease: Lease) -> GateContext:
    request = kept_request(context.store, lease.gate_id)
    try:
        return context if request is None else open_gate_context(request)
    except GateFileError as error:
        LOG.warning("the gate file of %s cannot be read again: %s", lease.gate_id, error)
        return context


def _outcome(session: Session, asking: OpenQuestion, reason: str) -> GateOutcome:
    gate_id = session.gate_id
    session.answer = _nobody(session, asking, reason)
    try:
        judged = judge_again(session)
    except DecodeError as error:
        LOG.warning("the report of %s cannot be read: %s", gate_id, error)
        return GateOutcome(
            gate_id, Ending.VERDICT, None, None, None, session.answer.reason, answer=session.answer
        )
    return refused_outcome(session, judged, published_report(session), session.answer)


def _nobody(session: Session, asking: OpenQuestion, reason: str) -> ApprovalAnswer:
    now = time.time()
    question = read_question(session.context.store, session.gate_id, asking.key)
    if question is not None and now > asking.deadline:
        return expired_answer(question, now)
    return nobodys_answer(session.gate_id, asking.key, reason, now)
