"""Follows a job until it ends, and merges what its nodes wrote into one report.

A job is polled state by state, with a deadline, and its progress is published. The checks' deadline counts on the nodes. The gate
sees it begin with the first report of a node; if there is none, `begins_s` after the engine first said that the job runs. A wait for
machines does not count. An engine or a folder that does not answer is given up in time, and what was fetched before is judged.

What is missing is named in the report, with the end of the job's log as proof. The complete evidence files and the nodes' logs
are kept in the store beside the report.
"""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from checks.bundle import Bundle
from checks.judge.machine_identity import ENGINE_BOOT_ID
from checks.merge import merge
from checks.model import Node, NodeEnd, Report
from checks.runner.deadline import ANSWER_S, limited
from checks.runner.in_job.spares import without_spares
from tasks.gate.blocking_calls import ask_state, run_to_end, run_within
from tasks.gate.cancellation import StopWatch
from tasks.gate.context import GateContext
from tasks.gate.job_failures import HISTORY_LINES, end_said, ending_text, require_reports, starts_said
from tasks.gate.job_times import JobTimes, TrainingNotices
from tasks.gate.jobs import JobEnd, images_of
from tasks.gate.progress import Progress, report_progress
from tasks.gate.session import Session
from tasks.launchers.base import Delays, JobState, JobStatus, LaunchError
from tasks.launchers.log_end import read_log
from tasks.orchestration.artifacts import ProgressArtifact
from tasks.reports import node_reports
from tasks.reports.node_reports import NodeReports, ReportCounts, WaitLog, waited_for
from tasks.store.base import StoreError
from tasks.store.layout import evidence_key, log_key
from tasks.text.inert import one_line
from tasks.text.redact import redacted, redacted_gzip

LOG = logging.getLogger("prelaunch")
SLOWEST_POLL_S = 5.0
GRACE_S = 30.0
# The 5 s from the nodes' deadline to the verdict are 3 for what a node wrote last to arrive, and 2 to judge and to keep it. Nodes
# that decide by themselves (IN_JOB) have one more, for their own answer.
MARGIN_S, GATED_MARGIN_S = 3.0, 4.0
LONGEST_LOOK_S, LEAST_LOOK_S = 60.0, 0.5
LOG_BYTES = 1 << 18
EVIDENCE_FILES = 10_000
LOGGED_NODES = 8
TAIL_BYTES = 2048
LogReader = Callable[[str, str], None]  # a node, and the end of its log
STORY_CHARACTERS = 1200


@dataclass
class CheckDeadline:
    """When the checks of one start of a job began, and when the gate stops waiting for them, in time.monotonic().

    The nodes' reports are whole at their deadline; `margin_s` later they are looked at for the last time. `reported` is a start.
    """

    deadline_s: float
    delays: Delays
    margin_s: float = MARGIN_S
    runs_since: float | None = None
    begun: float | None = None
    complete: bool = False
    reported: str = ""

    def see(self, state: JobState, attempt: str, now: float) -> None:
        """Take in what one poll found: the engine's state, and the start of which a node reports, or "". A job that ran and waits
        again will check from the beginning.
        """
        if state is JobState.PENDING and self.runs_since is not None:
            self.runs_since = self.begun = None
        if state is JobState.RUNNING and self.runs_since is None:
            self.runs_since = now
        if attempt not in ("", self.reported) and self.begun is None:
            self.reported, self.begun = attempt, now

    @property
    def gives_up_at(self) -> float:
        """When the gate stops waiting. Once every report is complete (`complete`) the engine only has to say that the job ended."""
        if self.begun is not None:
            late_s = self.delays.ends_s if self.complete else self.delays.reports_s
            return self.begun + self.deadline_s + self.margin_s + late_s
        if self.runs_since is not None:
            return self.runs_since + self.delays.begins_s + self.deadline_s + self.margin_s
        return math.inf

    @property
    def answer_by(self) -> float:
        """The time by which the verdict must exist."""
        return self.gives_up_at - self.margin_s + ANSWER_S


def check_deadline(session: Session, margin_s: float = MARGIN_S) -> CheckDeadline:
    """The deadline of a job whose nodes run checks, before the gate has seen anything of the job."""
    context = session.context
    return CheckDeadline(context.gate.checks.whole_deadline_s, context.launcher.delays, margin_s)


@task(cache_policy=NO_CACHE, task_run_name="watch {job}")
async def wait_for_checks(session: Session, job: str) -> JobEnd:
    """Wait for the health check; it is ended when it outlives its time."""
    meter = ProgressArtifact(session.context.gate.cluster.name)
    clock, decoded = check_deadline(session), NodeReports()
    on_poll = poll_action(session, job, meter, clock, decoded)
    watched = await follow_job(session, job, checks_limit_s(session), on_poll, clock=clock)
    await meter.finish()
    return replace(watched, decoded=decoded)


def checks_limit_s(session: Session) -> float:
    """How long checks may run."""
    return session.context.gate.checks.max_runtime_minutes * 60 + GRACE_S


def poll_action(
    session: Session, job: str, meter: ProgressArtifact, clock: CheckDeadline, decoded: NodeReports
) -> Callable[[JobStatus], Awaitable[None]]:
    """What to do at each poll: fetch what was written so far, and publish the progress."""
    bundle, waits = session.context.bundle(session.gate_id), WaitLog()

    async def on_poll(status: JobStatus) -> None:
        try:
            await run_within(_patience_s(clock), fetch_output, session, job)
        except TimeoutError as error:
            report_progress(Progress("checks", f"the output of {job} cannot be fetched: {error}"))
        files = node_reports.read_files(session.folder / job, status.attempt)
        counts = node_reports.count_observations(bundle, files, decoded)
        clock.see(status.state, status.attempt if files else "", time.monotonic())
        clock.complete = node_reports.all_complete(bundle, files, decoded)
        session.answer_by = clock.answer_by
        late = waited_for(bundle.declared, counts)
        if due := waits.due(late, time.monotonic()):
            _log_of_run().info("%s %s", job, due)
        sentence = status.text
        if counts.nodes or status.state is not JobState.PENDING:
            sentence = "; ".join(filter(None, (progress_sentence(bundle, counts), late)))
        report_progress(Progress("checks", sentence, counts.done, counts.total, nodes=counts.by_node))
        await meter.show(100.0 * counts.done / max(counts.total, 1), sentence)

    return on_poll


def _log_of_run() -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
    """The log of the run in Prefect; outside of a run the program's own."""
    try:
        return get_run_logger()
    except MissingContextError:
        return LOG


async def follow_job(
    session: Session,
    job: str,
    limit_s: float,
    on_poll: Callable[[JobStatus], Awaitable[None]],
    enough: Callable[[JobStatus], bool] = lambda status: status.state.final,
    ends: bool = True,
    clock: CheckDeadline | None = None,
    trains: bool = False,
) -> JobEnd:
    """Poll until `enough`, or until the time is up: then the job is ended, if it `ends`. Raises LeaseLost, RunCancelled.

    `limit_s` is of running: for its machines a job may wait as long as the launcher says. `clock` bounds the checks: where
    they are given up, the job is ended while its reports are judged. A job that `trains` after a GO is never ended because nothing
    is heard of it, or because it waits for machines again; one whose nodes decide has run by then.
    """
    launcher, stop, notices = session.context.launcher, StopWatch(session), TrainingNotices(session, job)
    times = JobTimes(trains and (session.in_job or session.trained))
    begun, pause = (last := time.monotonic()), 0.0
    status = JobStatus(JobState.UNKNOWN, "not asked yet", "", {})
    while True:
        await stop.check()
        status = await ask_state(launcher, job, _patience_s(clock), status)
        now = time.monotonic()
        # A question and a fetch end within LONGEST_LOOK_S each: in a longer gap this process stood still.
        passed_s, last = min(now - last, pause + 2 * LONGEST_LOOK_S), now
        session.statuses[job] = status = times.settle(status, passed_s, trains or session.in_job)
        if trains:
            await run_to_end(notices.see, times, status.detail)
        await on_poll(status)
        if status.state.final or enough(status):
            if status.state.final:
                session.ended(job)
            return JobEnd(job, status, ran=times.ran)
        unheard = trains and status.state is JobState.UNKNOWN
        if clock is not None and time.monotonic() >= clock.gives_up_at and not unheard:
            if ends:
                session.end_soon(job)
            late = f"its checks were stopped at their deadline of {clock.deadline_s:g} s"
            return JobEnd(job, status, late, times.ran)
        late = times.reason_to_end(launcher, status, limit_s, trains)
        if late:
            end = JobEnd(job, status, late, times.ran)
            return await run_to_end(_end_late, session, end) if ends else end
        until = clock.gives_up_at if clock is not None and not unheard else math.inf
        pause = min(poll_pause_s(launcher.poll_s, now - begun), max(until - time.monotonic(), 0.0))
        await asyncio.sleep(pause)


def _end_late(session: Session, late: JobEnd) -> JobEnd:
    """End the job whose time is up, and say whether that was possible: it may run on. Raises LeaseLost."""
    session.require_lock()
    ended = session.end_now(late.job)
    if late.status.absent:
        return replace(late, may_run=not ended)
    more = ", so it was ended" if ended else "; it could not be ended, and may run on"
    return replace(late, late=f"{late.late}{more}", may_run=not ended)


def _patience_s(clock: CheckDeadline | None) -> float:
    """How long one question to the engine may take."""
    if clock is None:
        return LONGEST_LOOK_S
    return min(LONGEST_LOOK_S, max(clock.gives_up_at - time.monotonic(), LEAST_LOOK_S))


def poll_pause_s(poll_s: float, since_s: float) -> float:
    """How long to wait until the next poll: a job that takes long is polled less often."""
    return min(max(SLOWEST_POLL_S, 3 * poll_s), max(poll_s, since_s / 100))


def fetch_output(session: Session, job: str) -> bool:
    """Copy what the job wrote so far; whether all of it came. A file that cannot be copied now is tried again the next time."""
    try:
        session.context.launcher.fetch(job, session.folder / job)
    except LaunchError as error:
        report_progress(Progress("checks", str(error)))
        return False
    return True


def has_trained(session: Session, job: str, attempt: str = "") -> bool | None:
    """Whether every node of this start has become the command, or without one any node of any start; None where that is not known,
    because the files cannot be fetched.
    """
    fetched = fetch_output(session, job)
    begun = len(list((session.folder / job).glob(f"{attempt or '*'}/started/*")))
    wanted = without_spares(session.context.declared).nodes if attempt else 1
    return begun >= wanted or (False if fetched else None)


def fetch_final_output(session: Session, job: str) -> Path:
    """Fetch what the job left, anew; a report that came earlier is not lost. Raises LaunchError, OSError."""
    folder, fresh = session.folder / job, session.folder / f"{job}.last"
    shutil.rmtree(fresh, ignore_errors=True)
    session.context.launcher.fetch(job, fresh)
    node_reports.keep_read(folder, fresh)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return folder


def progress_sentence(bundle: Bundle, counts: ReportCounts) -> str:
    """ "2 of 2 nodes report, 14 of 27 observations, now compute.gemm"."""
    nodes = bundle.declared.nodes
    doing = f", now {counts.doing}" if counts.doing else ""
    return f"{counts.nodes} of {nodes} nodes report, {counts.done} of {counts.total} observations{doing}"


def keep_evidence(session: Session, folder: Path) -> None:
    """Every evidence/<sha256>.gz of an attempt's folder -> gates/<gate id>/evidence, without secrets. Raises StoreError."""
    put = session.context.store.put
    for path in sorted((folder / "evidence").glob("*.gz"))[:EVIDENCE_FILES]:
        if path.is_file() and not path.is_symlink():
            put(evidence_key(session.gate_id, path.name), redacted_gzip(path.read_bytes()))


def keep_logs(
    context: GateContext, gate_id: str, job: str, nodes: Iterable[str], on_log: LogReader | None = None
) -> None:
    """The end of each node's log -> gates/<gate id>/logs/<job>, and to `on_log`. One that cannot be kept is reported."""
    for node in nodes:
        try:
            text = read_log(context.launcher, job, node, LOG_BYTES)
            if on_log is not None:
                on_log(node, text)
            context.store.put(log_key(gate_id, job, node), text.encode("utf-8", "replace"))
        except (LaunchError, StoreError) as error:
            report_progress(Progress("checks", f"the log of {node} could not be stored: {error}"))


@task(cache_policy=NO_CACHE, task_run_name="collect {watched.job}")
async def collect_report(session: Session, watched: JobEnd) -> Report:
    """The report of the job's current attempt.

    Raises LaunchRejected, NoCapacity, EngineUnavailable if no node reported and the engine says why.
    """
    return await run_to_end(merge_reports, session, watched)


def merge_reports(session: Session, watched: JobEnd) -> Report:
    """Fetch for the last time and merge; what could not be fetched counts as missing evidence."""
    bundle, started = session.context.bundle(session.gate_id), iso_time(session.renewal.lease.taken_at)
    try:
        folder, problems = limited(session.left_s(), lambda: fetch_final_output(session, watched.job)), []
    except (LaunchError, OSError) as error:
        folder = session.folder / watched.job
        problems = [one_line(f"the reports could not be fetched: {error}")]
    limit_s = session.left_s() / 2  # what the engine says beside the reports must not cost the verdict
    files = node_reports.read_files(folder, watched.status.attempt)
    # A node that hangs has not ended, and its log is the one that somebody needs; last, because its engine may not answer for it.
    unfinished = node_reports.unfinished_nodes(bundle, files, watched.decoded)[:LOGGED_NODES]
    logged = tuple(dict.fromkeys([*nodes_to_log(bundle, watched.status), *unfinished]))
    _keep(partial(keep_evidence, session, folder / watched.status.attempt), "raw output", limit_s)
    logs: dict[str, str] = {}
    keep = partial(keep_logs, session.context, session.gate_id, watched.job, logged, logs.__setitem__)
    _keep(keep, "the logs", limit_s)
    if not files and not problems:
        require_reports(watched, logs.values())
    bundle = replace(bundle, certificates=session.certificates)
    report = merge(bundle, watched.status.attempt, files, started, watched.decoded.load)
    report = with_engine_identity(report, watched.status.machines)
    session.restarts = starts_said(folder, watched.status)
    if not node_reports.all_complete(bundle, files, watched.decoded):
        problems += _about_job(watched, bool(files))
        report = replace(report, ends=tuple(_ends(bundle, files, watched, session)))
    collection = tuple(map(redacted, (*report.collection, *problems)))
    return replace(report, collection=collection, images=images_of(session.context))


def with_engine_identity(report: Report, machines: Mapping[str, Mapping[str, str]]) -> Report:
    """The report with what the engine says of each node's machine. A node cannot say for itself which boot its engine knows.

    Where the engine has a node on another machine by now, the report stays about the one that it names, and evidence is missing.
    """
    nodes, problems = list[Node](), list[str]()
    for node in report.nodes:
        own = {key: value for key, value in node.identity.items() if key != ENGINE_BOOT_ID}
        engine = machines.get(node.name, {})
        reported, current = own.get("engine_node", ""), engine.get("engine_node", "")
        if reported and current and reported != current:
            text = f"{node.name} reported from {reported:.80}, and the engine has it on {current}, which was not measured"
            problems.append(one_line(text))
            engine = {}
        nodes.append(replace(node, identity={**own, **engine}))
    return replace(report, nodes=tuple(nodes), collection=(*report.collection, *problems))


def _keep(keep: Callable[[], object], subject: str, limit_s: float) -> None:
    """Store something that no decision depends on; if that fails or hangs, it is logged."""
    try:
        limited(limit_s, keep)
    except TimeoutError as error:
        LOG.warning("%s could not be stored: %s", subject, error)


def nodes_to_log(bundle: Bundle, status: JobStatus) -> list[str]:
    """The nodes whose logs are worth keeping: those that ended, or all of them if the engine does not report single nodes."""
    return sorted(status.exit_codes) or (list(bundle.declared.node_names) if status.state.final else [])


def iso_time(unix_s: float) -> str:
    """The time as ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


def _about_job(watched: JobEnd, any_report: bool) -> Iterator[str]:
    """Why reports are missing, as far as the engine can tell: evidence, never a verdict on a machine."""
    status = watched.status
    if watched.late:
        yield one_line(f"job {watched.job}: {watched.late}")
    elif status.state is not JobState.SUCCEEDED or not any_report:
        yield one_line(f"the job {watched.job} {ending_text(status)}: {status.detail}")
    if states := "; ".join(status.history[-HISTORY_LINES:]):
        yield one_line(f"states of {watched.job}, reported by the engine: {states}", STORY_CHARACTERS)


def _ends(bundle: Bundle, files: Mapping[str, bytes], watched: JobEnd, session: Session) -> Iterator[NodeEnd]:
    """How the nodes without a complete report ended."""
    status, codes = watched.status, (*watched.status.lost, *watched.status.exit_codes)
    for node in node_reports.unfinished_nodes(bundle, files, watched.decoded, codes)[:LOGGED_NODES]:
        tail = one_line(_tail(session, watched.job, node)[-400:], 400)
        code = status.exit_codes.get(node)
        yield NodeEnd(
            node, code, tail, status.lost.get(node) or ("" if code is not None else end_said(watched))
        )


def _tail(session: Session, job: str, node: str) -> str:
    launcher = session.context.launcher
    try:
        return limited(session.left_s() / 4, lambda: read_log(launcher, job, node, TAIL_BYTES))
    except (LaunchError, TimeoutError) as error:
        return str(error)
