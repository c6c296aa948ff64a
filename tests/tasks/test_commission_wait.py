"""How long, and how often, a commissioning asks for a cluster that is busy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prefect.states import Failed

from tasks import commission
from tasks.finish import ClusterBusy
from tasks.gate_file.request import GateRequest
from tasks.orchestration.commission_result import CommissionResult
from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import opened


def test_a_gate_that_finds_a_free_cluster_busy_is_not_started_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder of the lock is dead, and its training still runs: nobody holds the lock, and each gate is refused."""
    monkeypatch.setattr(commission, "AGAIN_S", 0.2)
    context = opened(write_gate(tmp_path))
    begun: list[GateRequest] = []

    async def run(request: GateRequest) -> Any:
        begun.append(request)
        return Failed(message="busy", data=ClusterBusy("its job still runs"))

    request = GateRequest(gate_file="g")
    found = asyncio.run(commission._in_turn(run, context, request, "g", patience_s=1.0))

    assert CommissionResult.BUSY is found.result
    assert 2 <= len(begun) <= 7
