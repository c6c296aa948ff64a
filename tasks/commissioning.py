"""Clusters accepted side by side: each by a gate of its own, and what one shows hides nothing of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, State
from prefect.logging import get_logger
from prefect.states import Completed, Failed

from checks.model import unreachable
from tasks import artifacts
from tasks.acceptance import CommissionRequest, requests_of
from tasks.ending import Busy, NotLaunched
from tasks.outcome import Decision, Ending, Outcome
from tasks.progress import LISTENER, Progress
from tasks.relearning import Learnt, relearn
from tasks.render.clean import one_line
from tasks.request import GateRequest
from tasks.session import end_run
from tasks.setting import Setting
from tasks.store.base import StoreError
from tasks.threads import to_end

LOG = get_logger("prelaunch")
Run = Callable[[GateRequest], Awaitable[State[Any]]]


class Result(StrEnum):
    """What a commissioning says of a cluster, the worst first."""

    REFUSED = "REFUSED"
    CANNOT_TELL = "CANNOT TELL"
    BUSY = "BUSY"
    NO_CAPACITY = "NO CAPACITY"
    REJECTED = "REJECTED"
    WARNINGS = "WARNINGS"
    PASSED = "PASSED"


WORST = tuple(Result)


@dataclass(frozen=True)
class Accepted:
    """One cluster. `gate_id` is "" where nothing was started, `baseline` where there was nothing to learn from."""

    cluster: str
    gate_file: str
    result: Result
    why: str
    gate_id: str = ""
    baseline: str = ""


class _Heard:
    """Keeps how one gate of this process ended."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None

    def progress(self, progress: Progress) -> None:
        """Nobody looks at it here."""

    def ended(self, outcome: Outcome) -> None:
        self.outcome = outcome


async def accept(
    run: Run, request: CommissionRequest, settings: Mapping[str, Setting]
) -> tuple[Accepted, ...]:
    """All clusters, side by side, the worst first. A gate that breaks is CANNOT TELL, and the others go on."""
    asked = requests_of(request, settings)
    running = (asyncio.create_task(_one(run, settings[named], asked[named], named)) for named in asked)
    found = await asyncio.gather(*running)
    return tuple(sorted(found, key=lambda one: (WORST.index(one.result), one.cluster)))


async def _one(run: Run, setting: Setting, request: GateRequest, named: str) -> Accepted:
    cluster, heard = setting.gate.cluster.name, _Heard()
    LISTENER.set(heard)  # of this asyncio task alone
    try:
        state = await run(request)
        error = await state.aresult(raise_on_failure=False)
    except Exception as broken:  # noqa: BLE001 - whatever broke one gate, the others' answers stand
        LOG.error("the gate of %s broke: %s", cluster, broken)
        said = one_line(f"the gate broke: {type(broken).__name__}: {broken}", 500)
        return Accepted(cluster, named, Result.CANNOT_TELL, said)
    outcome = heard.outcome
    if isinstance(error, Busy):
        return Accepted(cluster, named, Result.BUSY, one_line(str(error), 500))
    if outcome is None:
        said = one_line(f"its gate ended {state.name}: {state.message}", 500)
        return Accepted(cluster, named, Result.CANNOT_TELL, said)
    return Accepted(cluster, named, result_of(outcome), one_line(outcome.reason, 500), outcome.gate_id)


def result_of(outcome: Outcome) -> Result:
    """What the end of a gate that launches nothing says of its cluster."""
    if outcome.ending is Ending.REJECTED:
        return Result.REJECTED
    if outcome.ending is Ending.NO_CAPACITY:
        return Result.NO_CAPACITY
    decision = outcome.decision
    if decision in (None, Decision.CANNOT_TELL, Decision.NOT_LAUNCHED):
        return Result.CANNOT_TELL
    if decision is Decision.REFUSED:
        return Result.REFUSED
    if decision is Decision.AWAITING:
        return Result.WARNINGS
    if decision in (Decision.PASSED, Decision.LAUNCHED, Decision.OVERRIDDEN, Decision.OBSERVED):
        return Result.PASSED
    return unreachable(decision)


async def learn_baselines(
    found: Sequence[Accepted], settings: Mapping[str, Setting], most: int
) -> tuple[Accepted, ...]:
    """Of each cluster that passed. What cannot be kept is said, and changes no result."""
    learnt = []
    for one in found:
        if one.result is Result.PASSED:
            try:
                made = await to_end(relearn, settings[one.gate_file], most)
            except StoreError as error:
                made = Learnt(f"not learned: {error}")
            LOG.info("baseline of %s: %s", one.cluster, made.said)
            for problem in made.problems:
                LOG.warning("baseline of %s: left out: %s", one.cluster, problem)
            one = replace(one, baseline=made.said)
        learnt.append(one)
    return tuple(learnt)


async def conclude(found: Sequence[Accepted]) -> State[Any]:
    """The table of the clusters, and the state: named after the worst of them."""
    said = summary_of(found)
    await artifacts.show_table("commission-clusters", [row_of(one) for one in found], said)
    worst = found[0].result
    if worst is Result.PASSED:
        LOG.info(said)
        return Completed(name="Passed", message=said)
    LOG.error(said)
    return Failed(name=STATES[worst], message=said, data=NotLaunched(said))


STATES = {
    Result.REFUSED: "Refused",
    Result.CANNOT_TELL: "CannotTell",
    Result.BUSY: "CannotTell",
    Result.NO_CAPACITY: "NoCapacity",
    Result.REJECTED: "Rejected",
    Result.WARNINGS: "Awaiting",
}


def summary_of(found: Sequence[Accepted]) -> str:
    """ "1 of 3 clusters passed. REFUSED: NO-GO p5-prod: node-2: ..."; the worst first."""
    passed = sum(one.result is Result.PASSED for one in found)
    count = f"{passed} of {len(found)} cluster{'' if len(found) == 1 else 's'} passed"
    bad = [one for one in found if one.result is not Result.PASSED]
    if not bad:
        return f"PASSED: {count}"
    return f"{count}. " + " | ".join(f"{one.result}: {_named(one)}" for one in bad)[:1800]


def _named(one: Accepted) -> str:
    """What is said of a cluster, with its name where that does not say it."""
    return one.why if one.cluster in one.why else f"{one.cluster}: {one.why}"


def row_of(one: Accepted) -> dict[str, object]:
    """A row of the table."""
    return {
        "result": one.result.value,
        "cluster": one.cluster,
        "why": one.why,
        "gate file": one.gate_file,
        "gate": one.gate_id or "-",
        "baseline": one.baseline or "-",
    }


def end_children(flow_run: FlowRun, state: State[Any]) -> None:
    """What a hook does in another process: end the jobs of every gate of the run, and close their flow runs.

    Each is tried; what failed is said.
    """
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelled, Crashed

    with get_client(sync_client=True) as client:
        for child in client.read_flow_runs(flow_run_filter=_children_of(flow_run.id)):
            if child.state is not None and child.state.is_final():
                continue
            try:
                end_run(GateRequest.model_validate(child.parameters["request"]), str(child.id))
                closed = Cancelled if state.is_cancelled() or state.is_cancelling() else Crashed
                message = f"ended with its commissioning, {flow_run.name}"
                client.set_flow_run_state(child.id, closed(message=message), force=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other gates' jobs are ended all the same
                LOG.error("the gate %s could not be ended: %s", child.name, error)


def _children_of(flow_run_id: UUID) -> Any:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId

    return FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run_id]))
