"""The reaper about a run whose gate another run has taken over: it is crashed, and nobody is notified of what is no crash."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import UUID

import pytest

from tasks.gate.context import open_gate_context
from tasks.gate.record.request import keep_request
from tasks.store.layout import outcome_key
from tests.flows.test_reap import _begun, _reaped, _state, nobody_waits

__all__ = ["nobody_waits"]
pytestmark = pytest.mark.usefixtures("prefect_backend")


def test_a_gate_that_another_run_took_over_and_ended_pages_nobody(tmp_path: Path) -> None:
    """The other run has notified people of its end; this would be about a crash of a gate that said GO."""
    request, run = _begun(tmp_path)
    context = open_gate_context(request)
    asyncio.run(_announced(run, "test-1", context.address))
    keep_request(context.store, "test-1", request, str(UUID(int=7)))
    context.store.put(
        outcome_key("test-1"), json.dumps({"decision": "launched", "reason": "GO test: all is well"}).encode()
    )

    first, second = _reaped(run, "silent"), _reaped(run, "crashed")

    assert ("Reaped", "Crashed") == (first.name, _state(run).name), first.message
    heir = UUID(int=7)
    assert (
        f"flow run {heir} has taken over its gate test-1 and has ended it (launched)" in _state(run).message
    )
    assert "taken over" in second.message and not (tmp_path / "store" / "pages").exists()


async def _announced(run: str, gate_id: str, store: str) -> None:
    """The status that a gate's run publishes as it begins."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import ArtifactCreate

    said = {
        "schema_version": 1,
        "gate_id": gate_id,
        "gate": "test",
        "cluster": "test",
        "store": store,
        "phase": "running",
    }
    text = f"The gate runs.\n\n```json\n{json.dumps(said)}\n```\n"
    made = ArtifactCreate(key="gate-run-test", type="markdown", data=text, flow_run_id=UUID(run))
    async with get_client() as client:
        await client.create_artifact(made)
