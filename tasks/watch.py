"""Follow a job to its end: state by state, with a deadline, telling people how far it is."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.bundle import Bundle
from tasks import reports
from tasks.artifacts import Meter
from tasks.launchers.base import JobState, JobStatus, LaunchError
from tasks.lease import LeaseLost
from tasks.progress import Progress, tell
from tasks.reports import Tally
from tasks.session import Session
from tasks.stop import StopWatch
from tasks.threads import to_end

POLL_S = 0.2
SLOWEST_POLL_S = 5.0
GRACE_S = 30.0
UNKNOWN_S = 120.0


@dataclass(frozen=True)
class Watched:
    """The end of a job. `late` says why it was ended from here, "" where it ended by itself."""

    job: str
    status: JobStatus
    late: str = ""


@task(cache_policy=NO_CACHE, task_run_name="watch {job}")
async def watch(session: Session, job: str) -> Watched:
    """Wait for the health check; it is ended when it outlives its time."""
    bundle, meter = session.setting.bundle(session.gate_id), Meter(session.setting.gate.cluster.name)
    limit = session.setting.gate.checks.max_runtime_minutes * 60 + GRACE_S

    async def look(status: JobStatus) -> None:
        await to_end(fetch, session, job)
        seen = reports.tally(bundle, reports.read_files(session.folder / job, status.attempt))
        tell(Progress("checks", sentence(bundle, seen), seen.done, seen.total))
        await meter.show(100.0 * seen.done / max(seen.total, 1))

    watched = await follow(session, job, limit, look)
    await meter.finish()
    return watched


async def follow(
    session: Session,
    job: str,
    limit_s: float,
    look: Callable[[JobStatus], Awaitable[None]],
    enough: Callable[[JobStatus], bool] = lambda status: status.state.final,
) -> Watched:
    """Poll until `enough`, or until the time is up: then the job is ended. Raises LeaseLost, StopAsked."""
    launcher = session.setting.launcher
    begun = known = time.monotonic()
    stop = StopWatch()
    while True:
        await stop.check()
        if session.keeper.lost.is_set():
            raise LeaseLost(f"another gate took {session.setting.gate.cluster.name} over, and {job} with it.")
        status = await to_end(launcher.state, job)
        now = time.monotonic()
        known = now if status.state is not JobState.UNKNOWN else known
        await look(status)
        if status.state.final or enough(status):
            if status.state.final:
                session.let_go(job)
            return Watched(job, status)
        late = _late(now - begun, limit_s, now - known, status)
        if late:
            await to_end(launcher.cancel, job)
            session.let_go(job)
            return Watched(job, status, late)
        await asyncio.sleep(min(SLOWEST_POLL_S, max(POLL_S, (now - begun) / 100)))


def fetch(session: Session, job: str) -> None:
    """Copy what the job wrote so far. What cannot be copied now may be there the next time."""
    try:
        session.setting.launcher.fetch(job, session.folder / job)
    except LaunchError as error:
        tell(Progress("checks", str(error)))


def fetch_last(session: Session, job: str) -> Path:
    """What the job left, into a folder that held nothing before. Raises LaunchError, OSError."""
    folder, fresh = session.folder / job, session.folder / f"{job}.last"
    shutil.rmtree(fresh, ignore_errors=True)
    session.setting.launcher.fetch(job, fresh)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return folder


def sentence(bundle: Bundle, seen: Tally) -> str:
    """ "2 of 2 nodes report, 14 of 27 observations, now compute.gemm"."""
    nodes = bundle.declared.nodes
    doing = f", now {seen.doing}" if seen.doing else ""
    return f"{seen.nodes} of {nodes} nodes report, {seen.done} of {seen.total} observations{doing}"


def _late(seconds: float, limit_s: float, unknown_s: float, status: JobStatus) -> str:
    if seconds > limit_s:
        return f"it was {status.state.value} after {limit_s:.0f} s and has been ended"
    if unknown_s > UNKNOWN_S:
        return f"nothing was heard of it for {UNKNOWN_S:.0f} s; it has been ended"
    return ""
