"""While the engine has no machines: ask again, more and more seldom, for as long as the gate file says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tasks.launchers.base import NoCapacity
from tasks.placing import ROUNDS, kept_now, pool_waits
from tasks.progress import Progress, tell
from tasks.session import Session
from tasks.stop import StopWatch, guard
from tasks.threads import to_end

FIRST_S = 30.0
LONGEST_S = 600.0
LOOK_S = 1.0


async def wait_for_machines(session: Session, error: NoCapacity) -> None:
    """Return when the next attempt may be submitted. Raises `error` where the time for that is over."""
    pause = _pause(session, error)
    tell(Progress("capacity", f"{error} Asked again in {pause:.0f} s."))
    await _sleep(session, pause)
    await to_end(session.begin_again)


async def wait_for_training(session: Session, error: NoCapacity) -> None:
    """The same for the training after a go, whose machines may be kept meanwhile, and paid for.

    It returns early where they are kept no longer: the checks begin again, or, where they did before, NoCapacity is raised.
    """
    pause = _pause(session, error)
    kept = await to_end(pool_waits, session)
    tell(
        Progress(
            "capacity", f"{error} Asked again in {pause:.0f} s. {kept_now(session) if kept else ''}".strip()
        )
    )
    if await _sleep(session, pause, lambda: not kept or pool_waits(session)):
        await to_end(session.train_again)
    elif session.rounds >= ROUNDS:
        raise NoCapacity(f"{error} The machines that passed are kept no longer.") from error


def _pause(session: Session, error: NoCapacity) -> float:
    """Seconds until the next attempt. Raises `error` where there is no time for one."""
    now = time.monotonic()
    since = session.waiting_since = session.waiting_since or now
    limit_s = session.setting.gate.cluster.capacity_wait_minutes * 60
    waited = now - since
    if waited >= limit_s:
        raise error
    return min(LONGEST_S, max(FIRST_S, waited), limit_s - waited)  # twice as long each time


async def _sleep(session: Session, seconds: float, goes_on: Callable[[], bool] = lambda: True) -> bool:
    """Whether it was slept to its end: at each look `goes_on` may end it."""
    stop, until = StopWatch(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        await guard(session, stop)
        if not await to_end(goes_on):
            return False
        await asyncio.sleep(min(max(LOOK_S, session.setting.launcher.poll_s), left))
    return await to_end(goes_on)
