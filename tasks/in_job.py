"""Checks and training in one job (IN_JOB): the nodes decide by themselves, and the gate judges each start of the job again.

The engine may start the job again after a no-go (SageMaker repairs its cluster first). Each start is judged by its own
reports alone, kept under its own name, and counted; the gate's outcome is that of the last one.

The gate also compares its verdict with the nodes' verdicts, and hands a person's answer to nodes that wait for it.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.documents.answer import AnswerWord, dump_answer
from checks.documents.report import dump, dump_plain
from checks.judge.verdict import failed_nodes
from checks.model import Answer, Report, Verdict
from checks.runner.in_job.spares import next_attempt, without_spares
from checks.value_types import DecodeError
from tasks.approve import ask_for_approval
from tasks.collect import (
    GATED_MARGIN_S,
    GRACE_S,
    check_deadline,
    checks_limit_s,
    fetch_output,
    follow_job,
    has_trained,
    iso_time,
    merge_reports,
    poll_action,
)
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.jobs import JobEnd
from tasks.gate.outcome import JudgedReport, Training
from tasks.gate.progress import Progress, report_progress
from tasks.gate.question import ApprovalAnswer
from tasks.gate.session import Session
from tasks.gate_file.model import Mode
from tasks.judge import load_own_report, report_verdict
from tasks.launch import LaunchResult, TrainingStart, record_confirmations, run_limit_s, training_result
from tasks.launchers.base import JobState, JobStatus
from tasks.orchestration.artifacts import ProgressArtifact
from tasks.render.findings import verdict_json
from tasks.reports import node_reports
from tasks.store import records
from tasks.store.layout import attempt_report_key, attempt_verdict_key, disagreement_key

LOG = logging.getLogger("prelaunch")
SPARE = "a spare, which passed"
# The nodes go on, hold, or end: the further to the right, the stricter.
STRICTNESS = {Answer.GO: 0, Answer.ASK: 1, Answer.NO_GO: 2, Answer.CANNOT_TELL: 2}


class JobStarts:
    """The starts of a job that were judged, in their order, and how many of them trained nothing.

    Of the last one: `notes` are for the reason of the gate's outcome, `refusing` says that nodes refused by themselves,
    `stopped` that the gate ended the job. A job that follows another one begins with the no-gos of that. `chosen` are the starts on
    the nodes that are left without the spares.
    """

    def __init__(self, no_gos: int = 0) -> None:
        self.tokens: list[str] = []
        self.chosen = set[str]()
        self.no_gos = no_gos
        self.notes: list[str] = []
        self.refusing = self.stopped = False

    def next(self, status: JobStatus) -> str:
        """The first start that was not judged yet, "" if there is none."""
        attempts = (*status.earlier, status.attempt)
        return next((token for token in attempts if token and token not in self.tokens), "")

    def judged(self, token: str) -> None:
        """Record that this start has its verdict."""
        self.tokens.append(token)
        self.notes.clear()
        self.refusing = self.stopped = False

    def no_go(self, most: int) -> bool:
        """Count a start that trained nothing; whether it was the last one allowed."""
        self.no_gos += 1
        if self.no_gos >= most:
            self.notes.append(f"no-go {self.no_gos} of {most}: the job was ended")
        return self.no_gos >= most

    @property
    def note(self) -> str:
        """The notes, "" for none."""
        return "; ".join(self.notes)


@task(cache_policy=NO_CACHE, task_run_name="judge the next start of {job}")
async def next_start(session: Session, job: str, starts: JobStarts) -> JudgedReport:
    """The verdict on the next start, once its reports are complete or it is over, or on the job's end without one.

    Raises LaunchRejected, NoCapacity, EngineUnavailable if nobody reported and the engine says why.
    """
    session.proof.clear()
    meter = ProgressArtifact(session.context.gate.cluster.name)
    clock = check_deadline(session, GATED_MARGIN_S)
    decoded = node_reports.NodeReports()
    on_poll, whole_s = poll_action(session, job, meter, clock, decoded), run_limit_s(session)
    # Without a network its nodes may say nothing before the job's end, and decide by themselves all the same.
    # A job that trained before and was started again may train already while nothing is heard of it.
    began, trains = lambda status: bool(starts.next(status)), session.trained
    watched = await follow_job(session, job, whole_s, on_poll, began, trains=trains)
    session.expect_spares(starts.next(watched.status) in starts.chosen)
    on_poll = poll_action(session, job, meter, clock, decoded)
    if (judged := await run_to_end(_kept_verdict, session, starts.next(watched.status))) is not None:
        starts.judged(judged.report.attempt)
        session.left_out = _left_out(session, judged.report, starts)
        return judged

    def enough(status: JobStatus) -> bool:
        return bool(token := starts.next(status)) and (token != status.attempt or clock.complete)

    if not watched.status.state.final and not watched.late:
        watched = await follow_job(
            session, job, checks_limit_s(session), on_poll, enough, clock=clock, trains=trains
        )
    await meter.finish()
    token = starts.next(watched.status)
    over = bool(token) and token != watched.status.attempt
    late = f"its start {token} ended before all reports were complete" if over else watched.late
    status = dataclasses.replace(watched.status, attempt=token)
    report = await run_to_end(merge_reports, session, JobEnd(job, status, late, decoded=decoded))
    starts.judged(token)
    session.left_out = _left_out(session, report, starts)
    return await run_to_end(_judge, session, report)


def _left_out(session: Session, report: Report, starts: JobStarts) -> dict[str, str]:
    """The nodes that the start before had, and this one has not, each with the reason."""
    before = session.previous
    if before is None or report.attempt not in starts.chosen:
        return {}
    names = before.report.declared.node_names or [node.name for node in before.report.nodes]
    left, failed = {node.name for node in report.nodes}, failed_nodes(before.verdict)
    return {name: failed.get(name, f"{name}: {SPARE}") for name in names if name not in left}


def name_spares(session: Session, judged: JudgedReport) -> None:
    """Name the nodes of a GO that do not train, because the training needs fewer: those that did not start beside the others."""
    folder = session.folder / session.checking / judged.report.attempt
    started = {path.name for path in (folder / "started").glob("*")}
    if len(started) == without_spares(judged.report.declared).nodes:
        names = [node.name for node in judged.report.nodes if node.name not in started]
        session.left_out |= {name: f"{name}: {SPARE}" for name in names}


async def follow_chosen(session: Session, judged: JudgedReport, starts: JobStarts) -> bool:
    """Whether a refused job with spares measures again the nodes that are left without the failed ones: a start of its own."""
    chosen = next_attempt(judged.report.attempt)
    if not session.context.declared.spares or not starts.refusing or starts.stopped:
        return False

    async def on_poll(status: JobStatus) -> None:
        report_progress(Progress("checks", "the checks refused; the nodes choose those that go on"))

    def enough(status: JobStatus) -> bool:
        return starts.next(status) == chosen

    limit = session.context.gate.checks.network_s + GRACE_S
    watched = await follow_job(session, session.checking, limit, on_poll, enough, ends=False)
    if starts.next(watched.status) != chosen:
        return False
    starts.chosen.add(chosen)
    session.previous = judged
    return True


async def follow_start(
    session: Session, judged: JudgedReport, starts: JobStarts, wait: str
) -> LaunchResult | None:
    """Follow a start that may train as far as was asked; None if the engine began another one."""
    job = session.checking
    if wait == "verdict":
        session.let_go(job)
        session.proof.append(
            "checks and training are one job: its nodes decide by themselves, and the gate did not wait for them"
        )
        return LaunchResult(Training(job, JobState.RUNNING))
    start, token = TrainingStart(session, job), judged.report.attempt

    async def on_poll(status: JobStatus) -> None:
        report_progress(Progress("training", status.text))

    def enough(status: JobStatus) -> bool:
        return bool(starts.next(status)) or (wait == "started" and start.is_over(status))

    watched = await follow_job(session, job, run_limit_s(session), on_poll, enough, trains=True)
    late = watched.late
    if starts.next(watched.status):
        if not await _counted(session, token, starts):
            return None
        late = "the engine restarted the job after its nodes had refused"
    elif watched.status.state is JobState.RUNNING and not watched.late:
        session.let_go(job)
        record_confirmations(session, judged, session.folder / job / token)
        return LaunchResult(Training(job, JobState.RUNNING, start.missing))
    status = dataclasses.replace(watched.status, attempt=token)
    result = await run_to_end(training_result, session, judged, JobEnd(job, status, late))
    if result.training.state is JobState.SUCCEEDED or not starts.note:
        return result
    detail = "; ".join(filter(None, (result.training.detail, starts.note)))
    return dataclasses.replace(result, training=dataclasses.replace(result.training, detail=detail))


async def wait_for_restart(session: Session, judged: JudgedReport, starts: JobStarts) -> bool:
    """Whether the engine gives a refused job another start: waited for, until the limit or the job's end."""
    context, job = session.context, session.checking
    trained = await note_training(session, judged.report.attempt)
    refused = not trained and starts.no_go(context.gate.training.max_attempts)
    last = refused or judged.verdict.answer is Answer.ASK
    limit = context.gate.checks.network_s + context.gate.checks.stage_s + GRACE_S

    async def on_poll(status: JobStatus) -> None:
        report_progress(Progress("checks", f"the checks refused; state of job {job}: {status.text}"))

    def enough(status: JobStatus) -> bool:
        return bool(starts.next(status)) or (last and status.state is JobState.PENDING)

    watched = await follow_job(session, job, limit, on_poll, enough)
    if starts.next(watched.status) and not last:
        return True
    if not watched.status.state.final and not watched.late:
        await _end_job(session)
    return False


def _kept_verdict(session: Session, token: str) -> JudgedReport | None:
    """The verdict on a start that a dead gate judged: its training may run since then, and its files be gone. Raises StoreError."""
    judged = load_own_report(session, token) if token and session.renewal.lease.adopted else None
    session.judged = judged or session.judged
    return judged


async def _counted(session: Session, attempt: str, starts: JobStarts) -> bool:
    """Whether a start that began after a GO is one too many. Training that was interrupted simply continues, and so does what may have
    trained: that its files cannot be fetched is no refusal.
    """
    trained = await note_training(session, attempt)
    if trained is not False or not starts.no_go(session.context.gate.training.max_attempts):
        return False
    await _end_job(session)
    return True


async def note_training(session: Session, attempt: str = "") -> bool | None:
    """Whether this start trained, by default the one that was judged last; None where that is not known. The session knows of a
    training from then on.
    """
    attempt = attempt or (session.judged.report.attempt if session.judged is not None else "")
    trained = await run_to_end(has_trained, session, session.checking, attempt)
    # An adopted job may have trained for days: a gate that breaks off, and cannot read its files, leaves it.
    session.trained = session.trained or bool(trained) or (trained is None and session.renewal.lease.adopted)
    return trained


async def _end_job(session: Session) -> None:
    """End the job. Raises LaunchError, LeaseLost."""
    await run_to_end(session.require_lock)
    await run_to_end(session.context.launcher.cancel, session.checking)
    session.let_go(session.checking)


def _judge(session: Session, report: Report) -> JudgedReport:
    """The verdict, kept under the start's own name beside the gate's. Raises StoreError."""
    session.judged = judged = report_verdict(session, report)
    if report.attempt:
        store, gate_id = session.context.store, session.gate_id
        store.put(attempt_report_key(gate_id, report.attempt), dump(report))
        store.put(attempt_verdict_key(gate_id, report.attempt), dump_plain(verdict_json(judged.verdict)))
    return judged


async def compare_with_nodes(session: Session, judged: JudgedReport, starts: JobStarts) -> None:
    """Compare the gate's verdict with the nodes'. A difference is recorded; if the gate is the stricter one the job ends."""
    nodes = await _node_verdicts(session, judged, starts)
    mine = judged.verdict
    others = {
        node: vote for node, vote in nodes.items() if (vote.level, vote.answer) != (mine.level, mine.answer)
    }
    starts.refusing = any(STRICTNESS[vote.answer] > 1 for vote in nodes.values())
    if not others:
        return
    votes = ", ".join(f"{node} {vote.answer.value} ({vote.level.value})" for node, vote in others.items())
    message = f"the gate says {mine.answer.value} ({mine.level.value}), its nodes: {votes}"
    most = max(STRICTNESS[vote.answer] for vote in nodes.values())
    stop = STRICTNESS[mine.answer] > most and session.context.gate.policy.mode is not Mode.OBSERVE
    LOG.warning("the verdicts of start %s differ: %s", judged.report.attempt, message)
    await run_to_end(_record, session, judged, nodes, stop)
    starts.stopped = stop
    if stop:
        starts.notes.append(f"{message}; the gate is stricter, so the job was ended")
        await _end_job(session)
    elif most != STRICTNESS[mine.answer]:
        starts.notes.append(message)


async def hand_answer_to_nodes(
    session: Session, judged: JudgedReport, starts: JobStarts, minutes: int
) -> ApprovalAnswer | None:
    """Hand a person's answer to the nodes that wait for it; if none comes in time, the nodes are told to refuse."""
    job, session.answer = session.checking, None  # an answer of before was about another start
    holds = judged.verdict.answer is Answer.ASK and not starts.refusing and not starts.stopped
    if not holds or not minutes or session.context.gate.policy.mode is Mode.OBSERVE:
        return None
    answer = await ask_for_approval(session, judged, minutes)
    decision = AnswerWord.LAUNCH if answer is not None and answer.launches else AnswerWord.REFUSE
    by = answer.who if answer is not None else "nobody"
    reason = answer.note or answer.reason if answer is not None else f"nobody answered in {minutes} minutes"
    attempt = judged.report.attempt
    data = dump_answer(session.gate_id, attempt, decision, by, reason, iso_time(time.time()))
    await run_to_end(session.context.launcher.answer, job, attempt, data)
    report_progress(Progress("checks", f"{decision.value}: sent to the nodes, answered by {by}"))
    return answer


async def _node_verdicts(session: Session, judged: JudgedReport, starts: JobStarts) -> Mapping[str, Verdict]:
    """What each node decided, as far as it is known. While the start is still running this waits for it."""
    job, token = session.checking, judged.report.attempt
    folder, nodes = session.folder / job / token / "verdicts", session.context.declared.nodes

    async def on_poll(status: JobStatus) -> None:
        await run_to_end(fetch_output, session, job)

    def enough(status: JobStatus) -> bool:
        return len(_read(folder)) >= nodes or bool(starts.next(status))

    limit = session.context.gate.checks.network_s + GRACE_S
    if token and len(_read(folder)) < nodes:
        await follow_job(session, job, limit, on_poll, enough, ends=False)
    return _read(folder) if token else {}


def _read(folder: Path) -> dict[str, Verdict]:
    verdicts = {}
    for path in sorted(folder.glob("*.json")):
        try:
            verdicts[path.stem] = records.load(path.read_bytes())
        except (OSError, DecodeError) as error:
            LOG.warning("the verdict of %s cannot be read: %s", path.stem, error)
    return verdicts


def _record(session: Session, judged: JudgedReport, nodes: Mapping[str, Verdict], stop: bool) -> None:
    """Raises StoreError."""
    attempt = judged.report.attempt
    record = {
        "attempt": attempt,
        "gate": {"level": judged.verdict.level, "answer": judged.verdict.answer},
        "nodes": {node: {"level": vote.level, "answer": vote.answer} for node, vote in nodes.items()},
        "stopped": stop,
    }
    session.context.store.put(disagreement_key(session.gate_id, attempt), dump_plain(record))
