"""Submits a job to the launcher, or adopts the job that already has its name.

While the engine has no machines, the job is submitted again at growing intervals, for as long as the gate file says.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.documents.certificates import NO_CERTIFICATES, Certificates
from checks.judge.verdict import failed_nodes
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.cancellation import StopWatch
from tasks.gate.jobs import answer_wait_s, check_job, gated_job
from tasks.gate.lease.lease import CHECK, TRAIN, Lease
from tasks.gate.outcome import JudgedReport
from tasks.gate.predecessor import ended_badly, find_jobs, report_takeover
from tasks.gate.progress import Progress, report_progress
from tasks.gate.question import ApprovalAnswer
from tasks.gate.session import Session
from tasks.gate.submission import submit_job
from tasks.judge import void_pass
from tasks.launch import ROUNDS, pool_cost_now, pool_waits
from tasks.launchers.base import JobSpec, NoCapacity
from tasks.store.base import StoreError
from tasks.store.certificates import longest_valid_s, offer, offered

LOG = logging.getLogger("prelaunch")
FIRST_S = 30.0
LONGEST_S = 600.0
LOOK_S = 1.0


@task(cache_policy=NO_CACHE, task_run_name="provision {session.gate_id}")
async def submit_checks(session: Session) -> str:
    """Submit the health check, or adopt the one that a dead predecessor started; returns its name."""
    lease = await settle_lease(session)
    certificates = await run_to_end(offer_certificates, session, lease)
    job = check_job(session.context, lease.gate_id, lease.job(CHECK), certificates)
    return await _submit_to_measure(session, job)


def offer_certificates(session: Session, lease: Lease) -> Certificates:
    """The certificates of earlier gates, for checks that the nodes need not repeat. There are none if the policy lets no check be
    certified, for the second job of a gate, because the first one may have found something, and for checks that are worth their time.

    Nodes that decide by themselves (IN_JOB) get none: they measure everything.
    """
    context = session.context
    session.certificates = NO_CERTIFICATES
    if not context.certifies or not longest_valid_s(context.policy) or lease.attempt > 1:
        return NO_CERTIFICATES
    try:
        if lease.adopted:
            session.certificates = offered(context.store, lease.gate_id)
        else:
            session.certificates = offer(
                context.store, lease.gate_id, context.policy, context.facts, context.baseline
            )
    except StoreError as error:
        LOG.warning("every check is measured, because certificates cannot be read or kept: %s", error)
    return session.certificates


@task(cache_policy=NO_CACHE, task_run_name="provision {session.gate_id}")
async def submit_gated_job(session: Session, ask_minutes: int) -> str:
    """The one job for checks and training is submitted, or adopted from a dead predecessor, and its name is returned. Its nodes wait
    for a person's answer if the policy requires one.
    """
    lease = await settle_lease(session)
    hold_s = answer_wait_s(session.context, ask_minutes)
    job = gated_job(session.context, lease.gate_id, lease.job(TRAIN), hold_s)
    return await _submit_to_measure(session, job)


async def _submit_to_measure(session: Session, job: JobSpec) -> str:
    """Void an older PASS of the cluster, since nothing else may void it once this gate is cancelled or dies, and submit the job."""
    await run_to_end(void_pass, session)
    await run_to_end(submit_job, session, replace(job, tags=session.tags, exclude=tuple(session.excluded)))
    return job.name


async def exclude_failed(
    session: Session, judged: JudgedReport, answer: ApprovalAnswer | None, no_gos: int
) -> bool:
    """Whether the refused gate begins again, without the nodes that failed: its launcher was asked for that, and attempts are left.

    A person's refusal is final, and so is one for which not some of the nodes are to blame. Raises LaunchError, LeaseLost.
    """
    context, failed = session.context, failed_nodes(judged.verdict)
    blamed = 0 < len(failed) < context.declared.nodes and not judged.verdict.suspect_policy
    wanted = context.launcher.excludes_failed and session.launches and answer is None
    if not (blamed and wanted) or no_gos >= context.gate.training.max_attempts:
        return False
    # By the engine's names, where it has others for machines than the gate has for the places of its nodes.
    names = {node.name: node.identity.get("engine_node") or node.name for node in judged.report.nodes}
    session.excluded |= {names.get(node, node): reason for node, reason in failed.items()}
    failures = f"{', '.join(failed)}: {'; '.join(failed.values())}"
    LOG.warning("the gate begins again without nodes that failed: %s", failures)
    report_progress(Progress("checks", f"the next job does not get {failures}"))
    await run_to_end(session.begin_again)
    return True


async def settle_lease(session: Session) -> Lease:
    """The lock with which to continue. Adopted checks that were ended with their owner start again."""
    lease = session.renewal.lease
    if not lease.adopted:
        return lease
    jobs = await find_jobs(session)
    over = ended_badly(jobs.train) if session.in_job else ended_badly(jobs.check) and jobs.train.absent
    if over:
        return await run_to_end(session.begin_again)
    report_takeover(session, jobs)
    return lease


async def wait_for_machines(session: Session, error: NoCapacity) -> None:
    """Return when the next attempt may be submitted. Raises `error` if the time for that is over."""
    pause = _pause(session, error)
    report_progress(Progress("capacity", f"{error} The next attempt is in {pause:.0f} s."))
    await _sleep(session, pause)
    await run_to_end(session.begin_again)


async def wait_for_training(session: Session, error: NoCapacity) -> None:
    """The function returns when the training after a GO may be submitted again. Its machines may be kept and billed meanwhile. Raises
    `error` if the time for that is over.

    It returns early where the machines are kept no longer: the checks begin again, or, where they did before, NoCapacity is raised.
    """
    pause = _pause(session, error)
    waits = await run_to_end(pool_waits, session)
    report_progress(
        Progress(
            "capacity",
            f"{error} The next attempt is in {pause:.0f} s. {pool_cost_now(session) if waits else ''}".strip(),
        )
    )
    if await _sleep(session, pause, lambda: not waits or pool_waits(session)):
        await run_to_end(session.train_again)
    elif session.rounds >= ROUNDS:
        raise NoCapacity(f"{error} The machines that passed are no longer available.") from error


def _pause(session: Session, error: NoCapacity) -> float:
    """Seconds until the next attempt. Raises `error` if there is no time for one."""
    now = time.monotonic()
    since = session.waiting_since = session.waiting_since or now
    limit_s = session.context.gate.cluster.capacity_wait_minutes * 60
    waited = now - since
    if waited >= limit_s:
        raise error
    return min(LONGEST_S, max(FIRST_S, waited), limit_s - waited)  # twice as long each time


async def _sleep(session: Session, seconds: float, goes_on: Callable[[], bool] = lambda: True) -> bool:
    """Sleep; return whether nothing interrupted it. `goes_on` is called regularly and may end it."""
    stop, until = StopWatch(session), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        await stop.check()
        if not await run_to_end(goes_on):
            return False
        await asyncio.sleep(min(max(LOOK_S, session.context.launcher.poll_s), left))
    return await run_to_end(goes_on)
