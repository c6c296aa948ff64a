"""Judges a report with the one pure function, and reuses a fresh PASS of the same checks on the same cluster from our own store.

A PASS is reused only for machines whose identities are known: the training job confirms them on every node before it
starts, and repeats the checks there if they differ. The kept report is judged again; the kept verdict is not trusted. A PASS ends
before a gate of the cluster measures again, however that gate ends, and a new one is kept for the next gate.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.documents.report import Version, digest, dump_plain, load
from checks.judge.clocks import seconds_of
from checks.judge.verdict import decide
from checks.model import SCHEMA_VERSION, Answer, Level, Report, Verdict
from checks.model_details import Images
from checks.value_types import DecodeError
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.jobs import images_of
from tasks.gate.outcome import JudgedReport
from tasks.gate.predecessor import find_jobs, report_takeover
from tasks.gate.progress import Progress, report_progress
from tasks.gate.session import Session
from tasks.gate.submission import doubts_of
from tasks.gate_file.cost_terms import cost_of
from tasks.launchers.base import Placement
from tasks.render.context import verdict_context
from tasks.render.headline import measured_before
from tasks.render.remedy_commands import engine_of
from tasks.store import records
from tasks.store.base import StoreError, document_at
from tasks.store.layout import attempt_report_key, logs_folder, pass_key, report_key
from tasks.store.records import judged_report

NOWHERE = (
    "Placement none: the training may run on other machines. Its nodes compare themselves with the machines that passed, "
    "and check again where they differ"
)
# Clocks of nodes and flow may differ a little; a PASS from further ahead is none.
AHEAD_S = 60.0
# A longer one would be cut, and a command that is cut does something else.
LONGEST_COMMAND = 500
NEEDED = ("host", "boot_id")


@task(cache_policy=NO_CACHE, task_run_name="judge {session.gate_id}")
async def judge_report(session: Session, report: Report) -> JudgedReport:
    """What the report says, under the gate's policy."""
    session.judged = report_verdict(session, report)
    return session.judged


def report_verdict(session: Session, report: Report, report_digest: str = "") -> JudgedReport:
    """The report with its verdict; `report_digest` is of the bytes that it was loaded from, if it was."""
    context = session.context
    verdict = decide(report, context.policy, context.facts, context.baseline, report_digest=report_digest)
    placement_lines = (NOWHERE,) if context.launcher.placement is Placement.NONE else ()
    doubts = doubts_of(session) if verdict.answer is not Answer.GO else ()
    cost = cost_of(report, verdict, context.terms)
    # Only a pool is kept after the checks, so only there is something to let go.
    pool = session.checking if context.launcher.placement is Placement.POOLED else ""
    cluster = context.gate.cluster
    launcher = engine_of(cluster.launcher, cluster.options)
    restarts = tuple(f"{line[:1].upper()}{line[1:]}." for line in session.restarts)
    lines = (*doubts, *placement_lines, *restarts)
    extra = verdict_context(report, context.policy, verdict, launcher, pool, lines, cost, context.facts)
    judged_at = _judged_before(session) if report_digest else None
    age = measured_before(judged_at or time.time(), seconds_of(report.measured_at))
    retry = retry_command(session, verdict, extra.site.engine_nodes)
    logs = session.context.store.location(logs_folder(session.gate_id, session.checking))
    may_start = session.launches and verdict.answer is Answer.GO
    extra = replace(extra, site=replace(extra.site, logs=logs), images=_images(session, report), measured=age)
    return JudgedReport(
        report, verdict, context=replace(extra, doubts=doubts, retry=retry, may_start=may_start)
    )


def retry_command(session: Session, verdict: Verdict, names: Mapping[str, str]) -> str:
    """The command that tries again without the nodes that failed, where the launcher can leave nodes out."""
    if verdict.answer is not Answer.NO_GO or verdict.suspect_policy or not verdict.condemned:
        return ""
    failed = dict.fromkeys((*session.excluded, *(names.get(node, node) for node in verdict.condemned)))
    option = session.context.launcher.without(tuple(failed))
    only = () if session.launches else ("--check-only",)
    file = os.path.abspath(session.context.file)
    command = shlex.join(("prelaunch", "gate", file, *only, "--set", option))
    return command if option and len(command) < LONGEST_COMMAND else ""


def _judged_before(session: Session) -> float | None:
    """When this gate judged the report that it kept (Unix seconds); None where it had not yet, or nobody can say."""
    try:
        record = records.read(session.context.store, session.gate_id)
    except (DecodeError, StoreError):
        return None
    return None if record is None else seconds_of(record.judged_at)


def _images(session: Session, report: Report) -> Images | None:
    """Where the report was measured, which may have been in an earlier gate, and where this gate's training runs."""
    own = images_of(session.context)
    checks, training = report.images.checks if report.images else "", own.training if own else ""
    return Images(checks, training) if checks or training else None


@dataclass(frozen=True)
class KeptPass:
    """Where the last PASS of a cluster is stored, and what it depends on. `judged_at` is in Unix seconds."""

    schema_version: Version
    gate_id: str
    fingerprint: str
    report: str
    judged_at: float


def keep_pass(session: Session, judged: JudgedReport, now: float) -> None:
    """Keep a PASS for later gates. Raises StoreError."""
    if judged.reused or not _stands(session, judged):
        return
    data = session.context.store.get(report_key(session.gate_id)) or b""
    kept_pass = KeptPass(SCHEMA_VERSION, session.gate_id, session.context.fingerprint, digest(data), now)
    session.context.store.put(_key(session), dump_plain(kept_pass))


def void_pass(session: Session) -> None:
    """Remove the cluster's PASS. Raises StoreError."""
    session.context.store.delete(_key(session))


def find_fresh_pass(session: Session, now: float) -> JudgedReport | None:
    """A PASS that this gate may reuse. Raises StoreError."""
    minutes = session.context.gate.policy.reuse_pass_minutes
    store = session.context.store
    try:
        kept_pass = document_at(store, _key(session), KeptPass, 1 << 16) if minutes else None
        if kept_pass is None or kept_pass.fingerprint != session.context.fingerprint:
            return None
        report = judged_report(store, report_key(kept_pass.gate_id), kept_pass.report)
    except DecodeError:
        return None
    measured_at = seconds_of(report.measured_at)
    if measured_at is None:
        return None
    ages = [now - measured_at, now - kept_pass.judged_at]
    if max(ages) > minutes * 60 or min(ages) < -AHEAD_S:
        return None
    again = report_verdict(session, report, kept_pass.report)
    return replace(again, reused=kept_pass.gate_id) if _stands(session, again) else None


def load_own_report(session: Session, attempt: str = "") -> JudgedReport | None:
    """The report that this gate itself kept before it launched, as its training runs, or for this start of its job. Raises
    StoreError.
    """
    try:
        again = judge_again(session, attempt)
    except DecodeError:
        return None
    return again if again.report.gate_id == session.gate_id else replace(again, reused=again.report.gate_id)


def judge_again(session: Session, attempt: str = "") -> JudgedReport:
    """The verdict on the report that this gate kept, or kept for this start of its job. Raises DecodeError if there is none that can
    be read, and StoreError.
    """
    key = attempt_report_key(session.gate_id, attempt) if attempt else report_key(session.gate_id)
    data = session.context.store.get(key) or b""
    return report_verdict(session, load(data), digest(data))


def _stands(session: Session, judged: JudgedReport) -> bool:
    verdict, declared = judged.verdict, session.context.declared
    whole = verdict.answer is Answer.GO and verdict.level is Level.PASS and verdict.coverage.complete
    return whole and judged.report.declared == declared and _has_identities(judged.report)


def _has_identities(report: Report) -> bool:
    """Whether every machine has identities that distinguish it from others."""
    names = {node.name for node in report.nodes}
    complete = all(node.identity.get(key) for node in report.nodes for key in NEEDED)
    return complete and len(names) == report.declared.nodes


def _key(session: Session) -> str:
    return pass_key(session.context.gate.cluster.name)


async def reuse_pass(session: Session) -> JudgedReport | None:
    """A verdict that can be reused instead of checking; an adopted gate continues with its predecessor's. A request for checks alone
    always checks.
    """
    if not session.launches:
        return None
    judged = await _kept_verdict(session)
    if judged is not None:
        session.judged = judged
        message = f"the report of {judged.report.gate_id} from {judged.report.measured_at} is used again"
        report_progress(Progress("checks", message, 1, 1))
    return judged


async def _kept_verdict(session: Session) -> JudgedReport | None:
    """A training that was launched has its verdict in the store: what its checks left with the engine may be gone by now."""
    if not session.renewal.lease.adopted:
        return await run_to_end(find_fresh_pass, session, time.time())
    jobs = await find_jobs(session)
    if jobs.train.absent:
        return await run_to_end(find_fresh_pass, session, time.time()) if jobs.check.absent else None
    report_takeover(session, jobs)
    if jobs.check.state.final:
        session.ended(session.checking)
    return await run_to_end(load_own_report, session)
