"""What a dead run left is ended: jobs, machines, lease. Started by automations, and by whoever doubts that a run lives."""

from __future__ import annotations

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Crashed

from tasks.clearing import (
    Done,
    NotCleared,
    concluded,
    examine,
    gates_about,
    jobs_of,
    mark,
    page_crash,
    page_late,
    setting_of,
    woken,
)
from tasks.reaping import Act, Why
from tasks.runs import GateRun
from tasks.setting import Setting


def run_name() -> str:
    """A sentence: "reap 0190c0de-..., silent"."""
    given = runtime.flow_run.parameters
    return f"reap {given.get('flow_run_id')}, {given.get('why')}"


@flow(name="reap", flow_run_name=run_name, persist_result=False)
async def reap(flow_run_id: str, why: Why = "asked") -> State[Any]:
    """Ends what a dead run left behind: its jobs, its machines, its lease. A run that lives is left alone.

    Args:
        flow_run_id: The id of the flow run of a gate or a commissioning.
        why: What made somebody look: no heartbeat, late, crashed, cancelled, a question's deadline, or a person.
    """
    done: list[Done] = []
    for run in await gates_about(flow_run_id):
        # A commissioning holds no lease of its own; its gates come first.
        busy = run.leads and why == "silent" and any(one.lives for one in done)
        done.append(Done(run.name, "lives: a gate of it does", acted=False) if busy else await _one(run, why))
    return concluded(flow_run_id, done)


async def _one(run: GateRun, why: Why) -> Done:
    try:
        setting = setting_of(run)
    except NotCleared as error:
        if run.state == "Rejected" and run.starts <= 1:
            # Within a moment: its first heartbeat came after its end, which looks like silence.
            return Done(run.name, "was rejected before it started anything", acted=False)
        return Done(run.name, str(error), left=str(error))
    found = await examine(run, setting, why)
    if found.act is Act.LEAVE:
        return Done(run.name, found.why, acted=False, lives=found.lives)
    if found.act is Act.WAKE:
        return await woken(run, setting, found.why)
    if found.act is Act.LATE:
        return Done(run.name, f"{found.why}; {await page_late(run, setting)}")
    if found.act is Act.CRASH:
        return await _crashed(run, setting, found.why)
    cancels = found.act is Act.CANCEL and not await mark(run, Cancelled(message=found.why))
    done, left = ("it ended meanwhile", "") if cancels else await jobs_of(run, setting, paged=False)
    return Done(run.name, f"{found.why}; {done}", left=left)


async def _crashed(run: GateRun, setting: Setting, why: str) -> Done:
    if not await mark(run, Crashed(message=f"This run {why}.")):
        return Done(run.name, "ended meanwhile", acted=False)
    done, left = await jobs_of(run, setting, paged=not run.leads)
    told = "its gates tell" if run.leads else await page_crash(run, setting, why, done)
    return Done(run.name, f"{why}; {done}; {told}", left=left)
