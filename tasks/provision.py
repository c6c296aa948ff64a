"""Hand a job to the launcher, or adopt the one that already bears its name."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.jobs import check_job
from tasks.launchers.base import EngineUnavailable, JobHandle, JobSpec, JobState
from tasks.lease import CHECK, TRAIN, Lease
from tasks.session import Session
from tasks.threads import to_end

DEAD = (JobState.FAILED, JobState.CANCELLED)


@task(cache_policy=NO_CACHE, task_run_name="provision {session.gate_id}")
async def provision(session: Session) -> str:
    """Submit the health check, or adopt the one that a dead predecessor started; returns its name."""
    lease = await to_end(settle, session)
    job = check_job(session.setting, lease.gate_id, lease.job(CHECK))
    await to_end(submit, session, job)
    return job.name


def settle(session: Session) -> Lease:
    """The lease under which to go on: an adopted check that was ended with its owner starts anew."""
    lease = session.keeper.lease
    if not lease.adopted:
        return lease
    state = session.setting.launcher.state
    check, train = state(lease.job(CHECK)).state, state(lease.job(TRAIN)).state
    if check in DEAD and train is JobState.UNKNOWN:
        session.setting.launcher.cancel(lease.job(CHECK))
        return session.keeper.next_attempt()
    return lease


def submit(session: Session, job: JobSpec) -> JobHandle:
    """Submit it; what may run is remembered first, so that every ending ends it. Raises LaunchError."""
    session.remember(job.name)
    launcher = session.setting.launcher
    plan = launcher.plan(job)
    try:
        return launcher.submit(plan)
    except EngineUnavailable:
        return launcher.submit(plan)  # submit adopts: asking twice never starts two
