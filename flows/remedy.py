"""Remedy: machines that a gate condemned are fenced, repaired, proven by a gate of their own, and given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import State
from prefect.states import Failed

from flows.gate import gate_below
from tasks.finish import reject_request
from tasks.gate.lease.lease import LeaseError, LeaseHeld
from tasks.gate.record.request import require_names
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import RemedyRequest
from tasks.launchers.base import LaunchError
from tasks.machines.base import MachineError, Retest
from tasks.remediation.drive import Rechecked
from tasks.remediation.model import Case, Reason
from tasks.remediation.records import JournalError
from tasks.remediation.steps import Step, StepKind
from tasks.remedy import (
    REJECTIONS,
    RemedyRun,
    final_state,
    follow,
    gate_request,
    nothing_to_do,
    open_cases,
    open_work,
    plan_state,
    remedy_lock,
    say_step,
    start_again,
)
from tasks.retest import run_retest
from tasks.store.base import StoreError


def run_name() -> str:
    """A sentence: "remedy p5-prod"."""
    request = runtime.flow_run.parameters.get("request")
    gate_file = request.get("gate_file") if isinstance(request, dict) else getattr(request, "gate_file", "")
    return f"remedy {gate_file}"


@flow(name="remedy", flow_run_name=run_name, persist_result=False, retries=0)
async def remedy(request: RemedyRequest) -> State[Any]:
    """Repairs the machines that a gate condemned, proves them, and gives them back, as the gate file allows ([remediation]).

    Args:
        request: Choose the gate file; the rest may stay as it is.
    """
    loop, run = asyncio.get_running_loop(), str(runtime.flow_run.id)
    retests: list[Future[Rechecked]] = []
    work: RemedyRun

    def recheck(case: Case, retest: Retest) -> Rechecked:
        """From the thread that drives the cases: the re-test is a run below this one."""
        retests[:] = [
            asyncio.run_coroutine_threadsafe(run_retest(work.context, gate_below, case, retest), loop)
        ]
        return retests[0].result()

    def give_up() -> None:
        """End the re-test that is being made."""
        for running in retests:
            running.cancel()

    try:
        require_names((request.gate_file,), gate_request(request).advanced)
        work = open_work(request, run, recheck)
        if (plan := plan_state(work, request.open_only)) is not None:
            return plan
        with remedy_lock(work, run) as renewal:
            try:
                open_cases(work)
                state, ends = await _followed(work, renewal.lost.is_set, give_up)
            except (StoreError, JournalError, MachineError) as error:
                return Failed(
                    name="Waiting", message=f"the remediation stopped, and the next run goes on: {error}"
                )
        await start_again(work, gate_below, ends)  # without the lock: a training may run for days
        return state
    except LeaseHeld as error:
        return nothing_to_do(str(error)) if request.open_only else reject_request(error)
    except (GateFileError, StoreError, LeaseError, LaunchError, *REJECTIONS) as error:
        return reject_request(error)


async def _followed(
    work: RemedyRun, lost: Callable[[], bool], give_up: Callable[[], object]
) -> tuple[State[Any], dict[str, Reason | None]]:
    """The final state, and why the case of each node was closed."""
    ends: dict[str, Reason | None] = {case.node: None for case in work.cases}

    def say(case: Case, step: Step) -> None:
        say_step(case, step)
        # Another case of the node says more about it.
        is_told = ends[case.node] is None or step.reason is not Reason.OTHER_CASE
        if step.action is StepKind.CLOSE and is_told:
            ends[case.node] = step.reason

    done = await follow(work, say, lost, give_up)
    return final_state(ends, () if done else work.open), ends
