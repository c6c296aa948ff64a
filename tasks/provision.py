"""Hand a job to the launcher, or adopt the one that already bears its name."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.jobs import check_job, gated_job, hold_for
from tasks.launchers.base import EngineUnavailable, JobHandle, JobSpec
from tasks.lease import CHECK, TRAIN, Lease
from tasks.left import ended_badly, left
from tasks.looking import look_first
from tasks.session import Session
from tasks.threads import to_end


@task(cache_policy=NO_CACHE, task_run_name="provision {session.gate_id}")
async def provision(session: Session) -> str:
    """Submit the health check, or adopt the one that a dead predecessor started; returns its name."""
    lease = await settle(session)
    job = check_job(session.setting, lease.gate_id, lease.job(CHECK), session.tags)
    await to_end(submit, session, job)
    return job.name


@task(cache_policy=NO_CACHE, task_run_name="provision {session.gate_id}")
async def provision_gated(session: Session, ask_minutes: int) -> str:
    """The same where checks and training are one job; its nodes hold for a person's answer if the policy asks one."""
    lease = await settle(session)
    hold_s = hold_for(session.setting, ask_minutes)
    job = gated_job(session.setting, lease.gate_id, lease.job(TRAIN), hold_s, session.tags)
    await to_end(submit, session, job)
    return job.name


async def settle(session: Session) -> Lease:
    """The lease under which to go on: adopted checks that were ended with their owner start anew."""
    lease = session.keeper.lease
    if not lease.adopted:
        return lease
    found = await left(session)
    over = ended_badly(found.train) if session.in_job else ended_badly(found.check) and found.train.absent
    if over:
        return await to_end(session.begin_again)
    return lease


def submit(session: Session, job: JobSpec) -> JobHandle:
    """Submit it; what may run is remembered first, so that every ending ends it. Raises LaunchError."""
    session.ends()  # two jobs of a gate never run side by side
    look_first(session)
    session.remember(job.name)
    launcher = session.setting.launcher
    plan = launcher.plan(job)
    try:
        return launcher.submit(plan)
    except EngineUnavailable:
        return launcher.submit(plan)  # submit adopts: asking twice never starts two
