"""A run that waits names the run that has the slot of its deployment, or the worker that took it and does not start it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import AwaitingConcurrencySlot, Pending, Running

from tasks.orchestration.work_pools import waiting_reason

DEPLOYMENT = UUID(int=3)
# The runs are made when the tests are collected, which may be long before they are run.
COLLECTED = datetime.now(UTC)


def run_in(state: State[Any], number: int, begun_s: float = 0.0) -> FlowRun:
    """A run of the deployment that has been in its state for so long."""
    state.timestamp = datetime.now(UTC) - timedelta(seconds=begun_s)
    return FlowRun(
        id=UUID(int=number), flow_id=UUID(int=2), name="gate local", state=state, deployment_id=DEPLOYMENT
    )


class Client:
    """A server with these runs; `broken` does not answer."""

    def __init__(self, *others: FlowRun, broken: bool = False) -> None:
        self.others, self.broken = others, broken

    async def read_flow_runs(self, flow_run_filter: Any, limit: int) -> list[FlowRun]:
        """All that have the slot of the deployment."""
        if self.broken:
            raise httpx.ConnectError("refused")
        assert flow_run_filter.deployment_id.any_ == [DEPLOYMENT]
        return list(self.others)


HOLDER, HELD = run_in(Running(), 7, 300.0), f"run gate local ({UUID(int=7)}, Running since "


@pytest.mark.parametrize(
    ("client", "run", "parts"),
    [
        (Client(HOLDER), run_in(AwaitingConcurrencySlot(), 9), [HELD, " has the slot"]),
        (Client(), run_in(AwaitingConcurrencySlot(), 9), []),
        (Client(broken=True), run_in(AwaitingConcurrencySlot(), 9), []),
        (Client(HOLDER), run_in(Running(), 9), []),
        (Client(HOLDER), run_in(Pending(), 9, 50.0), []),
        (Client(), run_in(Pending(), 9, 70.0), ["has not started it", "Runs that stay Pending"]),
        (Client(HOLDER), run_in(Pending(), 9, 70.0), ["has not started it", HELD]),
    ],
)
def test_what_a_run_waits_for_is_named(client: Any, run: FlowRun, parts: list[str]) -> None:
    """Nothing is said of a run that goes on, that was taken just now, or of which the server says nothing."""
    if run.state:
        run.state.timestamp += datetime.now(UTC) - COLLECTED
    said = asyncio.run(waiting_reason(client, run))

    assert all(part in said for part in parts)
    assert bool(said) is bool(parts)
