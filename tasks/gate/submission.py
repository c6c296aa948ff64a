"""Submits the jobs of a gate, after the preflight of the first one.

If the preflight finds something wrong the gate is refused, and if it finds no machines the gate may try again later. What could not be
found out is logged and recorded.

PreflightFailed     the preflight found something wrong, so nothing was started
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace

from checks.documents.report import dump_plain
from checks.value_types import DecodeError
from tasks.gate.jobs import planned_jobs
from tasks.gate.progress import STARTING, Progress, report_progress
from tasks.gate.session import Session
from tasks.gate_file.placeholders import examples_of, require_own_values
from tasks.gate_file.read import GateFileError
from tasks.launchers.base import (
    EngineUnavailable,
    JobHandle,
    JobSpec,
    LaunchRejected,
    NoCapacity,
    NotSubmitted,
    Plan,
    PreflightCheck,
    PreflightResult,
)
from tasks.launchers.interruption import Silence, is_interrupted, silences
from tasks.launchers.preflight import preflight
from tasks.reports.gate_folder.decision import doubts_in
from tasks.store.base import StoreError
from tasks.store.layout import preflight_key

LOG = logging.getLogger("prelaunch")


class PreflightFailed(LaunchRejected):
    """The request as a whole is wrong, whatever was judged before. `key` is the key of the gate file that is wrong, "" if not one."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


def submit_job(session: Session, job: JobSpec) -> JobHandle:
    """Submit the job. It is recorded first, so that every end of the gate also ends the job. Raises LaunchError, LeaseLost."""
    session.ends()  # two jobs of a gate never run side by side
    run_preflight(session)
    stage = STARTING if job.name == session.checking else "training"
    line = f"job {job.name} is being submitted (engine {session.renewal.lease.engine.launcher})"
    report_progress(Progress(stage, line))
    plan, said_at_s = session.context.launcher.plan(job), 0.0

    def tell(silence: Silence) -> None:
        nonlocal said_at_s
        if said_at_s <= silence.tried_s < 2 * said_at_s:
            return
        said_at_s = silence.tried_s
        tried = f"tried for {silence.tried_s:.0f} s, at most {silence.most_s:.0f} s"
        report_progress(Progress(stage, f"{silence.problem} ({tried}): {line}"))

    with silences(tell):
        try:
            return _submit(session, plan)
        except NotSubmitted:
            raise  # the launcher has waited for an answer as long as it waits for any
        except EngineUnavailable:
            if is_interrupted():
                raise
            return _submit(session, plan)  # submit adopts: asking twice never starts two


def _submit(session: Session, plan: Plan) -> JobHandle:
    if is_interrupted():
        raise NotSubmitted(f"{plan.job.name} was not submitted, because the gate is to end")
    renewal = session.renewal
    # This process may have stood still for as long as a lock lives. Otherwise a store that fails once is in nobody's way.
    if time.time() > renewal.lease.expires_at:
        renewal.ours()
    session.require_lock()
    first = not session.may_run(plan.job.name)
    session.remember(plan.job.name)
    try:
        return session.context.launcher.submit(plan)
    except (NotSubmitted, LaunchRejected, NoCapacity):  # nothing was started, unless an earlier try did it
        if first:
            session.let_go(plan.job.name)
            session.begun.discard(plan.job.name)
        raise


def run_preflight(session: Session) -> None:
    """Run the preflight before the first job of a gate. Raises PreflightFailed or NoCapacity, which name every line that says so."""
    if session.preflight_done:
        return
    launcher = session.context.launcher
    jobs = planned_jobs(session.context)
    if not session.launches:  # a gate that only checks may name a training that nobody has written yet
        jobs = tuple(replace(job, script="") for job in jobs)
    lines = (*_examples(session), *preflight(launcher, tuple(map(launcher.plan, jobs))))
    for line in lines:
        if line.result is PreflightResult.WARNING:
            LOG.warning("preflight: %s", line.text)
            report_progress(Progress("preflight", f"warning: {line.text}", lasting=True))
        if line.result is PreflightResult.UNSEEN:
            LOG.warning("preflight could not check %s", line.text)
            report_progress(Progress("preflight", f"could not check {line.text}", lasting=True))
    _keep(session, lines)
    if problems := _texts(lines, PreflightResult.WRONG):
        session.preflight_done = True
        wrong = {line.key for line in lines if line.result is PreflightResult.WRONG}
        key = wrong.pop() if len(wrong) == 1 else ""
        # A mistake of one key is told at its line of the file, where the line's subject is only another name of the key.
        raise PreflightFailed(f"{_at_key(lines)}." if key else f"nothing was started: {problems}.", key)
    if problems := _texts(lines, PreflightResult.NO_CAPACITY):
        raise NoCapacity(f"nothing was started: {problems}.")
    session.preflight_done = True


def _examples(session: Session) -> Iterator[PreflightCheck]:
    """Warnings of values that are still an example's. Raises PreflightFailed where the gate cannot run with one."""
    gate, file = session.context.gate, session.context.file
    try:
        require_own_values(gate, file, os.environ)
    except GateFileError as error:
        session.preflight_done = True
        raise PreflightFailed(f"{error.message}.", error.path) from error
    for item in examples_of(gate, os.environ):  # none of them is refused
        yield PreflightCheck(item.location, PreflightResult.WARNING, item.message, item.remedy, key=item.key)


def doubts_of(session: Session) -> tuple[str, ...]:
    """What the preflight warned of, as the store kept it: it may explain what the checks then find. () where that cannot be read."""
    try:
        data = session.context.store.get(preflight_key(session.gate_id))
        return doubts_in(data) if data is not None else ()
    except (StoreError, DecodeError) as error:
        LOG.warning("the results of the preflight could not be read: %s", error)
        return ()


def _at_key(lines: tuple[PreflightCheck, ...]) -> str:
    wrong = (line for line in lines if line.result is PreflightResult.WRONG)
    return "; ".join(f"{line.message.rstrip('.')}. {line.remedy}".rstrip(". ") for line in wrong)


def _texts(lines: tuple[PreflightCheck, ...], result: PreflightResult) -> str:
    return "; ".join(line.text.rstrip(".") for line in lines if line.result is result)


def _keep(session: Session, lines: tuple[PreflightCheck, ...]) -> None:
    if not lines:
        return
    try:
        session.context.store.put(preflight_key(session.gate_id), dump_plain(lines))
    except StoreError as error:
        LOG.warning("the results of the preflight could not be stored: %s", error)
