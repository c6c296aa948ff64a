"""Whether a flow run is dead, and what is to be done about it. A run whose process lives is left alone.

Silence of one kind alone says nothing: a lease that is renewed outweighs heartbeats that are missing.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Literal

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType

from tasks import lease as leases
from tasks import runs
from tasks.life import LOOK_S, Life, life_of
from tasks.runs import GateRun
from tasks.setting import Setting
from tasks.threads import to_end

Why = Literal["silent", "late", "crashed", "cancelled", "deadline", "asked"]
# A process at Prefect's default gives a sign of life every 180 s; it must not be taken for dead where no lease says otherwise.
SILENT_S = 200.0
# Another reaper, or the dying process itself, may be ending the jobs of a run that crashed.
SETTLE_S = 120.0
# A hook begins within seconds of the crash, in a process that imports the flow first.
PUT_BACK_S = 60.0


class Act(Enum):
    """What is to be done about a run. CRASH, CANCEL: its process is gone, and that is its end. CLEAR: it ended, and left its
    lease. WAKE: it waits for a person, who may be too late. LATE: nobody began it.
    """

    LEAVE = "left alone"
    CRASH = "crashed"
    CANCEL = "cancelled"
    CLEAR = "cleared"
    WAKE = "woken"
    LATE = "late"


@dataclass(frozen=True)
class Judged:
    """What is to be done, and why, in words that follow the run's name."""

    act: Act
    why: str
    lives: bool = False


def judge(why: Why, kind: StateType, name: str, life: Life) -> Judged:
    """What is to be done about a run in this state (pure)."""
    if why == "late":
        late = kind is StateType.SCHEDULED and name == "Late"
        return Judged(Act.LATE, "nobody began it") if late else Judged(Act.LEAVE, f"is {name} now")
    if why == "deadline" or life is Life.PARKED:
        return Judged(Act.WAKE, f"is {name}, and waits for a person")
    if life is Life.LIVES:
        return Judged(Act.LEAVE, "lives: its process renews its lease, or is seen", lives=True)
    if kind in (StateType.COMPLETED, StateType.SCHEDULED):
        return Judged(Act.LEAVE, f"is {name}")
    if kind in (StateType.FAILED, StateType.CANCELLED):
        return Judged(Act.CLEAR if life is Life.GONE else Act.LEAVE, f"ended {name}")
    if kind is StateType.CANCELLING:
        return Judged(Act.CANCEL, "was to be cancelled, and its process is gone")
    return Judged(
        Act.CRASH,
        "crashed" if kind is StateType.CRASHED else "gives no sign of life, and its process is gone",
    )


async def look(run: GateRun, setting: Setting, why: Why) -> Judged:
    """What is to be done about the run now. Waits until that is known: minutes at most. Raises StoreError, LeaseError."""
    life = Life.FREE if why in ("late", "deadline") else await _life(run, setting, why)
    state = await _state(run.flow_run_id)
    if state is None:
        return Judged(Act.LEAVE, "is not known to the server any more")
    return judge(why, state.type, state.name or state.type.value, life)


async def _put_back(run: GateRun) -> None:
    """A run whose process was killed while it waited is Crashed until the gate's own hook lets it wait on."""
    until = time.monotonic() + PUT_BACK_S
    while time.monotonic() < until:
        state = await _state(run.flow_run_id)
        if state is None or not state.is_crashed():
            return
        await asyncio.sleep(LOOK_S)


async def _parked(run: GateRun, setting: Setting) -> bool:
    """Whether it waits for a person. One that went on has no question any more, or is Running."""
    held, state = await to_end(leases.of_run, setting.store, run.flow_run_id), await _state(run.flow_run_id)
    going = state is not None and (state.is_running() or state.is_pending())
    return held is not None and held.lease.asking is not None and not going


async def _life(run: GateRun, setting: Setting, why: Why) -> Life:
    until = time.monotonic() + SETTLE_S
    if await _parked(run, setting):
        await _put_back(run)
        return Life.PARKED
    life = await life_of(setting.store, run.flow_run_id)
    while why == "crashed" and life is Life.LIVES and time.monotonic() < until:
        await asyncio.sleep(LOOK_S)  # it may be about to end its jobs
        life = await life_of(setting.store, run.flow_run_id)
    if life is Life.FREE and not await silent(run.flow_run_id):
        return Life.LIVES
    return life


async def silent(flow_run_id: str) -> bool:
    """Whether a run that holds no lease gives no sign of life for longer than any process may be silent; waits for that."""
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
        run = await runs.find(client, flow_run_id)
    return run.state if run is not None else None
