"""What the artifact of a run says while it runs: that it goes on or waits for a person; one artifact, also over two processes."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Pending, Running, Suspended

from tasks.orchestration import follow, status
from tasks.orchestration.status import RUNS, publish_state, read_status
from tests.tasks.sessions import session

RUN, ARTIFACT = UUID(int=7), UUID(int=9)


class Server:
    """A client of a server that has one artifact of the run. A fake."""

    def __init__(self, known: bool = True) -> None:
        self.known, self.updated = known, list[tuple[UUID, str, str]]()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *of: object) -> None:
        return None

    async def read_artifacts(self, artifact_filter: Any, sort: Any, limit: int) -> list[Any]:
        """The run's own."""
        assert artifact_filter.flow_run_id.any_ == [RUN]
        return [SimpleNamespace(id=ARTIFACT)] if self.known else []

    async def update_artifact(self, artifact: UUID, update: Any) -> None:
        """Keep it."""
        self.updated.append((artifact, update.description, update.data))


@pytest.mark.parametrize("continues", [True, False])
def test_a_run_that_waits_for_a_person_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, continues: bool
) -> None:
    """And that it goes on once it was answered, also in another process; programs read that it runs."""
    server = Server()
    monkeypatch.setattr(status, "get_client", lambda: server)
    one = session(tmp_path)
    one.context.address = str(tmp_path)  # type: ignore[misc]
    held = one.renewal._held
    owner = dataclasses.replace(held.lease.owner, flow_run_id=str(RUN))
    one.renewal._held = dataclasses.replace(held, lease=dataclasses.replace(held.lease, owner=owner))
    one.announcement = None if continues else ARTIFACT

    asyncio.run(publish_state(one, "The gate waits for a person. ASK local."))
    asyncio.run(publish_state(one))

    assert [(ARTIFACT, "The gate waits for a person. ASK local."), (ARTIFACT, RUNS)] == [
        (artifact, said) for artifact, said, _ in server.updated
    ]
    assert server.updated[0][2].startswith("The gate waits for a person")
    assert ("g-1", None) == (
        read_status(server.updated[0][2]).gate_id,
        read_status(server.updated[0][2]).code,
    )
    assert ARTIFACT == one.announcement


def test_a_run_that_published_nothing_publishes_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is published anew."""
    server = Server(known=False)
    monkeypatch.setattr(status, "get_client", lambda: server)
    one = session(tmp_path)
    held = one.renewal._held
    owner = dataclasses.replace(held.lease.owner, flow_run_id=str(RUN))
    one.renewal._held = dataclasses.replace(held, lease=dataclasses.replace(held.lease, owner=owner))

    asyncio.run(publish_state(one))

    assert (None, []) == (one.announcement, server.updated)


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
