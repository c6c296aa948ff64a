"""Cleans up after a dead run: its jobs are ended, its machines and its lock are released, and its gate's owner is notified once.

If somebody changes a run's state on the server no hook of the flow runs, so nobody else would do it. Everything follows from the
flow run's id: its parameters name the gate, and the lock names the jobs. What was done is not done again.

A run whose process is alive is left alone. One missing sign of life proves nothing: if the lock is still renewed, missing
heartbeats do not count.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Literal
from uuid import UUID

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.logging import get_logger
from prefect.states import Completed, Failed

from tasks.expire import expire_question
from tasks.gate.blocking_calls import opaque, run_to_end
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import LeaseError, taken_over
from tasks.gate.lease.renewal import LOOK_S, RunLiveness, liveness_of
from tasks.gate.session import end_held_jobs
from tasks.gate_file.read import GateFileError
from tasks.launchers.base import LaunchError
from tasks.notifiers.base import PageKind
from tasks.notifiers.deliver import still_paid
from tasks.orchestration import runs
from tasks.orchestration.events import GateEvent, emit_gate_event
from tasks.orchestration.runs import GateRun
from tasks.page import notify_run
from tasks.store.base import StoreError

LOG = get_logger("prelaunch")
ReapCause = Literal["silent", "late", "crashed", "cancelled", "deadline", "asked"]
# A process at Prefect's default gives a sign of life every 180 s; it must not be taken for dead where no lock says otherwise.
SILENT_S = 200.0
# Another reaper, or the dying process itself, may be ending the jobs of a run that crashed.
SETTLE_S = 120.0
# An engine that does not answer is asked again for as long; whatever may then still run is told to a person.
RETRIES_S = [10.0, 30.0, 60.0]
UNCLEAR = (LaunchError, LeaseError, StoreError)


class ReapAction(Enum):
    """What has to be done about a run. CRASH, CANCEL: its process is gone, and that is its end. CLEAR: it ended, and left its
    lock. WAKE: it waits for a person, who may be too late. LATE: no worker has started it.
    """

    LEAVE = "not changed"
    CRASH = "crashed"
    CANCEL = "cancelled"
    CLEAR = "cleared"
    WAKE = "woken"
    LATE = "late"


@dataclass(frozen=True)
class RunAssessment:
    """What has to be done, and why, as words that follow the run's name in a sentence."""

    act: ReapAction
    reason: str
    lives: bool = False


def assess_state(cause: ReapCause, state_type: StateType, name: str, life: RunLiveness) -> RunAssessment:
    """What has to be done about a run in this state (pure)."""
    if cause == "late":
        late = state_type is StateType.SCHEDULED and name == "Late"
        return (
            RunAssessment(ReapAction.LATE, "no worker has started it")
            if late
            else RunAssessment(ReapAction.LEAVE, f"is {name} now")
        )
    if cause == "deadline" or life is RunLiveness.PARKED:
        return RunAssessment(ReapAction.WAKE, f"is {name}, and waits for approval")
    if life is RunLiveness.LIVES:
        return RunAssessment(
            ReapAction.LEAVE, "is alive: its process renews its lock, or was seen", lives=True
        )
    if state_type in (StateType.COMPLETED, StateType.SCHEDULED):
        return RunAssessment(ReapAction.LEAVE, f"is {name}")
    if state_type in (StateType.FAILED, StateType.CANCELLED):
        return RunAssessment(
            ReapAction.CLEAR if life is RunLiveness.GONE else ReapAction.LEAVE, f"ended {name}"
        )
    if state_type is StateType.CANCELLING:
        return RunAssessment(ReapAction.CANCEL, "was being cancelled, and its process is gone")
    return RunAssessment(
        ReapAction.CRASH,
        "crashed" if state_type is StateType.CRASHED else "has sent no heartbeat, and its process is gone",
    )


async def _parked(run: GateRun, context: GateContext) -> bool:
    """Whether the run waits for a person. A run that continued has no open question any more, or is Running."""
    held, state = (
        await run_to_end(leases.lease_of_run, context.store, run.flow_run_id),
        await _state(run.flow_run_id),
    )
    going = state is not None and (state.is_running() or state.is_pending())
    return held is not None and held.lease.asking is not None and not going


async def _life(run: GateRun, context: GateContext, cause: ReapCause) -> RunLiveness:
    until = time.monotonic() + SETTLE_S
    if await _parked(run, context):
        return RunLiveness.PARKED
    life = await liveness_of(context.store, run.flow_run_id)
    while cause in ("crashed", "cancelled") and life is RunLiveness.LIVES and time.monotonic() < until:
        await asyncio.sleep(LOOK_S)  # the run, or the hook of its end, may be about to end its jobs
        life = await liveness_of(context.store, run.flow_run_id)
    if life is RunLiveness.FREE and not await is_silent(run.flow_run_id):
        return RunLiveness.LIVES
    return life


async def is_silent(flow_run_id: str) -> bool:
    """Whether a run without a lock has given no sign of life for longer than any process may be silent; waits for that long."""
    begun = datetime.now(UTC)
    while True:
        since = datetime.now(UTC) - timedelta(seconds=SILENT_S)
        state = await _state(flow_run_id)
        if state is None or state.is_final() or state.is_scheduled():
            return True
        async with get_client() as client:
            beat = await runs.last_heartbeat(client, flow_run_id, since)
        if beat is not None and beat > begun:
            return False
        if beat is None and state.timestamp < since:
            return True
        await asyncio.sleep(LOOK_S)


async def _state(flow_run_id: str) -> State[None] | None:
    async with get_client() as client:
        run = await runs.find_run(client, flow_run_id)
    return run.state if run is not None else None


class NotCleared(Exception):
    """Something of a dead run is left; the message says what, and the remedy."""


@dataclass(frozen=True)
class ReapResult:
    """What became of one run. `left` says what could not be done, "" for nothing."""

    name: str
    sentence: str
    acted: bool = True
    left: str = ""
    lives: bool = False


async def gates_about(flow_run_id: str) -> tuple[GateRun, ...]:
    """The gates of a flow run; () if the server knows no such run, or if it is none of ours."""
    async with get_client() as client:
        run = await runs.find_run(client, flow_run_id)
        return await runs.gates_of(client, run) if run is not None else ()


def context_of_run(run: GateRun) -> GateContext:
    """The context of the run's gate. Raises NotCleared."""
    try:
        if run.request is not None:
            return open_gate_context(run.request)
        reason = run.unread
    except GateFileError as error:
        reason = str(error)
    message = f"its request cannot be read on this machine: {reason}. Start reap on a machine that has its gate file."
    raise NotCleared(message)


@task(retries=3, retry_delay_seconds=RETRIES_S, cache_policy=NO_CACHE, task_run_name="look at {run.name}")
async def examine_run(run: GateRun, context: GateContext, cause: ReapCause) -> RunAssessment:
    """Find out whether the run is dead, and what has to be done now; that may take minutes. Raises StoreError, LeaseError."""
    life = RunLiveness.FREE if cause in ("late", "deadline") else await _life(run, context, cause)
    state = await _state(run.flow_run_id)
    if state is None:
        assessment = RunAssessment(ReapAction.LEAVE, "is no longer known to the server")
    else:
        assessment = assess_state(cause, state.type, state.name or state.type.value, life)
    LOG.info("run %s %s: %s", run.name, assessment.reason, assessment.act.value)
    return assessment


@task(
    retries=3,
    retry_delay_seconds=RETRIES_S,
    cache_policy=NO_CACHE,
    task_run_name="end the jobs of {run.name}",
)
async def end_jobs(run: GateRun, context: GateContext) -> str:
    """End the run's jobs, and release its machines and its lock. Returns what was done, "" for nothing.

    Raises LaunchError, StoreError, LeaseError: then the lock stays, so that the next gate of the cluster ends the jobs first.
    """
    return await run_to_end(_end_jobs, context, run.flow_run_id)


@task(retries=3, retry_delay_seconds=RETRIES_S, cache_policy=NO_CACHE, task_run_name="page about {run.name}")
async def notify_owner(run: GateRun, context: GateContext, topic: PageKind, sentence: str) -> str:
    """Notify the gate's owner, once per run. Returns who was notified, for people."""
    async with get_client() as client:
        status = await runs.run_status(client, run.flow_run_id)
    gate_id = status.gate_id if status is not None else ""
    event = GateEvent.LATE if topic is PageKind.LATE else GateEvent.CRASHED
    where = await run_to_end(notify_run, context, run.flow_run_id, gate_id, topic, sentence)
    if where is None:
        return "already notified"
    emit_gate_event(event, context, gate_id, run.flow_run_id, {"headline": sentence})
    return f"notified: {where}" if where else "no notification could be delivered"


@task(retries=3, retry_delay_seconds=RETRIES_S, cache_policy=NO_CACHE, task_run_name="wake {run.name}")
async def expire_run_question(run: GateRun, context: GateContext) -> str:
    """Close a question that nobody answered, or a run that ended while it waited; returns what was done, "" for nothing."""
    return await run_to_end(expire_question, context, run.flow_run_id)


async def handle_waiting_run(run: GateRun, context: GateContext, reason: str) -> ReapResult:
    """Leave a run that waits for a person alone, or close it if its time is up or if it has ended."""
    try:
        notes = await expire_run_question(run, opaque(context))
    except UNCLEAR as error:
        left = f"its jobs may still run, and its cluster stays locked: {error}"
        await _notify_left(run, context, left)
        return ReapResult(run.name, left, left=left)
    return ReapResult(run.name, notes or reason, acted=bool(notes))


def crash_message(run: GateRun, cause: str) -> str:
    """What the state of a crashed run says: what became of the training that was requested, and what to do."""
    if run.request is None or not run.request.launch:
        return f"This run {cause}. Start a new run."
    return (
        f"This run {cause}. Its training was not handed over; reap ends what it had started. Start a new run."
    )


async def mark_ended(run: GateRun, state: State[Any]) -> bool:
    """Give the run this final state, unless it has another one. Returns whether the run now has this state."""
    async with get_client() as client:
        if (await client.set_flow_run_state(UUID(run.flow_run_id), state)).status is SetStateStatus.ACCEPT:
            return True
        now = (await client.read_flow_run(UUID(run.flow_run_id))).state
    return now is not None and now.type is state.type


async def successor_of(run: GateRun, context: GateContext) -> str:
    """What became of the run's gate in another run that took it over; "" if none did, or if that is not known."""
    async with get_client() as client:
        status = await runs.run_status(client, run.flow_run_id)
    if status is None or not status.gate_id:
        return ""
    try:
        cluster = context.gate.cluster.name
        return await run_to_end(taken_over, context.store, cluster, status.gate_id, run.flow_run_id)
    except UNCLEAR as error:
        LOG.warning("whether another run took over gate %s is not known: %s", status.gate_id, error)
        return ""


async def jobs_of(run: GateRun, context: GateContext, paged: bool) -> tuple[str, str]:
    """What was done about the run's jobs, and what is left ("" for nothing). The latter is notified here unless `paged`."""
    try:
        return await end_jobs(run, opaque(context)) or "it had no jobs", ""
    except UNCLEAR as error:
        left = f"its jobs may still run, and be billed: {error}"
    if not paged:
        await _notify_left(run, context, left)
    return left, left


def final_state(flow_run_id: str, done: list[ReapResult]) -> State[Any]:
    """The state of the reaper's own run; its message has everything."""
    message = (
        "; ".join(f"{result.name}: {result.sentence}" for result in done)
        or f"run {flow_run_id} is not a gate that is known here"
    )
    if any(result.left for result in done):
        return Failed(name="NotReaped", message=message, data=NotCleared(message))
    return Completed(name="Reaped" if any(result.acted for result in done) else "LeftAlone", message=message)


async def _notify_left(run: GateRun, context: GateContext, left: str) -> None:
    # The run may never have had a gate's id.
    nameless = f"{context.gate.name}-run-{run.flow_run_id[:8]}"
    await run_to_end(still_paid, context.gate, context.file, context.store, nameless, (left,))


def _end_jobs(context: GateContext, flow_run_id: str) -> str:
    held = leases.lease_of_run(context.store, flow_run_id)
    if held is None:
        return ""
    if not end_held_jobs(context.store, held):
        return "another gate has taken over its jobs"
    return f"its jobs were ended, cluster {held.lease.cluster} is free"
