"""Shipped gate files, on healthy machines made of recordings, through the whole flow: exit 0, and nothing that a healthy machine
would always be warned of.

The launcher, the stand-in of SageMaker, agent, runner, ranks, report, verdict and training are the shipped ones; `checks.profile`
is lowered, and so is the number of nodes.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from checks.judge.ledger import NO_BASELINE
from checks.model import FindingKind
from tasks.gate.outcome import Decision
from tests.flows.driving import request_of, run
from tests.survival.faulty_network import needs_root
from tests.worlds import flow

GATES = {gate.name: gate for gate in flow.shipped()}
pytestmark = [
    needs_root,
    pytest.mark.root,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("prefect_backend"),
]


@pytest.mark.parametrize("name", ["sagemaker-g5-1gpu", "sagemaker-p5"])
def test_a_healthy_machine_gets_its_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Launched, with exit code 0; of warnings only what nobody has published, and what a driver is too old to report."""
    gate = GATES[name]
    nodes = min(gate.nodes, 2)
    monkeypatch.chdir(tmp_path)
    with flow.account(tmp_path, gate, nodes, monkeypatch) as cloud:
        words = [*flow.overrides(gate, nodes), "checks.profile=quick"]
        words += flow.network(cloud) if nodes > 1 else []
        _, outcome = asyncio.run(run(request_of(gate.path, *words)))

        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        verdict = json.loads(
            (tmp_path / ".prelaunch" / "gates" / outcome.gate_id / "verdict.json").read_bytes()
        )
        known = {kind.value for kind in (FindingKind.DRIVER_TOO_OLD, *NO_BASELINE)}
        warned = [row for row in verdict["findings"] if row["level"] != "PASS"]
        assert [] == [f"{row['check']} {row['message']}" for row in warned if row["kind"] not in known]
        trained = [line for job in cloud.jobs() for lines in cloud.log(job).values() for line in lines]
        assert any(line.startswith("trained rank") for line in trained)
