"""While the engine has no machines: ask again, more and more seldom, for as long as the gate file says."""

from __future__ import annotations

import asyncio
import time

from tasks.launchers.base import NoCapacity
from tasks.progress import Progress, tell
from tasks.session import Session
from tasks.stop import StopWatch, guard
from tasks.threads import to_end

FIRST_S = 30.0
LONGEST_S = 600.0
LOOK_S = 1.0


async def wait_for_machines(session: Session, error: NoCapacity) -> None:
    """Return when the next attempt may be submitted. Raises `error` where the time for that is over."""
    now = time.monotonic()
    since = session.waiting_since = session.waiting_since or now
    limit_s = session.setting.gate.cluster.capacity_wait_minutes * 60
    waited = now - since
    if waited >= limit_s:
        raise error
    pause = min(LONGEST_S, max(FIRST_S, waited), limit_s - waited)  # twice as long each time
    tell(Progress("capacity", f"{error} Asked again in {pause:.0f} s."))
    await _sleep(session, pause)
    await to_end(session.begin_again)


async def _sleep(session: Session, seconds: float) -> None:
    stop, until = StopWatch(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        await guard(session, stop)
        await asyncio.sleep(min(LOOK_S, left))
