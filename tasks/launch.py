"""Start the training job on the machines that were proven, and follow it as far as asked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.merge import merge
from tasks import reports
from tasks.collect import iso, logged
from tasks.jobs import train_job
from tasks.judge import judged
from tasks.launchers.base import JobState, JobStatus, LaunchError
from tasks.lease import CHECK, TRAIN
from tasks.outcome import Judged, Training
from tasks.placing import PoolProof, confirmed, handed_over, kept_now, pool_waits
from tasks.progress import Progress, tell
from tasks.provision import submit
from tasks.raw import keep_logs
from tasks.render.clean import one_line
from tasks.reuse import proven
from tasks.session import Session
from tasks.threads import to_end
from tasks.troubles import keep_story, never_ran, require_machines
from tasks.watch import GRACE_S, Watched, checks_limit_s, fetch, fetch_last, follow

TAIL_BYTES = 16384
TORCHRUN = "torch/distributed/elastic"


@dataclass(frozen=True)
class Launched:
    """The training job, and the verdict of the nodes themselves where they had to check again in place.

    `ran` is False where the engine ended the job before anything ran.
    """

    training: Training
    rechecked: Judged | None = None
    ran: bool = True


@task(cache_policy=NO_CACHE, task_run_name="launch training of {session.gate_id}")
async def launch(session: Session, verdict: Judged) -> str:
    """Submit the training job, or adopt the one that a predecessor started; returns its name."""
    name = session.keeper.lease.job(TRAIN)
    before = "" if verdict.reused else session.keeper.lease.job(CHECK)
    job = train_job(session.setting, session.gate_id, name, proven(verdict), before, session.tags)
    await to_end(submit, session, job)
    tell(Progress("training", f"{name} submitted"))
    return name


@task(cache_policy=NO_CACHE, task_run_name="wait until training is {wait}")
async def follow_training(session: Session, verdict: Judged, job: str, wait: str) -> Launched:
    """Wait as asked: "verdict" not at all, "started" until it runs, "finished" until it ended.

    Raises NoCapacity and QuotaExceeded where it got no machines: nothing of it is left then.
    """
    if wait == "verdict":
        handed_over(session, job)
        return Launched(Training(job, JobState.PENDING))
    limit = session.setting.gate.training.max_runtime_minutes * 60 + GRACE_S
    proof, start = PoolProof(session, job), Start(session, job)

    async def look(status: JobStatus) -> None:
        session.trained = session.trained or status.state is JobState.RUNNING
        waits = status.state is JobState.PENDING and await to_end(pool_waits, session)
        kept = kept_now(session) if waits else ""
        tell(Progress("training", " ".join(filter(None, (status.state.value, status.detail, kept)))))
        if not never_ran(Watched(job, status, ran=session.trained)):
            await proof.look(status)

    def enough(status: JobStatus) -> bool:
        return wait == "started" and proof.settled and start.seen(status)

    watched = await follow(session, job, limit, look, enough)
    if watched.status.state is JobState.RUNNING and not watched.late:
        session.let_go(job)
        confirmed(session, verdict, session.folder / job / watched.status.attempt)
        return Launched(Training(job, JobState.RUNNING, start.said))
    if never_ran(watched):
        require_machines(watched)
        await to_end(keep_story, session, job, watched.status)
        return Launched(Training(job, watched.status.state, watched.late or watched.status.detail), ran=False)
    return await to_end(ended, session, verdict, watched)


class Start:
    """Whether every node has confirmed itself and become the command: running alone says less.

    Where no node can say so while the job runs (network isolation), it is waited for no longer than checks may take.
    """

    def __init__(self, session: Session, job: str) -> None:
        self.session, self.job = session, job
        self.said = ""
        self._since: float | None = None

    def seen(self, status: JobStatus) -> bool:
        """Whether to wait no longer; `said` is what is missing."""
        if status.state is not JobState.RUNNING:
            return False
        self._since = self._since or time.monotonic()
        if started(self.session, self.job, status):
            return True
        if time.monotonic() - self._since < checks_limit_s(self.session):
            return False
        self.said = "it runs, but not every node has said that it confirmed itself and started"
        return True


def started(session: Session, job: str, status: JobStatus) -> bool:
    """Whether every node of this start has become the command."""
    if status.state is not JobState.RUNNING or not status.attempt:
        return False
    fetch(session, job)
    begun = session.folder / job / status.attempt / "started"
    return len(list(begun.glob("*"))) >= session.setting.declared.nodes


def ended(session: Session, verdict: Judged, watched: Watched) -> Launched:
    """How the job ended, with its last words, and what its nodes found if they checked again."""
    status = watched.status
    state = JobState.FAILED if watched.late else status.state
    rechecked, reason = None, ""
    try:
        folder = fetch_last(session, watched.job)
        confirmed(session, verdict, folder / status.attempt)
        rechecked, reason = _rechecked(session, folder, status.attempt), _failure(folder, status.attempt)
    except (LaunchError, OSError) as error:
        reason = str(error)
    keep_logs(session, watched.job, logged(session.setting.bundle(session.gate_id), status))
    keep_story(session, watched.job, status)
    said = watched.late or reason or _last_line(session, watched.job, status, state)
    if state is not JobState.SUCCEEDED and status.detail and not reason:
        logs = session.setting.store.place(f"gates/{session.gate_id}/logs/{watched.job}")
        said = f"{status.detail}: {said} (logs: {logs})"
    return Launched(Training(watched.job, state, one_line(said, 500)), rechecked)


def _rechecked(session: Session, folder: Path, attempt: str) -> Judged | None:
    """The verdict on what nodes wrote in the training job: only machines that differ write any."""
    files = {} if session.in_job else reports.read_files(folder, attempt)
    if not files:
        return None
    bundle = session.setting.bundle(session.gate_id)
    return judged(session, merge(bundle, attempt, files, iso(session.keeper.lease.taken_at)))


def _failure(folder: Path, attempt: str) -> str:
    """Why a node refused to start, in its own words."""
    for path in sorted((folder / attempt / "failure").glob("*")) if attempt else ():
        if path.is_file() and not path.is_symlink():
            return f"{path.name}: {path.read_bytes()[:2000].decode('utf-8', 'replace').strip()}"
    return ""


def _last_line(session: Session, job: str, status: JobStatus, state: JobState) -> str:
    """The last line of the first node's log, or of the first node that failed."""
    failed = [node for node, code in sorted(status.exit_codes.items()) if code]
    nodes = failed if failed and state is not JobState.SUCCEEDED else sorted(status.exit_codes)
    nodes = nodes or list(session.setting.declared.node_names)
    try:
        log = session.setting.launcher.logs(job, nodes[0], TAIL_BYTES) if nodes else ""
    except LaunchError as error:
        return str(error)
    said = last_words(log)
    return f"{nodes[0]}: {said}" if said else ""


def last_words(log: str) -> str:
    """The line of a log that says most about its end: the command's own last one, before torchrun's account."""
    lines = [line.strip() for line in log.splitlines() if line.strip(" =-_*")]
    own = list(takewhile(lambda line: TORCHRUN not in line, lines))
    codes = [line for line in lines if line.startswith("exitcode")]
    return " ".join([*(own or lines)[-1:], *codes[:1]])
