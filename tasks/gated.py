"""Checks and training in one job (IN_JOB): its nodes decide by themselves, the gate judges each start of it again.

The engine may start the job again after a no-go (SageMaker repairs its cluster first). Each start is judged by its own
reports alone, kept under its own name, and counted; the gate's outcome is that of the last one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.model import Answer, Report
from checks.report import dump, dump_plain
from tasks import reports
from tasks.artifacts import Meter
from tasks.collect import collected
from tasks.judge import judged as judge
from tasks.launch import Launched, Start, ended
from tasks.launchers.base import JobState, JobStatus
from tasks.outcome import Judged, Training
from tasks.placing import confirmed
from tasks.progress import Progress, tell
from tasks.render.document import verdict_json
from tasks.session import Session
from tasks.starts import Starts
from tasks.threads import to_end
from tasks.watch import GATED_MARGIN_S, GRACE_S, Watched, checking, checks_limit_s, follow, looker


@task(cache_policy=NO_CACHE, task_run_name="judge the next start of {job}")
async def next_start(session: Session, job: str, starts: Starts) -> Judged:
    """The verdict on the next start, once its reports are complete or it is over, or on the job's end without one.

    Raises LaunchRejected, NoCapacity, EngineUnavailable where nobody reported and the engine says why.
    """
    session.proof.clear()
    meter = Meter(session.setting.gate.cluster.name)
    clock = checking(session, GATED_MARGIN_S)
    look, whole_s = looker(session, job, meter, clock), run_limit_s(session)
    # Without a network its nodes may say nothing before the job's end, and decide by themselves all the same.
    watched = await follow(session, job, whole_s, look, lambda status: bool(starts.next(status)))
    if not watched.status.state.final and not watched.late:
        enough = _reported(session, job, starts)
        watched = await follow(session, job, checks_limit_s(session), look, enough, clock=clock)
    await meter.finish()
    token = starts.next(watched.status)
    over = bool(token) and token != watched.status.attempt
    late = f"its start {token} was over before every report was there" if over else watched.late
    status = dataclasses.replace(watched.status, attempt=token)
    report = await to_end(collected, session, Watched(job, status, late))
    starts.judged(token)
    return await to_end(_judge, session, report)


async def follow_start(session: Session, judged: Judged, starts: Starts, wait: str) -> Launched | None:
    """Follow a start that may train as far as was asked; None where the engine began another one."""
    job = session.checking
    if wait == "verdict":
        session.let_go(job)
        session.proof.append("one job: its hosts decide by themselves, and were not waited for")
        return Launched(Training(job, JobState.RUNNING))
    start, token = Start(session, job), judged.report.attempt

    async def look(status: JobStatus) -> None:
        tell(Progress("training", f"{status.state.value} {status.detail}".strip()))

    def enough(status: JobStatus) -> bool:
        return bool(starts.next(status)) or (wait == "started" and start.seen(status))

    watched = await follow(session, job, run_limit_s(session), look, enough)
    late = watched.late
    if starts.next(watched.status):
        if not await _counted(session, judged, starts):
            return None
        late = "the engine began again after its nodes had refused"
    elif watched.status.state is JobState.RUNNING and not watched.late:
        session.let_go(job)
        confirmed(session, judged, session.folder / job / token)
        return Launched(Training(job, JobState.RUNNING, start.said))
    status = dataclasses.replace(watched.status, attempt=token)
    seen = await to_end(ended, session, judged, Watched(job, status, late))
    if seen.training.state is JobState.SUCCEEDED or not starts.said:
        return seen
    said = f"{seen.training.detail} ({starts.said})"
    return dataclasses.replace(seen, training=dataclasses.replace(seen.training, detail=said))


async def again(session: Session, judged: Judged, starts: Starts) -> bool:
    """Whether the engine gives a refused job another start: waited for, until the limit or the job's end."""
    setting, job = session.setting, session.checking
    last = starts.no_go(setting.gate.training.max_attempts) or judged.verdict.answer is Answer.ASK
    limit = setting.gate.checks.network_s + setting.gate.checks.stage_s + GRACE_S

    async def look(status: JobStatus) -> None:
        tell(Progress("checks", f"refused; the job is {status.state.value} {status.detail}".strip()))

    def enough(status: JobStatus) -> bool:
        return bool(starts.next(status)) or (last and status.state is JobState.PENDING)

    watched = await follow(session, job, limit, look, enough)
    if starts.next(watched.status) and not last:
        return True
    await to_end(_end_job, session, watched)
    return False


def run_limit_s(session: Session) -> float:
    """How long the job may run: checks and training."""
    return session.setting.gate.training.max_runtime_minutes * 60 + checks_limit_s(session)


def _reported(session: Session, job: str, starts: Starts) -> Callable[[JobStatus], bool]:
    bundle = session.setting.bundle(session.gate_id)

    def enough(status: JobStatus) -> bool:
        token = starts.next(status)
        files = reports.read_files(session.folder / job, token)
        return bool(token) and (token != status.attempt or reports.complete(bundle, files))

    return enough


async def _counted(session: Session, judged: Judged, starts: Starts) -> bool:
    """Another start began after a go: whether that was one too many. Training that was interrupted just goes on."""
    begun = session.folder / session.checking / judged.report.attempt / "started"
    trained = len(list(begun.glob("*"))) >= session.setting.declared.nodes
    session.trained = session.trained or trained
    if trained or not starts.no_go(session.setting.gate.training.max_attempts):
        return False
    await to_end(session.setting.launcher.cancel, session.checking)
    session.let_go(session.checking)
    return True


def _end_job(session: Session, watched: Watched) -> None:
    """End what still runs. Raises LaunchError."""
    if not watched.status.state.final and not watched.late:
        session.setting.launcher.cancel(watched.job)
        session.let_go(watched.job)


def _judge(session: Session, report: Report) -> Judged:
    """The verdict, kept under the start's own name beside the gate's. Raises StoreError."""
    session.judged = made = judge(session, report)
    if report.attempt:
        folder = f"gates/{session.gate_id}/attempts/{report.attempt}"
        session.setting.store.put(f"{folder}/health_check_metrics.json", dump(report))
        session.setting.store.put(f"{folder}/verdict.json", dump_plain(verdict_json(made.verdict)))
    return made
