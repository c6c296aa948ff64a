"""Checks and training in one job of the local launcher: nodes that are processes decide, hold, and become the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tests.flows.driving import gate_it, logs
from tests.flows.gates import write_gate

pytestmark = pytest.mark.usefixtures("prefect_backend", "play")


def test_local_job_that_passes_checks_and_trains_in_one_start(tmp_path: Path) -> None:
    """GO: the command ran on every node of the job that was checked, and nowhere else."""
    _, outcome = gate_it(write_gate(tmp_path, options="in_job = true"))

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code)
    assert outcome.placement is not None
    assert ("all 2 nodes checked themselves and trained, in one start of one job",) == outcome.placement.proof
    assert 1 == len(list(tmp_path.glob("store/clusters/*/jobs/*")))
    assert 2 == logs(tmp_path, "train").count("trained")
