"""What the artifact of a run says while it runs: that it goes on or waits for a person; one artifact, also over two processes."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tasks.orchestration import status
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
