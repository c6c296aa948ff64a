"""Submits a job once, however many gates try at the same moment, and ends it with all that bears its name."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

from tasks.launchers import base
from tasks.launchers.interruption import is_interrupted, patiently, pause
from tasks.launchers.job_files import file_errors
from tasks.launchers.slurm import commands
from tasks.launchers.slurm.commands import MissingCommand
from tasks.launchers.slurm.job_folder import SharedJobFolder
from tasks.launchers.slurm.job_states import submitted_row

T = TypeVar("T")
# Whoever made the folder calls sbatch within moments; without a job by then it is taken to be dead.
ADOPT_S = 30.0
LOOK_S = 0.5
AGAIN_S = 5.0
# slurm.conf(5), SlurmctldTimeout: after so long without the controller its backup answers.
SILENT_S = 120.0
# slurm_strerror() of Slurm 22.05: limits of an account or QOS, for which waiting is of no use.
LIMITS = re.compile(
    r"Job violates accounting/QOS policy|Requested time limit is invalid|Job size limit is exceeded"
)
# slurm_strerror() of Slurm 22.05 for a partition whose state is INACTIVE or DRAIN; to a DOWN one it takes jobs.
NOT_AVAILABLE = re.compile(r"Required partition not available")
# slurm_strerror() of Slurm 22.05 where the answer of slurmctld was lost: it may have taken the job.
UNANSWERED = re.compile(
    r"Socket timed out|Unable to contact slurm controller|Zero Bytes were transmitted|Communication connection failure"
    r"|Communication shutdown failure|Message (send|receive) failure|Connection (refused|reset|timed out)"
    r"|Transport endpoint is not connected|No route to host|standby mode",
    re.IGNORECASE,
)
NUMBER = re.compile(r"^(\d+)(?:;\S*)?$", re.MULTILINE)


def submit(plan: base.Plan, folder: SharedJobFolder) -> base.JobHandle:
    """Start the job, or adopt the one that has its folder. Raises LaunchError."""
    name = plan.job.name
    with file_errors(f"{name} cannot be submitted", folder.path):
        if not folder.exists():
            # Return once slurmctld answers. Raises NotSubmitted, MissingCommand.
            try:
                _patiently(lambda: commands.jobs_named(name))
            except MissingCommand:
                raise
            except base.EngineUnavailable as error:
                raise base.NotSubmitted(f"{name} was not submitted, because {error}") from error
        if folder.stage(plan):
            _sbatch(plan, folder)
            return base.JobHandle(name, adopted=False)
        _adopt(plan, folder)
    return base.JobHandle(name, adopted=True)


def cancel(name: str, folder: SharedJobFolder, within_s: float, poll_s: float) -> None:
    """End every job of that name; returns when slurmctld says that none is left. Raises LaunchError, OSError."""
    if folder.exists():
        folder.close()
    deadline, last_request = time.monotonic() + within_s, 0.0
    while True:
        try:
            jobs = [job for job in commands.jobs_named(name) if not job.job_state.final]
            if not jobs:
                return
            remaining = "; ".join(job.detail for job in jobs)
            if time.monotonic() - last_request > AGAIN_S:
                last_request = time.monotonic()
                commands.end_jobs(job.job_id for job in jobs)
        except MissingCommand:
            raise
        except base.EngineUnavailable as error:
            # It may come back, and a job that is left would run to its time limit.
            remaining = str(error)
        if time.monotonic() > deadline:
            message = f"{name} is not ended after {within_s:.0f} s: {remaining}. Look at squeue, and at the nodes' slurmd."
            raise base.LaunchError(message)
        time.sleep(poll_s)


def _adopt(plan: base.Plan, folder: SharedJobFolder) -> None:
    """Return once the job has its number. Where whoever made the folder died before sbatch, submit it here."""
    if folder.job_id() is not None or folder.claim() or folder.final() is not None:
        return

    def is_recorded() -> bool:
        return _patiently(lambda: _recorded(plan.job.name, folder)) or folder.job_id() is not None

    if not _within(ADOPT_S, is_recorded):
        if is_interrupted():
            raise base.EngineUnavailable(f"whether slurmctld has {plan.job.name} is not known")
        _sbatch(plan, folder)


def _sbatch(plan: base.Plan, folder: SharedJobFolder) -> None:
    """Submit, and record the number. Raises LaunchRejected, QuotaExceeded, NoCapacity; EngineUnavailable if a job may be there."""
    name = plan.job.name
    done = commands.run(*plan.processes[0].argv)
    number = NUMBER.search(done.out)
    if done.code == 0 and number is not None:
        folder.write_submitted(int(number[1]))
        return
    refused = done.code > 0 and not UNANSWERED.search(done.err)
    if _patiently(lambda: _recorded(name, folder, refused)):
        return
    if done.code == 0:
        raise base.EngineUnavailable(f"sbatch took {name} and returned no number: {done.text}")
    if not refused:
        raise base.EngineUnavailable(f"whether slurmctld took {name} is not known: {done.text}")
    folder.remove()
    if NOT_AVAILABLE.search(done.err):
        raise base.NoCapacity(f"{name}: Slurm refused it: {done.text}. Try later, or name another partition.")
    error_type = base.QuotaExceeded if LIMITS.search(done.err) else base.LaunchRejected
    raise error_type(f"{name}: Slurm refused it: {done.text}. Correct [cluster.options].")


def _recorded(name: str, folder: SharedJobFolder, refused: bool = False) -> bool:
    """Whether slurmctld has the job that belongs to the folder; its number is written down.

    After a refusal that can only be another gate's, so a job that had ended before it started here is an older one.
    """
    jobs, job_id = commands.jobs_named(name), folder.job_id()
    if refused and job_id is None:
        jobs = tuple(job for job in jobs if not job.job_state.final)
    job = submitted_row(jobs, job_id)
    if job is not None:
        folder.write_submitted(job.job_id)
    return job is not None


def _patiently(ask: Callable[[], T]) -> T:
    """What slurmctld answers, asked again while it is silent. Raises EngineUnavailable."""
    return patiently(ask, "slurmctld", SILENT_S, AGAIN_S, MissingCommand)


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline or not pause(LOOK_S):
            return False
    return True
