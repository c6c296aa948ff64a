"""The gate: check the cluster, decide, then launch the training, ask a person, or page one."""

from __future__ import annotations

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from tasks.agreeing import agree, answered
from tasks.announce import announce_rejection, announce_start
from tasks.ask import ask, came_back, recheck
from tasks.board import board
from tasks.collect import collect
from tasks.ending import (
    SESSION_ERRORS,
    broken,
    checked,
    end,
    failed,
    launched,
    may_launch,
    refused,
    rejected,
    stopped,
)
from tasks.events import emit_cancelled, emit_rejected, emit_started
from tasks.gated import again, follow_start, next_start
from tasks.handing import hand_out
from tasks.judge import judge
from tasks.launch import Launched, follow_training, launch
from tasks.launchers.base import NoCapacity
from tasks.outcome import Judged, Outcome
from tasks.page import look_who_hears
from tasks.patience import wait_for_machines, wait_for_training
from tasks.placing import held
from tasks.provision import provision, provision_gated
from tasks.publish import Published, publish
from tasks.request import GateRequest, Wait
from tasks.session import REJECTIONS, Session, end_run, open_session
from tasks.starts import Starts
from tasks.stop import StopAsked
from tasks.title import run_title
from tasks.verdicts import remember, reusable
from tasks.waiting import resumed
from tasks.watch import watch


def run_name() -> str:
    """A sentence: "gate local: 2 nodes, quick"."""
    return run_title(runtime.flow_run.parameters)


def end_jobs(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Cancelled or crashed: no job of the run is left. It knows the run's id and parameters, nothing else."""
    end_run(GateRequest.model_validate(flow_run.parameters["request"]), str(flow_run.id))


@flow(
    name="gate",
    flow_run_name=run_name,
    on_cancellation=[end_jobs],
    on_crashed=[end_jobs],
    persist_result=False,
)
async def gate(request: GateRequest) -> State[Any]:
    """Checks the cluster, then launches the training job only if it is healthy.

    Args:
        request: Choose the gate file; the rest may stay as it is.
    """
    try:
        session = open_session(request, str(runtime.flow_run.id), resumed())
    except REJECTIONS as error:
        await announce_rejection(str(error))
        emit_rejected(request, str(runtime.flow_run.id), error)
        return rejected(error)
    with session, board(session):
        try:
            if session.asked is None:
                await announce_start(session)
                emit_started(session)
            await look_who_hears(session)
            run = _run_in_job if session.in_job else _run
            outcome = await run(session, request)
        except StopAsked as error:
            emit_cancelled(session, str(error))
            return stopped(error)
        except Exception as error:  # noqa: BLE001 - whatever broke, somebody hears of it as of any other end
            outcome = broken(session, error)
        return await end(session, outcome)


async def _run(session: Session, request: GateRequest) -> Outcome:
    published = None
    try:
        while True:
            judged, published = await came_back(session) or await _verdict(session)
            if not session.launches:
                return checked(session, judged, published)
            answer = await ask(session, judged, request.advanced.ask_minutes)
            if await recheck(session, answer):
                continue
            if not may_launch(session, judged, answer):
                return refused(session, judged, published, answer)
            seen = await _train(session, judged, request.wait)
            if seen is not None:
                return launched(session, judged, published, answer, seen)
            published = None
    except SESSION_ERRORS as error:
        return failed(session, error, published)


async def _train(session: Session, judged: Judged, wait: Wait) -> Launched | None:
    """The training, once it has machines; None where those that passed are gone, and the checks begin again."""
    while await held(session, judged):
        try:
            job = await launch(session, judged)
            return await follow_training(session, judged, job, wait)
        except NoCapacity as error:
            await wait_for_training(session, error)
    return None


async def _verdict(session: Session) -> tuple[Judged, Published]:
    judged = await reusable(session) or await _check(session)
    published = await publish(session, judged)
    await remember(session, judged)
    await hand_out(session, judged)
    return judged, published


async def _check(session: Session) -> Judged:
    while True:
        try:
            job = await provision(session)
            report = await collect(session, await watch(session, job))
            session.waiting_since = None
            return await judge(session, report)
        except NoCapacity as error:
            await wait_for_machines(session, error)


async def _run_in_job(session: Session, request: GateRequest) -> Outcome:
    published, starts, minutes = None, Starts(), request.advanced.ask_minutes
    try:
        judged = await _first_start(session, starts, minutes)
        while True:
            published = await publish(session, judged)
            await hand_out(session, judged)
            await agree(session, judged, starts)
            answer = await answered(session, judged, starts, minutes)
            if await recheck(session, answer):
                starts = Starts()
                judged = await _first_start(session, starts, minutes)
                continue
            if may_launch(session, judged, answer):
                seen = await follow_start(session, judged, starts, request.wait)
                if seen is not None:
                    return launched(session, judged, published, answer, seen)
            elif not await again(session, judged, starts):
                return refused(session, judged, published, answer, starts.said)
            judged = await next_start(session, session.checking, starts)
    except SESSION_ERRORS as error:
        return failed(session, error, published)


async def _first_start(session: Session, starts: Starts, minutes: int) -> Judged:
    while True:
        try:
            job = await provision_gated(session, minutes)
            return await next_start(session, job, starts)
        except NoCapacity as error:
            await wait_for_machines(session, error)
