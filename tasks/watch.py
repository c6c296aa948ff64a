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
from tasks.launchers.base import JobState, JobStatus, Launcher, LaunchError
from tasks.progress import Progress, tell
from tasks.reports import Tally
from tasks.session import Session
from tasks.stop import StopWatch, guard
from tasks.threads import to_end

SLOWEST_POLL_S = 5.0
GRACE_S = 30.0


@dataclass(frozen=True)
class Watched:
    """The end of a job, or of one start of it. `late` says why it was ended from here, "" where it ended by itself."""

    job: str
    status: JobStatus
    late: str = ""


@dataclass
class Times:
    """For how long a job has waited for its machines in one go, run, and not been heard of; in seconds."""

    waited_s: float = 0.0
    ran_s: float = 0.0
    silent_s: float = 0.0

    def add(self, state: JobState, seconds: float) -> None:
        """It was in that state for so long."""
        self.waited_s = self.waited_s + seconds if state is JobState.PENDING else 0.0
        self.ran_s += 0.0 if state is JobState.PENDING else seconds
        self.silent_s = self.silent_s + seconds if state is JobState.UNKNOWN else 0.0


@task(cache_policy=NO_CACHE, task_run_name="watch {job}")
async def watch(session: Session, job: str) -> Watched:
    """Wait for the health check; it is ended when it outlives its time."""
    meter = Meter(session.setting.gate.cluster.name)
    watched = await follow(session, job, checks_limit_s(session), looker(session, job, meter))
    await meter.finish()
    return watched


def checks_limit_s(session: Session) -> float:
    """How long checks may run."""
    return session.setting.gate.checks.max_runtime_minutes * 60 + GRACE_S


def looker(session: Session, job: str, meter: Meter) -> Callable[[JobStatus], Awaitable[None]]:
    """What to do at each look: fetch what was written so far, and tell people how far it is."""
    bundle = session.setting.bundle(session.gate_id)

    async def look(status: JobStatus) -> None:
        await to_end(fetch, session, job)
        seen = reports.tally(bundle, reports.read_files(session.folder / job, status.attempt))
        waits = f"{status.state.value} {status.detail}".strip()
        said = sentence(bundle, seen) if seen.nodes or status.state is not JobState.PENDING else waits
        tell(Progress("checks", said, seen.done, seen.total))
        await meter.show(100.0 * seen.done / max(seen.total, 1), said)

    return look


async def follow(
    session: Session,
    job: str,
    limit_s: float,
    look: Callable[[JobStatus], Awaitable[None]],
    enough: Callable[[JobStatus], bool] = lambda status: status.state.final,
    ends: bool = True,
) -> Watched:
    """Poll until `enough`, or until the time is up: then the job is ended, if it `ends`. Raises LeaseLost, StopAsked.

    `limit_s` is of running: for its machines a job may wait as long as the launcher says.
    """
    launcher = session.setting.launcher
    begun = last = time.monotonic()
    times, stop = Times(), StopWatch()
    while True:
        await guard(session, stop)
        status = await to_end(launcher.state, job)
        now = time.monotonic()
        times.add(status.state, now - last)
        last = now
        await look(status)
        if status.state.final or enough(status):
            if status.state.final:
                session.ended(job)
            return Watched(job, status)
        late = _late(times, limit_s, launcher, status)
        if late:
            if ends:
                await to_end(session.end_now, job)
            return Watched(job, status, late)
        await asyncio.sleep(pause_s(launcher.poll_s, now - begun))


def pause_s(poll_s: float, since_s: float) -> float:
    """How long to wait until the next look: what takes long is asked more seldom."""
    return min(max(SLOWEST_POLL_S, 3 * poll_s), max(poll_s, since_s / 100))


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


def _late(times: Times, limit_s: float, launcher: Launcher, status: JobStatus) -> str:
    if times.ran_s > limit_s:
        return f"it was {status.state.value} after {limit_s:.0f} s and has been ended"
    if times.waited_s > launcher.start_s:
        return f"it did not run within {launcher.start_s:.0f} s and has been ended"
    if times.silent_s > launcher.silence_s:
        return f"nothing was heard of it for {launcher.silence_s:.0f} s; it has been ended"
    return ""
