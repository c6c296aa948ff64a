"""Verdicts of before: whether one may stand for this gate, and whether this one may stand for the next."""

from __future__ import annotations

import time

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks import reuse
from tasks.launchers.base import JobState
from tasks.lease import CHECK, TRAIN
from tasks.outcome import Judged
from tasks.progress import Progress, tell
from tasks.session import Session
from tasks.threads import to_end


@task(cache_policy=NO_CACHE, task_run_name="look for a fresh PASS")
async def reusable(session: Session) -> Judged | None:
    """A verdict that makes checking needless. Where there is none, an older PASS is void from here on."""
    found = await to_end(look, session)
    if found is not None:
        session.judged = found
        tell(Progress("checks", f"PASS of {found.reused} from {found.report.measured_at} reused", 1, 1))
    return found


@task(cache_policy=NO_CACHE, task_run_name="remember the verdict")
async def remember(session: Session, judged: Judged) -> None:
    """Let a PASS stand for later gates; anything else makes an older one void."""
    await to_end(reuse.keep, session, judged, time.time())


def look(session: Session) -> Judged | None:
    """What may stand; an adopted gate goes on from where its predecessor was."""
    lease, state = session.keeper.lease, session.setting.launcher.state
    if lease.adopted and state(lease.job(CHECK)).state is not JobState.UNKNOWN:
        return None
    if lease.adopted and state(lease.job(TRAIN)).state is not JobState.UNKNOWN:
        return reuse.own(session)
    found = reuse.find(session, time.time())
    if found is None:
        reuse.forget(session)
    return found
