"""Starts the training job on the machines that passed, and follows it as far as the request says.

With placement POOLED the machines that were checked are held for the training, and what was seen of them is the proof that the
training got them.

PoolLost            the machines are gone, or somebody else has them, for the second time
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.bundle import pass_of
from checks.judge.cost.cost import price_for
from checks.merge import merge
from checks.runner.in_job.spares import without_spares
from tasks import judge
from tasks.collect import (
    GRACE_S,
    checks_limit_s,
    fetch_final_output,
    follow_job,
    has_trained,
    iso_time,
    keep_logs,
    nodes_to_log,
)
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.cancellation import StopWatch
from tasks.gate.job_failures import never_ran, require_machines
from tasks.gate.jobs import JobEnd, train_job
from tasks.gate.lease.lease import CHECK, TRAIN
from tasks.gate.outcome import JudgedReport, Training
from tasks.gate.predecessor import find_jobs
from tasks.gate.progress import Progress, report_progress
from tasks.gate.session import Session
from tasks.gate.submission import submit_job
from tasks.judge import report_verdict
from tasks.launchers.base import JobState, JobStatus, LaunchError, Placement, RetainedMachines, RetentionState
from tasks.launchers.log_end import FailureCause, NodeLog, cause_of, node_log
from tasks.reports import node_reports
from tasks.store.layout import logs_folder
from tasks.text.inert import one_line
from tasks.text.redact import redacted
from tasks.text.tables import counted

ROUNDS = 2
# How long after the training runs the engine may take to say whose the pool is.
PROOF_S = 60.0
IDENTITIES = (("gpu_uuids", "GPU UUIDs"), ("boot_id", "boot id"), ("pool_token", "token"))


class PoolLost(LaunchError):
    """The machines that were checked are not available any more; the message says who has them."""


async def wait_for_pool(session: Session, judged: JudgedReport) -> bool:
    """Whether the training may be submitted; False: the machines are gone, and the checks begin again.

    Raises PoolLost if that happened before.
    """
    if session.context.launcher.placement is not Placement.POOLED or judged.reused:
        return True
    if session.renewal.lease.adopted and not (await find_jobs(session)).train.absent:
        return True  # it was submitted before its gate died: whatever became of the pool since, it is not begun twice
    check, train = session.renewal.lease.job(CHECK), session.renewal.lease.job(TRAIN)
    pool = await _settled_retention(session, check)
    if pool.state is RetentionState.READY or (pool.state is RetentionState.REUSED and pool.by == train):
        return True
    loss = f"the machines of {check} {_lost(pool)}"
    if session.rounds >= ROUNDS:
        raise PoolLost(
            f"{loss}, after {session.rounds} rounds of checks. Give the pool a role_arn or volume_gb that nobody "
            "else uses, and look at keep_alive_s and the quota for warm pools."
        )
    report_progress(Progress("pool", f"{loss}: the checks start again"))
    await run_to_end(_again, session)
    return False


class PoolProof:
    """Whether the running training has the pool: the engine is asked until it confirms or the time is up."""

    def __init__(self, session: Session, job: str) -> None:
        self.session, self.job = session, job
        self.check = session.renewal.lease.job(CHECK)
        pooled = session.context.launcher.placement is Placement.POOLED
        self.settled = not pooled or session.judged is None or bool(session.judged.reused)
        self._since: float | None = None

    async def ask(self, status: JobStatus) -> None:
        """Ask, if it runs or ran."""
        if not self.settled and (status.state is JobState.RUNNING or status.state.final):
            await run_to_end(self._ask, status.state.final)

    def _ask(self, last: bool) -> None:
        self._since = self._since or time.monotonic()
        retained = _ask_retention(self.session, self.check)
        late = last or time.monotonic() - self._since > PROOF_S
        lacking = f"{self.job} does not have the machines that passed, because they"
        if retained.state is RetentionState.REUSED and retained.by == self.job:
            self._settle(f"{self.job} reused the machines of {self.check}")
        elif retained.state in (RetentionState.REUSED, RetentionState.GONE, RetentionState.NOTHING):
            self._settle(f"{lacking} {_lost(retained)}: its nodes check again")
        elif late:
            # The training runs without the pool, which is billed for nothing: the end of the gate releases it.
            self.session.proof.append(f"{lacking} were still idle while it ran: its nodes check again")
            self.settled = True
            self.session.release_machines()

    def _settle(self, proof: str) -> None:
        self.session.proof.append(proof)
        self.session.let_go(self.check)
        self.settled = True


def pool_waits(session: Session) -> bool:
    """Whether the machines that passed still wait for the training. They are released once the gate file's time is up."""
    check, keeps_s = session.renewal.lease.job(CHECK), session.context.launcher.keeps_s
    since_s = session.kept_s(check)
    if since_s is None:
        return False
    if keeps_s is not None and since_s > keeps_s:
        session.release_machines()
        return False
    return _ask_retention(session, check).state in (RetentionState.READY, RetentionState.COMING)


def pool_cost_now(session: Session) -> str:
    """What the machines cost that wait for the training, and for how long they will; "" if none wait."""
    since_s, keeps_s = session.kept_s(session.renewal.lease.job(CHECK)), session.context.launcher.keeps_s
    if since_s is None:
        return ""
    most = "" if keeps_s is None else f" for {max(0.0, keeps_s - since_s) / 60:.0f} more minutes at most"
    return f"Kept for the training{most}: {nodes_text(session)} at {price_text(session, 1.0)} per hour."


def pool_cost_so_far(session: Session) -> str:
    """What the waiting machines have cost so far; "" if none wait."""
    since_s = session.kept_s(session.renewal.lease.job(CHECK))
    if since_s is None:
        return ""
    cost = price_text(session, since_s / 3600)
    return f"{nodes_text(session)} waited for it for {since_s / 60:.1f} minutes ({cost})."


def nodes_text(session: Session) -> str:
    """ "2 nodes"."""
    return counted(session.context.declared.nodes, "node")


def price_text(session: Session, hours: float) -> str:
    """What all nodes cost in this time."""
    declared, terms = session.context.declared, session.context.terms
    price = price_for(declared.instance_type, terms)
    if price is None:
        return f"an unknown price of {declared.instance_type}"
    return f"{declared.nodes * hours * price.usd_per_node_hour:,.0f} USD"


def hand_over_pool(session: Session, job: str) -> None:
    """Let the pool outlive the gate, because the training does before anything was seen of it."""
    check = session.renewal.lease.job(CHECK)
    if session.context.launcher.placement is Placement.POOLED and not (
        session.judged and session.judged.reused
    ):
        session.proof.append(
            f"the machines of {check} were ready when {job} was submitted; the gate did not wait for proof that {job} got them. The "
            "nodes compare themselves with the machines that passed, and check again where they differ"
        )
    session.let_go(check)
    session.let_go(job)


def record_confirmations(session: Session, judged: JudgedReport, folder: Path) -> None:
    """Record what the training's nodes confirmed about themselves, from the folder of its attempt."""
    nodes = without_spares(session.context.declared).nodes
    started = len(list((folder / "started").glob("*")))
    checked = any((folder / "verdicts").glob("*.json")) or any((folder / "nodes").glob("*.json"))
    if session.in_job:
        if started >= nodes:
            session.proof.append(f"all {nodes} nodes checked themselves and trained, in one start of one job")
    elif checked:
        session.proof.append("not all hosts are the machines that passed, so they checked again")
    elif started >= nodes:
        hosts = [node.identity for node in judged.report.nodes]
        confirmed = [label for key, label in IDENTITIES if hosts and all(host.get(key) for host in hosts)]
        session.proof.append(f"all {nodes} hosts confirmed: {', '.join(confirmed) or 'host'}")


async def _settled_retention(session: Session, check: str) -> RetainedMachines:
    """The engine's answer, once it has one; without one in time the pool counts as lost."""
    stop, begun = StopWatch(session), time.monotonic()
    while True:
        await stop.check()
        retained = await run_to_end(_ask_retention, session, check)
        if retained.state is not RetentionState.COMING or time.monotonic() - begun > retained.within_s:
            return retained
        report_progress(Progress("pool", f"waiting for the machines of {check}: {retained.detail}"))
        await asyncio.sleep(session.context.launcher.poll_s)


def _ask_retention(session: Session, check: str) -> RetainedMachines:
    """An engine that does not answer is asked again."""
    try:
        return session.context.launcher.retained_machines(check)
    except LaunchError as error:
        return RetainedMachines(RetentionState.COMING, one_line(str(error)))


def _lost(retained: RetainedMachines) -> str:
    detail = f" ({retained.detail})" if retained.detail else ""
    if retained.state is RetentionState.REUSED:
        return f"were taken by {retained.by or 'another job'}{detail}"
    if retained.state is RetentionState.COMING:
        return f"were not ready within {retained.within_s:.0f} s{detail}"
    return f"are no longer available{detail}"


def _again(session: Session) -> None:
    """Begin again with the checks, because the machines that passed are gone. Raises LaunchError, LeaseLost, StoreError."""
    session.rounds += 1
    judge.void_pass(session)
    session.begin_again()


@dataclass(frozen=True)
class LaunchResult:
    """The training job, and the verdict of the nodes themselves where they had to check again in place.

    `ran` is False if the engine ended the job before anything ran.
    """

    training: Training
    rechecked: JudgedReport | None = None
    ran: bool = True


@task(cache_policy=NO_CACHE, task_run_name="launch training of {session.gate_id}")
async def launch_training(session: Session, verdict: JudgedReport) -> str:
    """Submit the training job, or adopt the one that a predecessor started; returns its name."""
    name = session.renewal.lease.job(TRAIN)
    before = "" if verdict.reused else session.renewal.lease.job(CHECK)
    proven = pass_of(verdict.report, verdict.verdict)
    job = train_job(session.context, session.gate_id, name, proven, before)
    session.training = name
    await run_to_end(submit_job, session, replace(job, tags=session.tags))
    report_progress(Progress("training", f"{name} submitted"))
    return name


@task(cache_policy=NO_CACHE, task_run_name="wait until training is {wait}")
async def follow_training(session: Session, verdict: JudgedReport, job: str, wait: str) -> LaunchResult:
    """Wait as requested: "verdict" not at all, "started" until the training runs, "finished" until it ended.

    Raises NoCapacity and QuotaExceeded if it got no machines: nothing of it is left then.
    """
    if wait == "verdict":
        hand_over_pool(session, job)
        return LaunchResult(Training(job, JobState.PENDING))
    proof, start = PoolProof(session, job), TrainingStart(session, job)

    async def on_poll(status: JobStatus) -> None:
        session.trained = session.trained or status.state is JobState.RUNNING
        waits = status.state is JobState.PENDING and await run_to_end(pool_waits, session)
        cost = pool_cost_now(session) if waits else ""
        report_progress(Progress("training", " ".join(filter(None, (status.text, cost)))))
        if not never_ran(JobEnd(job, status, ran=session.trained)):
            await proof.ask(status)

    def enough(status: JobStatus) -> bool:
        return wait == "started" and proof.settled and start.is_over(status)

    watched = await follow_job(session, job, run_limit_s(session), on_poll, enough, trains=True)
    if watched.status.state is JobState.RUNNING and not watched.late:
        session.let_go(job)
        record_confirmations(session, verdict, session.folder / job / watched.status.attempt)
        return LaunchResult(Training(job, JobState.RUNNING, start.missing))
    if never_ran(watched):
        require_machines(watched)
        return LaunchResult(
            Training(job, watched.status.state, watched.late or watched.status.detail), ran=False
        )
    return await run_to_end(training_result, session, verdict, watched)


def run_limit_s(session: Session) -> float:
    """How long the job of the training may run until its engine says that it ended, which may upload its output before."""
    training, ends_s = session.context.gate.training, session.context.launcher.delays.ends_s
    more_s = checks_limit_s(session) if session.in_job else GRACE_S
    return training.max_runtime_minutes * 60 + more_s + ends_s


class TrainingStart:
    """Whether every node has confirmed its identity and become the command. A job that only runs may not have got that far.

    Where no node can say so while the job runs (network isolation), it is waited for no longer than checks may take.
    """

    def __init__(self, session: Session, job: str) -> None:
        self.session, self.job = session, job
        self.missing = ""
        self._since: float | None = None

    def is_over(self, status: JobStatus) -> bool:
        """Whether the wait is over; `missing` is what nobody has reported."""
        if status.state is not JobState.RUNNING:
            return False
        self._since = self._since or time.monotonic()
        if has_started(self.session, self.job, status):
            return True
        if time.monotonic() - self._since < checks_limit_s(self.session):
            return False
        self.missing = "it runs, but not every node has reported that it confirmed itself and started"
        return True


def has_started(session: Session, job: str, status: JobStatus) -> bool:
    """Whether every node of this start has become the command."""
    runs = status.state is JobState.RUNNING and bool(status.attempt)
    return runs and bool(has_trained(session, job, status.attempt))


def training_result(session: Session, verdict: JudgedReport, watched: JobEnd) -> LaunchResult:
    """How the job ended, with the end of its log, and what its nodes found if they checked again."""
    status = watched.status
    state = JobState.FAILED if watched.late else status.state
    if watched.may_run:
        state = JobState.UNKNOWN
    rechecked, refused, reason = None, FailureCause(), ""
    try:
        folder = fetch_final_output(session, watched.job)
        record_confirmations(session, verdict, folder / status.attempt)
        rechecked, refused = _rechecked(session, folder, status.attempt), _failure(folder, status.attempt)
        reason = refused.cause
    except (LaunchError, OSError) as error:
        reason = str(error)
    read: list[NodeLog] = []
    keep_logs(
        session.context,
        session.gate_id,
        watched.job,
        nodes_to_log(session.context.bundle(session.gate_id), status),
        lambda node, log: read.append(node_log(node, log)),
    )
    last_lines = _last_words(read, status, state)
    if state is JobState.SUCCEEDED:
        return LaunchResult(
            Training(watched.job, state, one_line(watched.late or reason or last_lines.text, 500)), rechecked
        )
    cause = watched.late or reason or last_lines.cause or status.detail
    more = [] if watched.late or reason else list(last_lines.ends)
    if status.detail and not reason:
        more += [status.detail] if status.detail != cause else []
        more += [f"logs: {session.context.store.location(logs_folder(session.gate_id, watched.job))}"]
    source = refused if reason else last_lines
    node = "" if watched.late else source.node
    return LaunchResult(
        Training(watched.job, state, one_line("; ".join(more), 700), one_line(cause, 300), node), rechecked
    )


def _rechecked(session: Session, folder: Path, attempt: str) -> JudgedReport | None:
    """The verdict on what nodes wrote in the training job: only machines that differ write any."""
    files = {} if session.in_job else node_reports.read_files(folder, attempt)
    if not files:
        return None
    bundle = session.context.bundle(session.gate_id)
    started = iso_time(session.renewal.lease.taken_at)
    return report_verdict(session, merge(bundle, attempt, files, started, node_reports.NodeReports().load))


def _failure(folder: Path, attempt: str) -> FailureCause:
    """Why a node refused to start, in its own words."""
    paths = sorted((folder / attempt / "failure").glob("*")) if attempt else []
    for path in (path for path in paths if path.is_file() and not path.is_symlink()):
        text = redacted(path.read_bytes()[:2000].decode("utf-8", "replace").strip())
        return FailureCause(f"{path.name}: {text}", (), path.name if len(paths) == 1 else "")
    return FailureCause()


def _last_words(read: Sequence[NodeLog], status: JobStatus, state: JobState) -> FailureCause:
    """What the logs say of the end; if the training failed, those of the nodes that failed."""
    failed = [log for log in read if status.exit_codes.get(log.node) and log.node not in status.ended]
    if state is JobState.SUCCEEDED:
        return next((FailureCause(f"{log.node}: {log.last}") for log in read if log.last), FailureCause())
    cause, bad = cause_of(failed or read), [node for node, code in status.exit_codes.items() if code]
    return replace(cause, node=bad[0]) if not cause.node and len(bad) == 1 else cause
