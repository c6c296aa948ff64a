"""Commissioning: complete clusters are checked in depth, side by side. Nothing is launched, and baselines are learned from a GO."""

from __future__ import annotations

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from flows.gate import gate_below
from tasks.commission import (
    accept_clusters,
    compare_with_last,
    conclude_commission,
    end_children,
    learn_baselines,
)
from tasks.finish import reject_request
from tasks.gate.commission import CommissionRequest, commission_title, gate_contexts
from tasks.gate.session import REJECTIONS
from tasks.orchestration.events import emit_run_ended


def run_name() -> str:
    """A sentence: "commission p5-prod, p5-test: deep"."""
    return commission_title(runtime.flow_run.parameters)


def end_jobs(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Hook for a run that was cancelled or crashed: end the jobs of all its gates."""
    end_children(flow_run, state)


@flow(
    name="commission",
    flow_run_name=run_name,
    on_completion=[emit_run_ended],
    on_failure=[emit_run_ended],
    on_cancellation=[end_jobs],
    on_crashed=[end_jobs],
    persist_result=False,
    retries=0,
)
async def commission(request: CommissionRequest) -> State[Any]:
    """Checks whole clusters at the same time, and launches nothing. A cluster's baseline is learned again after a GO.

    Args:
        request: Choose the clusters; the rest may stay as it is.
    """
    try:
        settings = gate_contexts(request)
    except REJECTIONS as error:
        return reject_request(error)
    results = await accept_clusters(gate_below, request, settings)
    if request.learn:
        results = await learn_baselines(results, settings, request.reports)
    return await conclude_commission(await compare_with_last(results, settings))
