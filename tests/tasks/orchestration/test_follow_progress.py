"""What is shown of a run that is followed: not what it did before it waited."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Pending, Running, Suspended

from tasks.orchestration import follow


@pytest.mark.parametrize(
    ("state", "age_s", "stage", "said", "waits"),
    [
        (Running(), -5, "checks", "66 of 66 observations", False),
        (Running(), 60, "run", "running again, after it waited", False),
        (Suspended(message="ASK local"), 60, "run", "Suspended: ASK local", True),
        (Pending(), 60, "waiting", "Pending", True),
    ],
)
def test_a_run_that_was_answered_does_not_show_the_checks_of_before(
    state: State[Any], age_s: float, stage: str, said: str, waits: bool
) -> None:
    """Their progress is older than the run's state; while it waits for somebody, that is said, and seldom repeated."""

    class Shows:
        """A client whose server has the progress of the checks."""

        async def read_artifacts(self, **chosen: object) -> list[object]:
            at = state.timestamp - timedelta(seconds=age_s)
            return [SimpleNamespace(data=100.0, description="66 of 66 observations", updated=at)]

    client: Any = Shows()
    run = FlowRun(id=UUID(int=7), flow_id=UUID(int=7), state=state)
    shown = asyncio.run(follow._progress(client, run, ""))

    assert (stage, said, waits) == (shown.stage, shown.detail, shown.waits)
