"""Verdicts of before: whether one may stand for this gate, and whether this one may stand for the next."""

from __future__ import annotations

import time

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks import reuse
from tasks.left import left
from tasks.outcome import Judged
from tasks.progress import Progress, tell
from tasks.session import Session
from tasks.threads import to_end


@task(cache_policy=NO_CACHE, task_run_name="look for a fresh PASS")
async def reusable(session: Session) -> Judged | None:
    """A verdict that makes checking needless. Where there is none, an older PASS is void from here on."""
    found = await look(session)
    if found is not None:
        session.judged = found
        tell(Progress("checks", f"PASS of {found.reused} from {found.report.measured_at} reused", 1, 1))
    return found


@task(cache_policy=NO_CACHE, task_run_name="remember the verdict")
async def remember(session: Session, judged: Judged) -> None:
    """Let a PASS stand for later gates; anything else makes an older one void."""
    await to_end(reuse.keep, session, judged, time.time())


async def look(session: Session) -> Judged | None:
    """What may stand; an adopted gate goes on from where its predecessor was. Who asks for checks alone gets checks."""
    if not session.launches:
        return None
    if session.keeper.lease.adopted:
        there = await left(session)
        if not there.check.absent:
            return None
        if not there.train.absent:
            return await to_end(reuse.own, session)
    return await to_end(_fresh, session)


def _fresh(session: Session) -> Judged | None:
    found = reuse.find(session, time.time())
    if found is None:
        reuse.forget(session)
    return found
