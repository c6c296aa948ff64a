"""Follow a job to its end: state by state, with a deadline, telling people how far it is.

The checks' deadline counts on the nodes. From here it is seen to begin with the first report of a node, and where none comes,
`begins_s` after the engine first said that the job runs. Waiting for machines is no part of it. An engine, or a folder, that
does not answer is left alone in time: what was fetched before is judged.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.bundle import Bundle
from checks.deadline import ANSWER_S
from tasks import reports
from tasks.artifacts import Meter
from tasks.launchers.base import Delays, JobState, JobStatus, Launcher, LaunchError
from tasks.progress import Progress, tell
from tasks.reports import Tally
from tasks.session import Session
from tasks.stop import StopWatch, guard
from tasks.threads import to_end, within

SLOWEST_POLL_S = 5.0
GRACE_S = 30.0
# Of the 5 s from the nodes' deadline to the verdict: 3 for what a node wrote last to arrive, 2 to judge and to keep it. Nodes
# that decide by themselves (IN_JOB) have one more, for their own answer.
MARGIN_S, GATED_MARGIN_S = 3.0, 4.0
LONGEST_LOOK_S, LEAST_LOOK_S = 60.0, 0.5


@dataclass(frozen=True)
class Watched:
    """The end of a job, or of one start of it. `late` says why it was ended from here, "" where it ended by itself.

    `ran` says that it was seen to run.
    """

    job: str
    status: JobStatus
    late: str = ""
    ran: bool = False


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


@dataclass
class Checking:
    """When the checks of one start of a job began, and by when they have to be given up, in time.monotonic().

    The nodes' reports are whole at their deadline; `margin_s` later they are looked at for the last time.
    """

    deadline_s: float
    delays: Delays
    margin_s: float = MARGIN_S
    runs_since: float | None = None
    begun: float | None = None
    complete: bool = False

    def see(self, state: JobState, reported: bool, now: float) -> None:
        """What was seen at a look: the engine's word, and whether a node has begun its report."""
        if state is JobState.RUNNING and self.runs_since is None:
            self.runs_since = now
        if reported and self.begun is None:
            self.begun = now

    @property
    def gives_up_at(self) -> float:
        """When to wait no longer. Once every report is whole (`complete`) the engine only has to say that the job ended."""
        if self.begun is not None:
            late_s = self.delays.ends_s if self.complete else self.delays.reports_s
            return self.begun + self.deadline_s + self.margin_s + late_s
        if self.runs_since is not None:
            return self.runs_since + self.delays.begins_s + self.deadline_s + self.margin_s
        return math.inf

    @property
    def answer_by(self) -> float:
        """When the verdict has to be there."""
        return self.gives_up_at - self.margin_s + ANSWER_S


def checking(session: Session, margin_s: float = MARGIN_S) -> Checking:
    """For a job whose nodes check, before anything of it was seen."""
    setting = session.setting
    return Checking(setting.gate.checks.whole_deadline_s, setting.launcher.delays, margin_s)


@task(cache_policy=NO_CACHE, task_run_name="watch {job}")
async def watch(session: Session, job: str) -> Watched:
    """Wait for the health check; it is ended when it outlives its time."""
    meter, clock = Meter(session.setting.gate.cluster.name), checking(session)
    look = looker(session, job, meter, clock)
    watched = await follow(session, job, checks_limit_s(session), look, clock=clock)
    await meter.finish()
    return watched


def checks_limit_s(session: Session) -> float:
    """How long checks may run."""
    return session.setting.gate.checks.max_runtime_minutes * 60 + GRACE_S


def looker(
    session: Session, job: str, meter: Meter, clock: Checking
) -> Callable[[JobStatus], Awaitable[None]]:
    """What to do at each look: fetch what was written so far, and tell people how far it is."""
    bundle = session.setting.bundle(session.gate_id)

    async def look(status: JobStatus) -> None:
        try:
            await within(_patience_s(clock), fetch, session, job)
        except TimeoutError as error:
            tell(Progress("checks", f"what {job} wrote cannot be fetched: {error}"))
        files = reports.read_files(session.folder / job, status.attempt)
        seen = reports.tally(bundle, files)
        clock.see(status.state, bool(files), time.monotonic())
        clock.complete = reports.complete(bundle, files)
        session.answer_by = clock.answer_by
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
    clock: Checking | None = None,
) -> Watched:
    """Poll until `enough`, or until the time is up: then the job is ended, if it `ends`. Raises LeaseLost, StopAsked.

    `limit_s` is of running: for its machines a job may wait as long as the launcher says. `clock` bounds the checks: where
    they are given up, the job is ended while its reports are judged.
    """
    launcher = session.setting.launcher
    begun = last = time.monotonic()
    times, stop, ran = Times(), StopWatch(), False
    status = JobStatus(JobState.UNKNOWN, "not asked yet", "", {})
    while True:
        await guard(session, stop)
        status = await _state(launcher, job, _patience_s(clock), status)
        now = time.monotonic()
        times.add(status.state, now - last)
        ran = ran or status.state is JobState.RUNNING
        last = now
        await look(status)
        if status.state.final or enough(status):
            if status.state.final:
                session.ended(job)
            return Watched(job, status, ran=ran)
        if clock is not None and time.monotonic() >= clock.gives_up_at:
            if ends:
                session.end_soon(job)
            late = f"its checks were given up at their deadline of {clock.deadline_s:g} s"
            return Watched(job, status, late, ran)
        late = _late(times, limit_s, launcher, status)
        if late:
            if ends:
                await to_end(session.end_now, job)
            return Watched(job, status, late, ran)
        pause = pause_s(launcher.poll_s, now - begun)
        until = clock.gives_up_at if clock is not None else math.inf
        await asyncio.sleep(min(pause, max(until - time.monotonic(), 0.0)))


async def _state(launcher: Launcher, job: str, patience_s: float, last: JobStatus) -> JobStatus:
    """The job's state; where the engine does not answer in time it is UNKNOWN, of the start that was seen last."""
    try:
        return await within(patience_s, launcher.state, job)
    except TimeoutError as error:
        return JobStatus(
            JobState.UNKNOWN, f"the engine does not answer: {error}", last.attempt, last.exit_codes
        )


def _patience_s(clock: Checking | None) -> float:
    """How long one question to the engine may take."""
    if clock is None:
        return LONGEST_LOOK_S
    return min(LONGEST_LOOK_S, max(clock.gives_up_at - time.monotonic(), LEAST_LOOK_S))


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
