"""Accepts clusters side by side, each with a gate of its own, and learns their baselines from their kept reports.

The result of one cluster hides nothing about the others. A baseline that was learned is baselines/<cluster>.json in the store;
only reports whose gate said GO count for it. It never replaces the file that a gate compares with: a person does that.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from prefect.client.schemas.objects import FlowRun, State
from prefect.logging import get_logger
from prefect.states import Completed, Failed

from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.judge.baseline.bands import Baseline, digest_of, dump
from checks.judge.baseline.learn import LEAST_VALUES, ReportCase, learn
from checks.judge.verdict import decide
from checks.model import Answer, unreachable
from checks.value_types import DecodeError
from tasks.finish import ClusterBusy, NotLaunched
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.commission import CommissionRequest, gate_requests
from tasks.gate.context import GateContext
from tasks.gate.lease.lease import LeaseError, lease_of_cluster
from tasks.gate.lease.owner import is_dead
from tasks.gate.outcome import Decision, Ending, GateOutcome
from tasks.gate.progress import LISTENER, EndListener
from tasks.gate.session import end_run
from tasks.gate_file.request import GateRequest
from tasks.orchestration import artifacts
from tasks.orchestration.commission_result import (
    WORST,
    ClusterResult,
    CommissionResult,
    KeptResult,
    result_page,
    since,
    summary_line,
)
from tasks.render.headline import deciding
from tasks.store.base import StoreError
from tasks.store.history import newest_records
from tasks.store.layout import baseline_key, commission_key
from tasks.store.records import Record, judged_report
from tasks.text.inert import one_line
from tasks.text.tables import counted

LOG = get_logger("prelaunch")
MINUTE_S = 60.0
# How often the lock of a busy cluster is read.
LOOK_S = 10.0
# How long after a gate found the cluster busy the next one is started.
AGAIN_S = 60.0
KEPT_BYTES = 1 << 16
Run = Callable[[GateRequest], Awaitable[State[Any]]]


def learn_baseline(context: GateContext, most: int) -> str:
    """Learn a baseline from the newest `most` reports of the cluster that ended in GO, and keep it; returns what was learned, for
    people. Raises StoreError.
    """
    cases, problems = _cases(context, most)
    for problem in problems:
        LOG.warning("baseline of %s: left out: %s", context.gate.cluster.name, problem)
    baseline = learn(cases)
    bands = sum(len(group.bands) for group in baseline.groups)
    reports = counted(len(cases), "go report")
    if not bands:
        return f"no baseline was learned: {reports}, and each range needs {LEAST_VALUES} values from healthy machines"
    key = baseline_key(context.gate.cluster.name)
    context.store.put(key, dump(baseline))
    path = context.store.location(key)
    return f"learned {counted(bands, 'band')} from {reports}: {path}. {_remedy(context, path, baseline)}"


def _cases(context: GateContext, most: int) -> tuple[list[ReportCase], tuple[str, ...]]:
    problems: list[str] = []
    cases: list[ReportCase] = []
    for record in newest_records(context.store, problems):
        if len(cases) == most:
            break
        if _teaches(context, record):
            case = _case(context, record, problems)
            cases += [case] if case is not None else []
    return cases, tuple(problems)


def _teaches(context: GateContext, record: Record) -> bool:
    """Whether a record is a GO of this cluster's machines as they are declared now. A reused PASS measured nothing."""
    same = (record.cluster, record.instance_type) == (
        context.gate.cluster.name,
        context.gate.cluster.declared.instance_type,
    )
    return same and record.answer is Answer.GO and not record.reused


def _case(context: GateContext, record: Record, problems: list[str]) -> ReportCase | None:
    try:
        report = judged_report(context.store, record.report, record.digests.report)
    except DecodeError as error:
        problems.append(f"{record.gate_id}: its report: {error}")
        return None
    verdict = decide(report, context.policy, context.facts, report_digest=record.digests.report)
    return ReportCase(report, verdict, context.policy)


def _remedy(context: GateContext, path: str, baseline: Baseline) -> str:
    copy = "aws s3 cp" if "://" in path else "cp"
    reference = context.gate.policy.baseline
    if not reference:
        name = f"{context.gate.cluster.name}.baseline.json"
        command = f"{copy} {shlex.quote(path)} {shlex.quote(str(context.here / name))}"
        return f'No gate uses it yet. To use it: {command}, then write into {context.file}: [policy] baseline = "{name}"'
    if context.baseline is not None and digest_of(context.baseline) == digest_of(baseline):
        return "The gate already uses this baseline"
    file = shlex.quote(str(context.here / reference))
    return f"The gate still uses {reference}. To use the new baseline: {copy} {shlex.quote(path)} {file}"


async def accept_clusters(
    run: Run, request: CommissionRequest, settings: Mapping[str, GateContext]
) -> tuple[ClusterResult, ...]:
    """Run all clusters side by side; return the results, the worst first. A gate that crashes is CANNOT TELL; the others continue."""
    requests = gate_requests(request, settings)
    patience_s = request.busy_minutes * MINUTE_S
    running = (
        asyncio.create_task(_in_turn(run, settings[gate_file], requests[gate_file], gate_file, patience_s))
        for gate_file in requests
    )
    results = await asyncio.gather(*running)
    return tuple(sorted(results, key=lambda result: (WORST.index(result.result), result.cluster)))


async def _in_turn(
    run: Run, context: GateContext, request: GateRequest, gate_file: str, patience_s: float
) -> ClusterResult:
    """Run the gate once the cluster's lock is free, or `patience_s` are over."""
    until = time.monotonic() + patience_s
    while True:
        await _until_free(context, until)
        result = await _run_cluster(run, context, request, gate_file)
        if result.result is not CommissionResult.BUSY:
            return result
        left = until - time.monotonic()
        if left <= 0:
            waited = f" It was waited for {patience_s / MINUTE_S:g} minutes." if patience_s else ""
            return replace(result, sentence=f"{result.sentence.rstrip('.')}.{waited}")
        # The lock may look free where it is not: a job of its dead holder still runs. Each try is a run of its own.
        await asyncio.sleep(min(AGAIN_S, left))


async def _until_free(context: GateContext, until: float) -> None:
    """Return once no living gate holds the cluster's lock, or at `until`. What cannot be read is left to the gate, which says why."""
    cluster, holder = context.gate.cluster.name, ""
    while True:
        try:
            held = await run_to_end(lease_of_cluster, context.store, cluster)
        except (StoreError, LeaseError):
            return
        now = time.time()
        if held is None or not (held.parked(now) or not is_dead(held.owner, held.expires_at, now)):
            return
        left = until - time.monotonic()
        if left <= 0:
            return
        if held.gate_id != holder:
            holder = held.gate_id
            minutes = left / MINUTE_S
            LOG.info(
                "cluster %s is busy with gate %s: waiting for at most %.0f min", cluster, holder, minutes
            )
        await asyncio.sleep(min(LOOK_S, left))


async def _run_cluster(run: Run, context: GateContext, request: GateRequest, gate_file: str) -> ClusterResult:
    cluster, heard = context.gate.cluster.name, EndListener()
    LISTENER.set(heard)  # of this asyncio task alone
    try:
        state = await run(request)
        error = await state.aresult(raise_on_failure=False)
    except Exception as broken:  # noqa: BLE001 - whatever broke one gate, the others' answers stand
        LOG.error("the gate of %s failed with an error: %s", cluster, broken)
        reason = one_line(f"the gate failed with an error: {type(broken).__name__}: {broken}", 500)
        return ClusterResult(cluster, gate_file, CommissionResult.CANNOT_TELL, reason)
    outcome = heard.outcome
    if isinstance(error, ClusterBusy):
        return ClusterResult(cluster, gate_file, CommissionResult.BUSY, one_line(str(error), 500))
    if outcome is None:
        reason = one_line(f"its gate ended {state.name}: {state.message}", 500)
        return ClusterResult(cluster, gate_file, CommissionResult.CANNOT_TELL, reason)
    reason = one_line(outcome.reason, 500)
    result = ClusterResult(cluster, gate_file, result_of(outcome), reason, outcome.gate_id, about_of(outcome))
    return replace(result, says_answer=outcome.judged is not None)


def about_of(outcome: GateOutcome) -> tuple[str, ...]:
    """Check and subject of the finding that decided the verdict, for each of its subjects."""
    worst = deciding(outcome.judged.verdict) if outcome.judged is not None else ()
    return tuple(sorted(f"{worst[0].check} {subject}" for subject in worst[0].subjects)) if worst else ()


def result_of(outcome: GateOutcome) -> CommissionResult:
    """The result for a cluster, from the end of its gate, which launches nothing."""
    if outcome.ending is Ending.REJECTED:
        return CommissionResult.REJECTED
    if outcome.ending is Ending.NO_CAPACITY:
        return CommissionResult.NO_CAPACITY
    decision = outcome.decision
    if decision in (None, Decision.CANNOT_TELL, Decision.NOT_LAUNCHED):
        return CommissionResult.CANNOT_TELL
    if decision is Decision.REFUSED:
        return CommissionResult.REFUSED
    if decision is Decision.AWAITING:
        return CommissionResult.WARNINGS
    if decision in (Decision.PASSED, Decision.LAUNCHED, Decision.OVERRIDDEN, Decision.OBSERVED):
        return CommissionResult.PASSED
    return unreachable(decision)


async def learn_baselines(
    results: Sequence[ClusterResult], settings: Mapping[str, GateContext], most: int
) -> tuple[ClusterResult, ...]:
    """Learn the baseline of each cluster that passed. One that cannot be kept is reported, and changes no result."""
    learnt = []
    for result in results:
        if result.result is CommissionResult.PASSED:
            try:
                learned = await run_to_end(learn_baseline, settings[result.gate_file], most)
            except StoreError as error:
                learned = f"no baseline was learned: {error}"
            LOG.info("baseline of %s: %s", result.cluster, learned)
            result = replace(result, baseline=learned)
        learnt.append(result)
    return tuple(learnt)


async def compare_with_last(
    results: Sequence[ClusterResult], settings: Mapping[str, GateContext]
) -> tuple[ClusterResult, ...]:
    """What is different from each cluster's last commissioning; this one is kept for the next. A store that fails is a warning."""
    compared = []
    for result in results:
        try:
            result = await run_to_end(_compared, settings[result.gate_file], result)
        except (StoreError, DecodeError) as error:
            LOG.warning("the last commissioning of %s cannot be compared with: %s", result.cluster, error)
            result = replace(result, since="the last commissioning cannot be read", changed=True)
        compared.append(result)
    return tuple(compared)


def _compared(context: GateContext, result: ClusterResult) -> ClusterResult:
    store, key = context.store, commission_key(result.cluster)
    data = store.get(key)
    latest = KeptResult(1, result.result, result.sentence, result.gate_id, time.time(), result.about)
    store.put(key, dump_plain(latest))
    last = decode(KeptResult, parse_json(data, KEPT_BYTES)) if data is not None else None
    difference, changed = since(result, last)
    return replace(result, since=difference, changed=changed)


STATES = {
    CommissionResult.REFUSED: "Refused",
    CommissionResult.CANNOT_TELL: "CannotTell",
    CommissionResult.BUSY: "CannotTell",
    CommissionResult.NO_CAPACITY: "NoCapacity",
    CommissionResult.REJECTED: "Rejected",
    CommissionResult.WARNINGS: "Awaiting",
}


async def conclude_commission(results: Sequence[ClusterResult]) -> State[Any]:
    """The page of the clusters, and the state: named after the worst of them."""
    summary = summary_line(results)
    await artifacts.show_markdown("commission-result", result_page(results), summary)
    worst = results[0].result
    # Prefect logs the message of the last state: it is not logged here as well.
    if worst is CommissionResult.PASSED:
        return Completed(name="Passed", message=summary)
    return Failed(name=STATES[worst], message=summary, data=NotLaunched(summary))


def end_children(flow_run: FlowRun, state: State[Any]) -> None:
    """End the jobs of every gate of the run and close their flow runs. A hook calls this in another process.

    Each is tried; failures are logged.
    """
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelled, Crashed

    from tasks.orchestration.runs import children_of

    with get_client(sync_client=True) as client:
        for child in client.read_flow_runs(flow_run_filter=children_of(flow_run.id)):
            if child.state is not None and child.state.is_final():
                continue
            try:
                end_run(GateRequest.model_validate(child.parameters["request"]), str(child.id))
                closed = Cancelled if state.is_cancelled() or state.is_cancelling() else Crashed
                message = f"ended with its commissioning, {flow_run.name}"
                client.set_flow_run_state(child.id, closed(message=message), force=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other gates' jobs are ended all the same
                LOG.error("the gate %s could not be ended: %s", child.name, error)
