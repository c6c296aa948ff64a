"""What a dead run left is cleared away: its jobs end, its machines are let go, its lease is given back, its gate's owner
hears once.

A state that is changed on the server runs no hook of the flow, so nobody else would do it. Everything follows from the
flow run's id: its parameters name the gate, the lease names the jobs. What was done is not done again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.client.schemas.responses import SetStateStatus
from prefect.logging import get_logger
from prefect.states import Completed, Failed

from tasks import lease as leases
from tasks import runs
from tasks.deliver import still_paid
from tasks.events import Event, about, emit
from tasks.gateread import GateFileError
from tasks.launchers.base import LaunchError
from tasks.lease import LeaseError, LeaseLost
from tasks.notifiers.base import Kind
from tasks.overdue import wake
from tasks.owner import this_process
from tasks.reaping import Judged, Why, look
from tasks.runpage import page_run
from tasks.runs import GateRun
from tasks.session import cancel_jobs
from tasks.setting import Setting, open_setting
from tasks.store.base import StoreError
from tasks.threads import to_end

LOG = get_logger("prelaunch")
# An engine that does not answer is asked again for as long; whatever may then still run is told to a person.
RETRIES_S = [10.0, 30.0, 60.0]
UNCLEAR = (LaunchError, LeaseError, StoreError)


class NotCleared(Exception):
    """Something of a dead run is left; the message says what, and the remedy."""


@dataclass(frozen=True)
class Done:
    """What became of one run. `left` says what could not be done, "" for nothing."""

    name: str
    said: str
    acted: bool = True
    left: str = ""
    lives: bool = False


async def gates_about(flow_run_id: str) -> tuple[GateRun, ...]:
    """The gates of a flow run; () where the server knows no such run, or it is none of ours."""
    async with get_client() as client:
        run = await runs.find(client, flow_run_id)
        return await runs.gates_of(client, run) if run is not None else ()


def setting_of(run: GateRun) -> Setting:
    """The setting of its gate. Raises NotCleared."""
    try:
        if run.request is not None:
            return open_setting(run.request)
        why = run.unread
    except GateFileError as error:
        why = str(error)
    raise NotCleared(
        f"what it was asked for cannot be read on this machine: {why}. Start reap where its gate file lies."
    )


@task(retries=3, retry_delay_seconds=RETRIES_S, cache_policy=NO_CACHE, task_run_name="look at {run.name}")
async def examine(run: GateRun, setting: Setting, why: Why) -> Judged:
    """Whether it is dead, and what is to be done."""
    found = await look(run, setting, why)
    LOG.info("run %s %s: %s", run.name, found.why, found.act.value)
    return found


@task(
    retries=3,
    retry_delay_seconds=RETRIES_S,
    cache_policy=NO_CACHE,
    task_run_name="end the jobs of {run.name}",
)
async def end_jobs(run: GateRun, setting: Setting) -> str:
    """End its jobs, let its machines go, give its lease back. What was done, "" for nothing.

    Raises LaunchError, StoreError, LeaseError: the lease stays, so that whoever wants the cluster ends the jobs first.
    """
    return await to_end(_end_jobs, setting, run.flow_run_id)


@task(retries=3, retry_delay_seconds=RETRIES_S, cache_policy=NO_CACHE, task_run_name="page about {run.name}")
async def page_crash(run: GateRun, setting: Setting, why: str, done: str) -> str:
    """Its gate's owner hears, once a run. Who was told, in words."""
    return await _page(run, setting, Kind.CRASHED, f"its run {why}; {done}")


@task(retries=3, retry_delay_seconds=RETRIES_S, cache_policy=NO_CACHE, task_run_name="page about {run.name}")
async def page_late(run: GateRun, setting: Setting) -> str:
    """Its gate's owner hears, once a run. Who was told, in words."""
    said = (
        f"nobody began run {run.name}: nothing was checked, and nothing was launched. "
        "See that a worker of its pool runs: prefect worker start --pool prelaunch"
    )
    return await _page(run, setting, Kind.LATE, said)


@task(retries=3, retry_delay_seconds=RETRIES_S, cache_policy=NO_CACHE, task_run_name="wake {run.name}")
async def wake_run(run: GateRun, setting: Setting) -> str:
    """What becomes of a question that nobody answered, or of a run that ended while it waited; "" for nothing."""
    return await to_end(wake, setting, run.flow_run_id)


async def woken(run: GateRun, setting: Setting, why: str) -> Done:
    """A run that waits for a person is let wait, or closed where its time is up or it has ended."""
    try:
        said = await wake_run(run, setting)
    except UNCLEAR as error:
        left = f"its jobs may still run, and its cluster stays held: {error}"
        await to_end(still_paid, setting, _nameless(run, setting), (left,))
        return Done(run.name, left, left=left)
    return Done(run.name, said or why, acted=bool(said))


async def mark(run: GateRun, state: State[Any]) -> bool:
    """Give the run this end, unless it has another. Whether it is what it has."""
    async with get_client() as client:
        answer = await client.set_flow_run_state(UUID(run.flow_run_id), state)
        if answer.status is SetStateStatus.ACCEPT:
            return True
        now = (await client.read_flow_run(UUID(run.flow_run_id))).state
    return now is not None and now.type is state.type


async def jobs_of(run: GateRun, setting: Setting, paged: bool) -> tuple[str, str]:
    """What was done about its jobs, and what is left ("" for nothing): that is paged here, unless it is `paged` anyway."""
    try:
        return await end_jobs(run, setting) or "it had no jobs", ""
    except UNCLEAR as error:
        left = f"its jobs may still run, and be paid for: {error}"
    if not paged:
        await to_end(still_paid, setting, _nameless(run, setting), (left,))
    return left, left


def concluded(flow_run_id: str, done: list[Done]) -> State[Any]:
    """The state of the reaper's own run; its message says all."""
    said = (
        "; ".join(f"{one.name}: {one.said}" for one in done)
        or f"run {flow_run_id} is no gate that is known here"
    )
    if any(one.left for one in done):
        LOG.error(said)
        return Failed(name="NotReaped", message=said, data=NotCleared(said))
    LOG.info(said)
    return Completed(name="Reaped" if any(one.acted for one in done) else "LeftAlone", message=said)


def _nameless(run: GateRun, setting: Setting) -> str:
    """What stands for a gate's id where the run may never have had one."""
    return f"{setting.gate.name}-run-{run.flow_run_id[:8]}"


async def _page(run: GateRun, setting: Setting, kind: Kind, said: str) -> str:
    async with get_client() as client:
        known = await runs.announced(client, run.flow_run_id)
    gate_id = known.gate_id if known is not None else ""
    event = Event.LATE if kind is Kind.LATE else Event.CRASHED
    where = await to_end(page_run, setting, run.flow_run_id, gate_id, kind, said)
    if where is None:
        return "told before"
    emit(event, about(setting, gate_id, run.flow_run_id), {"headline": said})
    return f"told: {where}" if where else "nobody could be told"


def _end_jobs(setting: Setting, flow_run_id: str) -> str:
    held = leases.of_run(setting.store, flow_run_id)
    if held is None:
        return ""
    try:
        mine = leases.come_back(setting.store, held, this_process(flow_run_id), time.time())
    except LeaseLost:
        return "somebody else has taken its jobs over"
    try:
        cancel_jobs(mine.lease)
    except LaunchError:
        leases.come_back(
            setting.store, mine, held.lease.owner, time.time()
        )  # whoever looks next finds it dead
        raise
    leases.release(setting.store, mine)
    return f"its jobs were ended, cluster {held.lease.cluster} is free"
