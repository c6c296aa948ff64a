"""The gate: check the cluster, decide, then launch the training, ask a person, or page one."""

from __future__ import annotations

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from tasks.agreeing import agree, answered
from tasks.ask import ask
from tasks.collect import collect
from tasks.ending import SESSION_ERRORS, end, failed, launched, may_launch, refused, rejected, stopped
from tasks.gated import again, follow_start, next_start
from tasks.handing import hand_out
from tasks.judge import judge
from tasks.launch import follow_training, launch
from tasks.launchers.base import NoCapacity
from tasks.outcome import Judged, Outcome
from tasks.patience import wait_for_machines
from tasks.placing import held
from tasks.provision import provision, provision_gated
from tasks.publish import publish
from tasks.request import GateRequest
from tasks.session import REJECTIONS, Session, end_run, open_session
from tasks.starts import Starts
from tasks.stop import StopAsked
from tasks.title import run_title
from tasks.verdicts import remember, reusable
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
        request: Which gate file, and how long to wait.
    """
    try:
        session = open_session(request, str(runtime.flow_run.id))
    except REJECTIONS as error:
        return rejected(error)
    with session:
        try:
            run = _run_in_job if session.in_job else _run
            return await end(session, await run(session, request))
        except StopAsked as error:
            return stopped(error)


async def _run(session: Session, request: GateRequest) -> Outcome:
    published = None
    try:
        while True:
            judged = await reusable(session) or await _check(session)
            published = await publish(session, judged)
            await remember(session, judged)
            await hand_out(session, judged)
            answer = await ask(session, judged, request.advanced.ask_minutes)
            if not may_launch(session, judged, answer):
                return refused(session, judged, published, answer)
            if await held(session, judged):
                job = await launch(session, judged)
                seen = await follow_training(session, judged, job, request.wait)
                return launched(session, judged, published, answer, seen)
            published = None
    except SESSION_ERRORS as error:
        return failed(session, error, published)


async def _check(session: Session) -> Judged:
    while True:
        try:
            job = await provision(session)
            report = await collect(session, await watch(session, job))
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
