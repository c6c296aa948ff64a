"""The gate: check the cluster, decide, then launch the training, ask a person, or notify one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from prefect import flow, runtime, tags
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from tasks import finish, provision
from tasks.approve import ask_for_approval, load_resumed_verdict, rerun_checks
from tasks.cancel import end_cancelled_gate, end_run_from_outside, note_interruption
from tasks.collect import collect_report, wait_for_checks
from tasks.expire import close_expired_gate
from tasks.gate.approval.wait import was_resumed
from tasks.gate.blocking_calls import opaque, run_to_end
from tasks.gate.cancellation import RunCancelled
from tasks.gate.context import GateContext, run_title, with_own_store
from tasks.gate.outcome import GateOutcome, JudgedReport
from tasks.gate.session import REJECTIONS, Session, open_session
from tasks.gate_file.request import GateRequest, Wait
from tasks.in_job import (
    JobStarts,
    compare_with_nodes,
    follow_chosen,
    follow_start,
    hand_answer_to_nodes,
    name_spares,
    next_start,
    note_training,
    wait_for_restart,
)
from tasks.judge import judge_report, keep_pass, reuse_pass
from tasks.launch import LaunchResult, follow_training, launch_training, wait_for_pool
from tasks.launchers.base import NoCapacity
from tasks.orchestration.events import emit_rejected, emit_run_ended, emit_started
from tasks.orchestration.run_state import run_is_final
from tasks.orchestration.runs import TAG
from tasks.orchestration.stage_log import logged_stages
from tasks.orchestration.status import publish_rejection, publish_start
from tasks.page import check_notifiers
from tasks.paging.live import live_messages
from tasks.publish import PublishedReport, export_report, publish_report, with_past


def run_name() -> str:
    """A sentence: "gate local: 2 nodes, quick"."""
    return run_title(runtime.flow_run.parameters)


def end_jobs(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Hook for a run that was cancelled or crashed: end its jobs. It knows only the run's id and parameters."""
    request = GateRequest.model_validate(flow_run.parameters["request"])
    end_run_from_outside(request, str(flow_run.id), state.is_cancelled())


FLOW: dict[str, Any] = {
    "name": "gate",
    "on_completion": [emit_run_ended],
    "on_failure": [emit_run_ended],
    "on_cancellation": [end_jobs],
    "on_crashed": [end_jobs],
    "persist_result": False,
    "retries": 0,  # whatever PREFECT_FLOWS_DEFAULT_RETRIES says: Prefect gives a retry that loses its worker to no other
}


@flow(flow_run_name=run_name, **FLOW)
async def gate(request: GateRequest) -> State[Any]:
    """Checks the cluster, then launches the training job only if it is healthy.

    Args:
        request: Choose the gate file; the rest may stay as it is.
    """
    return await _gate(request)


def opened_gate(context: GateContext) -> Flow[[GateRequest], Any]:
    """The returned flow is `gate` for a process that has opened the context of its request already."""

    async def of_context(request: GateRequest) -> State[Any]:
        return await _gate(request, with_own_store(context))

    return Flow(of_context, flow_run_name=context.gate.title, **FLOW)


async def gate_below(request: GateRequest, context: GateContext | None = None) -> State[Any]:
    """The gate as a run below another one: a deployment's tags do not reach it, and automations are scoped by ours."""
    with tags(TAG):
        return await (opened_gate(context) if context else gate)(request, return_state=True)


async def _gate(request: GateRequest, context: GateContext | None = None) -> State[Any]:
    run_id = str(runtime.flow_run.id)
    try:
        session = open_session(
            request, run_id, was_resumed(), context, on_expired=close_expired_gate, run_over=run_is_final
        )
    except REJECTIONS as error:
        await publish_rejection(error)
        emit_rejected(request, run_id, error)
        return finish.reject_request(error)
    # The messages end last: a chat service that does not answer keeps no job running.
    with live_messages(session), session, logged_stages():
        try:
            if session.open_question is None:
                await publish_start(session)
                emit_started(session)
            await check_notifiers(session)
            run = _run_in_job if session.in_job else _run
            outcome = await run(session, request)
        except RunCancelled:
            return await end_cancelled_gate(session)
        except asyncio.CancelledError:
            note_interruption(session)
            raise
        except Exception as error:  # noqa: BLE001 - whatever broke, people are notified as of any other end
            outcome = finish.defect_outcome(session, error)
        try:
            return await finish.finish_gate(session, outcome)
        except asyncio.CancelledError:
            note_interruption(session, outcome)
            raise


async def _run(session: Session, request: GateRequest) -> GateOutcome:
    published, no_gos = None, 0
    try:
        while True:
            judged, published = await load_resumed_verdict(session) or await _verdict(session)
            if not session.launches:
                return finish.checked_outcome(session, judged, published)
            answer = await ask_for_approval(session, judged, request.advanced.ask_minutes)
            if await rerun_checks(session, answer):
                continue
            if not finish.may_launch(session, judged, answer):
                no_gos += 1
                if await provision.exclude_failed(session, judged, answer, no_gos):
                    continue
                return finish.refused_outcome(session, judged, published, answer)
            result = await _train(session, judged, request.wait)
            if result is not None:
                return finish.launched_outcome(session, judged, published, answer, result)
            published = None
    except finish.SESSION_ERRORS as error:
        return finish.failed_outcome(session, error, published)


async def _train(session: Session, judged: JudgedReport, wait: Wait) -> LaunchResult | None:
    """Run the training once it has machines; None if the machines that passed are gone, and the checks begin again."""
    while await wait_for_pool(session, judged):
        try:
            job = await launch_training(session, opaque(judged))
            await finish.notify_launch(session, judged)
            return await follow_training(session, opaque(judged), job, wait)
        except NoCapacity as error:
            session.training = ""
            await provision.wait_for_training(session, error)
    return None


async def _verdict(session: Session) -> tuple[JudgedReport, PublishedReport]:
    judged = await reuse_pass(session) or await _check(session)
    published = await publish_report(session, opaque(judged))
    await run_to_end(keep_pass, session, judged, time.time())
    await export_report(session, judged)
    return with_past(judged, published), published


async def _check(session: Session) -> JudgedReport:
    while True:
        try:
            watched = await wait_for_checks(session, await provision.submit_checks(session))
            report = await collect_report(session, opaque(watched))
            session.waiting_since = None
            return await judge_report(session, opaque(report))
        except NoCapacity as error:
            await provision.wait_for_machines(session, error)


async def _run_in_job(session: Session, request: GateRequest) -> GateOutcome:
    published, starts, minutes = None, JobStarts(), request.advanced.ask_minutes
    try:
        judged = await _first_start(session, starts, minutes)
        while True:
            published = await publish_report(session, opaque(judged))
            judged = with_past(judged, published)
            await export_report(session, judged)
            await compare_with_nodes(session, judged, starts)
            answer = await hand_answer_to_nodes(session, judged, starts, minutes)
            if await rerun_checks(session, answer):
                starts = JobStarts()
                judged = await _first_start(session, starts, minutes)
                continue
            if finish.may_launch(session, judged, answer):
                await finish.notify_launch(session, judged)
                result = await follow_start(session, judged, starts, request.wait)
                if result is not None:
                    name_spares(session, judged)
                    return finish.launched_outcome(session, judged, published, answer, result)
            elif not (
                await follow_chosen(session, judged, starts)
                or await wait_for_restart(session, judged, starts)
            ):
                if await provision.exclude_failed(session, judged, answer, starts.no_gos):
                    starts = JobStarts(starts.no_gos)
                    judged = await _first_start(session, starts, minutes)
                    continue
                return finish.refused_outcome(session, judged, published, answer, starts.note)
            judged = await next_start(session, session.checking, starts)
    except RunCancelled:  # whoever cancels does not wait for what its nodes wrote
        raise
    except Exception as error:
        await note_training(session)
        if not isinstance(error, finish.SESSION_ERRORS):
            raise
        return finish.failed_outcome(session, error, published)


async def _first_start(session: Session, starts: JobStarts, minutes: int) -> JudgedReport:
    while True:
        try:
            job = await provision.submit_gated_job(session, minutes)
            return await next_start(session, job, starts)
        except NoCapacity as error:
            await provision.wait_for_machines(session, error)
