"""What a dead predecessor left. The engine is asked until it answers, because no answer does not mean "no such job"."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tasks.gate.blocking_calls import ask_state
from tasks.gate.cancellation import StopWatch
from tasks.gate.jobs import is_unanswered
from tasks.gate.lease.lease import CHECK, TRAIN
from tasks.gate.progress import Progress, report_progress
from tasks.gate.session import Session
from tasks.launchers.base import EngineUnavailable, JobState, JobStatus


@dataclass(frozen=True)
class PredecessorJobs:
    """The jobs of this attempt, as the engine knows them."""

    check: JobStatus
    train: JobStatus


async def find_jobs(session: Session) -> PredecessorJobs:
    """Both jobs, once the engine answered for both. Raises EngineUnavailable after its `silence_s`, LeaseLost, RunCancelled.

    A job of which nothing is heard may train: without an answer both are left, with the lock, to the next gate.
    """
    launcher, stop, begun = session.context.launcher, StopWatch(session), time.monotonic()
    unknown = JobStatus(JobState.UNKNOWN, "not asked yet", "", {})
    while True:
        await stop.check()
        statuses = [
            await ask_state(launcher, job, min(60.0, launcher.silence_s), unknown)
            for job in session.renewal.lease.jobs
        ]
        jobs = PredecessorJobs(*statuses)
        silent = next((status for status in (jobs.check, jobs.train) if is_unanswered(status)), None)
        if silent is None:
            return jobs
        if time.monotonic() - begun > launcher.silence_s:
            session.parked = True
            raise EngineUnavailable(
                f"whether the jobs of {session.gate_id} run is not known after {launcher.silence_s:.0f} s: {silent.detail}. They are "
                "left as they are: start the gate again, and it goes on with them."
            )
        report_progress(
            Progress("adopt", f"asking again for the state of the jobs of {session.gate_id}: {silent.detail}")
        )
        await asyncio.sleep(launcher.poll_s)


def report_takeover(session: Session, jobs: PredecessorJobs) -> None:
    """Tell people that this gate continues a job of an earlier run, if the engine has one. A training that runs was seen to, and so
    was one that has the token of a start and waits for machines again.
    """
    lease, train = session.renewal.lease, jobs.train
    runs = train.state is JobState.RUNNING or (train.state is JobState.PENDING and bool(train.attempt))
    session.trained = session.trained or (not session.in_job and runs)
    for stage, status in ((TRAIN, jobs.train), (CHECK, jobs.check)):
        if not status.absent:
            message = f"this gate continues job {lease.job(stage)} of an earlier run, whose process is gone ({status.text})"
            report_progress(Progress("adopt", message, lasting=True))
            return


def ended_badly(status: JobStatus) -> bool:
    """Whether the job ended without doing its work."""
    return status.state in (JobState.FAILED, JobState.CANCELLED)
