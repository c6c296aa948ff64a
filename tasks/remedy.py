"""Repairs of what a gate condemned: its cases, the lock of a cluster's remediation, and how a run ends.

RemedyRejected          nothing can be done for this gate; the message says why, and the remedy
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from prefect.client.schemas.objects import State
from prefect.logging import get_logger
from prefect.states import Completed, Failed

from checks.documents.nearest import nearest
from checks.documents.report import digest, dump_plain, load
from checks.judge.verdict import decide
from checks.model import Report, Verdict
from checks.value_types import DecodeError
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.jobs import new_gate_id
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import TTL_S, Lease
from tasks.gate.lease.owner import this_process
from tasks.gate.lease.renewal import LeaseRenewal
from tasks.gate.outcome import Decision
from tasks.gate.progress import Progress, report_progress
from tasks.gate.record.end import kept_end
from tasks.gate.record.request import kept_request
from tasks.gate_file.folder import path_of
from tasks.gate_file.model import Mode as GateMode
from tasks.gate_file.read import GateFileError, read_gate_file
from tasks.gate_file.request import Advanced, GateRequest, RemedyRequest
from tasks.machines.base import MachineError, Retest
from tasks.paging.repair_messages import GatePeople
from tasks.remediation.drive import Rechecked, Remediation
from tasks.remediation.model import Case, Reason, RepairMode
from tasks.remediation.proof import cases_of
from tasks.remediation.records import JournalError, Records, with_cases
from tasks.remediation.settings import machines_of, settings_of
from tasks.remediation.step_texts import planned, step_text
from tasks.remediation.steps import Step, StepKind, reason_text
from tasks.render.findings import verdict_json
from tasks.store.base import StoreError
from tasks.store.history import newest_records
from tasks.store.layout import report_key, verdict_key
from tasks.store.records import read as read_record
from tasks.store.records import recorded

LOG = get_logger("prelaunch")
LOOK_S = 3.0


class RemedyRejected(Exception):
    """Nothing can be done for this gate. The message says why, and the remedy."""


REJECTIONS = (RemedyRejected, MachineError, JournalError)
Gate = Callable[[GateRequest], Awaitable[State[Any]]]


@dataclass
class RemedyRun:
    """One run of a cluster's remediation. `cases` are those that this run began with."""

    context: GateContext
    records: Records
    remediation: Remediation
    cases: tuple[Case, ...] = ()

    @property
    def open(self) -> tuple[Case, ...]:
        """The cases that are not closed yet. Raises JournalError, StoreError."""
        return self.records.journal().cases


def gate_request(request: RemedyRequest) -> GateRequest:
    """The request of a gate of the same file, which launches nothing."""
    return GateRequest(gate_file=request.gate_file, launch=False, advanced=Advanced(store=request.store))


def open_work(
    request: RemedyRequest, flow_run_id: str, recheck: Callable[[Case, Retest], Rechecked]
) -> RemedyRun:
    """Everything that a run needs. It writes nothing. Raises GateFileError, StoreError and what REJECTIONS lists."""
    context = open_gate_context(gate_request(request))
    settings, records = settings_of(context.gate), Records(context.store, context.gate.cluster.name)
    machines = machines_of(context.gate)
    people = GatePeople(context, flow_run_id)
    remediation = Remediation(
        records, machines, settings, recheck, people, flow_run_id or this_process().host, time.time
    )
    journal = records.journal()
    gate_id = request.gate_id or ("" if journal.cases or request.open_only else last_refused(context))
    cases = cases_of_gate(context, gate_id) if gate_id else ()
    merged = with_cases(journal, cases).cases
    if cases and not merged and not request.open_only:
        nodes = ", ".join(sorted({case.node for case in cases}))
        raise RemedyRejected(
            f"what gate {gate_id} condemned ({nodes}) was dealt with before, and nothing is done twice. "
            f"`prelaunch fleet list {context.file}` shows how it ended. Run the gate again if a node is still in doubt."
        )
    age_s = time.time() - max((case.judged_at for case in cases), default=time.time())
    if settings.mode not in (RepairMode.OFF, RepairMode.PLAN) and age_s > settings.limits.max_verdict_s:
        raise RemedyRejected(
            f"the verdict of gate {gate_id} is too old to act on: it was measured {age_s / 60:.0f} minutes ago, and "
            f"max_verdict_minutes is {settings.limits.max_verdict_s / 60:g}. Run the gate again."
        )
    return RemedyRun(context, records, remediation, merged)


def last_refused(context: GateContext) -> str:
    """The newest gate of the cluster that condemned a machine, "" if none has. Raises RemedyRejected if the store holds no gate of the
    cluster or a record that may be of such a gate cannot be read, StoreError.
    """
    cluster, problems = context.gate.cluster.name, list[str]()
    gates = (record for record in newest_records(context.store, problems) if record.cluster == cluster)
    newest = next(gates, None)
    gate_id = next((gate.gate_id for gate in chain(filter(None, [newest]), gates) if gate.condemned), "")
    if problems and not gate_id:
        raise RemedyRejected(f"whether a gate has condemned a machine is not known: {problems[0]}")
    if newest is None:
        message = f"the store holds no gate of cluster {cluster}, so nothing is known of its machines"
        raise RemedyRejected(message)
    return gate_id


def cases_of_gate(context: GateContext, gate_id: str) -> tuple[Case, ...]:
    """What a kept gate condemned, judged again from its report. A verdict that comes out differently now is not acted
    on, because policy, facts or this program were changed. Raises RemedyRejected, StoreError.
    """
    _require_cluster(context, gate_id)
    report, verdict = _judged_again(context, gate_id)
    end = kept_end(context.store, gate_id)
    decision = end.decision if end is not None else None
    cases = cases_of(report, verdict, digest(dump_plain(verdict)), context.gate.cluster.name, context.file)
    if not cases:
        raise RemedyRejected(f"gate {gate_id} blames no machine, so there is nothing to repair")
    if context.gate.policy.mode is GateMode.OBSERVE or decision is not Decision.REFUSED:
        ending = f"ended as {decision.value}" if decision else "kept no end in the store (outcome.json)"
        raise RemedyRejected(
            f"gate {gate_id} {ending}, and only the refusal of a gate that does not only observe is acted on. Its findings are in the "
            "report."
        )
    return cases


def _require_cluster(context: GateContext, gate_id: str) -> None:
    """Require that the gate was one of this cluster: others in the store may have nodes of the same names."""
    try:
        record = read_record(context.store, gate_id)
    except DecodeError as error:
        raise RemedyRejected(f"the record of gate {gate_id} cannot be read: {error}") from error
    if record is None:
        near = nearest(gate_id, recorded(context.store))
        hint = f". Did you mean {near}?" if near else ""
        raise RemedyRejected(f"the store has no record of a gate {gate_id}{hint}")
    if record.cluster != context.gate.cluster.name:
        message = f"gate {gate_id} is of cluster {record.cluster}, and {context.file} is for cluster {context.gate.cluster.name}"
        raise RemedyRejected(message)


def _judged_again(context: GateContext, gate_id: str) -> tuple[Report, Verdict]:
    data, verdict_data = context.store.get(report_key(gate_id)), context.store.get(verdict_key(gate_id))
    if data is None or verdict_data is None:
        message = f"{context.store.location(report_key(gate_id))}: gate {gate_id} kept no report and verdict"
        raise RemedyRejected(message)
    try:
        report = load(data)
    except DecodeError as error:
        raise RemedyRejected(f"the report of gate {gate_id} cannot be read: {error}") from error
    verdict = decide(report, context.policy, context.facts, context.baseline, report_digest=digest(data))
    if dump_plain(verdict_json(verdict)) != verdict_data:
        raise RemedyRejected(
            f"the report of gate {gate_id} is judged differently now, because policy, facts, baseline or version were "
            "changed. Run the gate again."
        )
    return report, verdict


def lock_name(cluster: str) -> str:
    """The name of the lock of a cluster's remediation, so that gates of the cluster go on meanwhile. No cluster may have it."""
    return f"{cluster}.remedy"


@contextmanager
def remedy_lock(work: RemedyRun, flow_run_id: str) -> Iterator[LeaseRenewal]:
    """One process works on a cluster's machines at a time. Raises LeaseHeld, StoreError."""
    now, context = time.time(), work.context
    wanted = Lease(
        1, lock_name(context.gate.cluster.name), new_gate_id("remedy", now), 1, context.digest, context.file, False, context.engine,
        this_process(flow_run_id), now, now, now + TTL_S,
    )  # fmt: skip
    renewal = LeaseRenewal(context.store, leases.acquire(context.store, wanted, lambda _: (), lambda _: None))
    renewal.start()
    try:
        yield renewal
    finally:
        try:
            renewal.release()
        except StoreError as error:
            LOG.warning("the lock of the remediation could not be released; it expires by itself: %s", error)


def nothing_condemned(context: GateContext) -> str:
    """What a run says that would begin something, where no gate has condemned a machine."""
    return f"no gate of cluster {context.gate.cluster.name} has condemned a machine, so there is nothing to repair"


def plan_state(work: RemedyRun, open_only: bool) -> State[Any] | None:
    """The end of a run for which nothing is open, or whose gate file lets nothing be done; None if something may be done."""
    if not work.cases:
        none_waits = f"no remediation of cluster {work.context.gate.cluster.name} waits"
        return nothing_to_do(none_waits if open_only else nothing_condemned(work.context))
    if work.remediation.settings.mode not in (RepairMode.OFF, RepairMode.PLAN):
        return None
    plans = planned(work.cases, work.remediation.machines)
    lines = (f"{case.node}: {', '.join(rung.value for rung, _ in steps)}" for case, steps in plans)
    return Completed(name="Planned", message="; ".join(lines))


def nothing_to_do(reason: str) -> State[Any]:
    """The end of a run that had nothing to do. It is no failure."""
    return Completed(name="NothingToDo", message=reason)


def open_cases(work: RemedyRun) -> None:
    """Write the cases of this run to the journal. Raises JournalError, StoreError."""
    work.records.change(lambda journal: with_cases(journal, work.cases), time.time())


async def follow(
    work: RemedyRun,
    say: Callable[[Case, Step], None],
    lost: Callable[[], bool],
    give_up: Callable[[], object],
) -> bool:
    """Take steps until no case is open, or the time of the gate file is over; returns whether none is open.

    If the run is cancelled, `give_up` ends the re-test that is being made, and the step ends before the lock is given back.
    Raises JournalError, StoreError.
    """
    until = time.monotonic() + work.context.gate.remediation.wait_minutes * 60
    reported: dict[tuple[str, str], Step] = {}
    while not lost():
        steps = await _round(work, give_up)
        for case, step in steps:
            key = (case.gate_id, case.node)
            if reported.get(key) != step:
                say(case, step)
            reported[key] = step
        if not await asyncio.to_thread(lambda: work.open):
            return True
        if time.monotonic() > until:
            return False
        if all(step.action in (StepKind.WAIT,) for _, step in steps):
            await asyncio.sleep(LOOK_S)
    return False


async def _round(work: RemedyRun, give_up: Callable[[], object]) -> tuple[tuple[Case, Step], ...]:
    running = asyncio.ensure_future(run_to_end(work.remediation.round))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        give_up()
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # taken, so that asyncio does not complain of it
        raise


def final_state(ends: Mapping[str, Reason | None], waiting: tuple[Case, ...]) -> State[Any]:
    """The state that Prefect shows: `ends` says of each node why its case was closed."""
    text = "; ".join(
        f"{node}: {reason_text(end) if end else 'not ended'}" for node, end in sorted(ends.items())
    )
    if waiting:
        nodes = ", ".join(sorted(case.node for case in waiting))
        return Failed(name="Waiting", message=f"{nodes}: the remediation goes on with the next run. {text}")
    if all(end is Reason.PROVEN for end in ends.values()):
        return Completed(name="Repaired", message=text or "there was nothing to do")
    if all(end in (Reason.PROVEN, Reason.MODE, Reason.NO_REPAIR) for end in ends.values()):
        return Completed(name="Planned", message=text)
    return Failed(name="NotRepaired", message=text)


def say_step(case: Case, step: Step) -> None:
    """Log a step, and show it to whoever runs the remediation in this process."""
    line = step_text(case, step)
    LOG.info("%s", line)
    report_progress(Progress("remedy", line, lasting=True))


async def start_again(work: RemedyRun, gate: Gate, ends: Mapping[str, Reason | None]) -> None:
    """Run each refused gate again, and with it the training, once all nodes were proven; its own gate file has to ask for it.

    Slurm gives no fenced node to a job, so a node that stays out is not among those of the next run. Only the newest gate of a gate
    file that was to launch is started: the owner may have started it anew, and a training must not run twice.
    """
    store, cluster = work.context.store, work.context.gate.cluster.name
    gate_ids, passed = {case.gate_id for case in work.cases}, set[str]()
    if any(end is not Reason.PROVEN for end in ends.values()):
        LOG.info("no gate is started again: not every node was proven")
        return
    for record in newest_records(store, []):
        is_newest = record.cluster == cluster and record.gate not in passed
        request = kept_request(store, record.gate_id) if is_newest else None
        if request is not None and request.launch:
            passed.add(record.gate)
            if record.gate_id in gate_ids and _resumes(request):
                LOG.info("the gate of %s is started again", record.gate_id)
                reason = f"again, after the repair for {record.gate_id}"
                await gate(request.model_copy(update={"reason": reason}))
        gate_ids.discard(record.gate_id)
        if not gate_ids:
            return


def _resumes(request: GateRequest) -> bool:
    """Whether the gate file of the request, as it is now, asks for its refused gate to be started again."""
    try:
        return read_gate_file(path_of(request.gate_file), request.sets).remediation.resume
    except GateFileError as error:
        LOG.warning("the gate of %s is not started again: %s", request.gate_file, error)
        return False
