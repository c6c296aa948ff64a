"""The gate: check the cluster, decide, then launch the training, ask a person, or page one."""

from __future__ import annotations

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from tasks.ask import ask
from tasks.collect import collect
from tasks.ending import SESSION_ERRORS, end, failed, launched, may_launch, refused, rejected, stopped
from tasks.judge import judge
from tasks.launch import follow_training, launch
from tasks.outcome import Judged, Outcome
from tasks.provision import provision
from tasks.publish import publish
from tasks.request import GateRequest
from tasks.session import REJECTIONS, Session, end_run, open_session
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
            return await end(session, await _run(session, request))
        except StopAsked as error:
            return stopped(error)


async def _run(session: Session, request: GateRequest) -> Outcome:
    published = None
    try:
        judged = await reusable(session) or await _check(session)
        published = await publish(session, judged)
        await remember(session, judged)
        answer = await ask(session, judged, request.advanced.ask_minutes)
        if not may_launch(session, judged, answer):
            return refused(session, judged, published, answer)
        job = await launch(session, judged)
        seen = await follow_training(session, job, request.wait)
        return launched(session, judged, published, answer, seen)
    except SESSION_ERRORS as error:
        return failed(session, error, published)


async def _check(session: Session) -> Judged:
    job = await provision(session)
    report = await collect(session, await watch(session, job))
    return await judge(session, report)
