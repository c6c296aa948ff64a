"""Ends what a dead run left behind: jobs, machines, lock. Automations start it, and so can anybody who doubts that a run is alive."""

from __future__ import annotations

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Crashed

from tasks.gate.blocking_calls import opaque
from tasks.gate.context import GateContext
from tasks.notifiers.base import PageKind
from tasks.orchestration.runs import GateRun
from tasks.orchestration.stage_log import filter_end_lines
from tasks.reap import (
    NotCleared,
    ReapAction,
    ReapCause,
    ReapResult,
    context_of_run,
    crash_message,
    examine_run,
    final_state,
    gates_about,
    handle_waiting_run,
    jobs_of,
    mark_ended,
    notify_owner,
    successor_of,
)

LATE = (
    "no worker has started run {run}: nothing was checked, and nothing was launched. "
    "See that a worker of its work pool runs: docs/server.md, Start a worker"
)


def run_name() -> str:
    """A sentence: "reap 0190c0de-..., silent"."""
    parameters = runtime.flow_run.parameters
    return f"reap {parameters.get('flow_run_id')}, {parameters.get('why')}"


@flow(name="reap", flow_run_name=run_name, persist_result=False, retries=0)
async def reap(flow_run_id: str, why: ReapCause = "asked") -> State[Any]:
    """Ends what a dead run left behind: its jobs and machines, and gives its lock back. A run that lives is left alone.

    Args:
        flow_run_id: The id of the flow run of a gate or a commissioning.
        why: What made somebody look: no heartbeat, late, crashed, cancelled, a question's deadline, or a person.
    """
    filter_end_lines()
    done: list[ReapResult] = []
    for run in await gates_about(flow_run_id):
        # A commissioning holds no lock of its own; its gates come first.
        busy = run.leads and why == "silent" and any(result.lives for result in done)
        done.append(
            ReapResult(run.name, "is alive, because one of its gates is", acted=False)
            if busy
            else await _reap_run(run, why)
        )
    return final_state(flow_run_id, done)


async def _reap_run(run: GateRun, cause: ReapCause) -> ReapResult:
    try:
        context = context_of_run(run)
    except NotCleared as error:
        if run.state == "Rejected" and run.starts <= 1:
            # Within a moment: its first heartbeat came after its end, which looks like silence.
            return ReapResult(run.name, "was rejected before it started anything", acted=False)
        return ReapResult(run.name, str(error), left=str(error))
    advice = await examine_run(run, opaque(context), cause)
    if advice.act is ReapAction.LEAVE:
        return ReapResult(run.name, advice.reason, acted=False, lives=advice.lives)
    if advice.act is ReapAction.WAKE:
        return await handle_waiting_run(run, context, advice.reason)
    if advice.act is ReapAction.LATE:
        notified = await notify_owner(run, opaque(context), PageKind.LATE, LATE.format(run=run.name))
        return ReapResult(run.name, f"{advice.reason}; {notified}")
    if advice.act is ReapAction.CRASH:
        return await _crashed(run, context, advice.reason)
    cancels = advice.act is ReapAction.CANCEL and not await mark_ended(run, Cancelled(message=advice.reason))
    done, left = ("it has ended in the meantime", "") if cancels else await jobs_of(run, context, paged=False)
    return ReapResult(run.name, f"{advice.reason}; {done}", left=left)


async def _crashed(run: GateRun, context: GateContext, cause: str) -> ReapResult:
    if heir := await successor_of(run, context):  # which notifies people of the gate's end, as of any other
        ended = await mark_ended(run, Crashed(message=f"This run {cause}; {heir}."))
        return ReapResult(run.name, f"{cause}; {heir}", acted=ended)
    if not await mark_ended(run, Crashed(message=crash_message(run, cause))):
        return ReapResult(run.name, "has ended in the meantime", acted=False)
    done, left = await jobs_of(run, context, paged=not run.leads)
    notified = (
        "its gates send the notifications"
        if run.leads
        else await notify_owner(run, opaque(context), PageKind.CRASHED, f"its run {cause}; {done}")
    )
    return ReapResult(run.name, f"{cause}; {done}; {notified}", left=left)
