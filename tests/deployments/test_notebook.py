"""The notebook for SageMaker Studio: its cells, in their order, plan, start and read a gate on the stand-in of SageMaker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.cloud import Account, account, cloud_gate
from tests.survival.faulty_network import needs_root

__all__ = ["account"]
ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "deployments" / "notebooks" / "sagemaker.ipynb"


def document() -> dict[str, Any]:
    """The notebook as JSON."""
    made = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert isinstance(made, dict)
    return made


def program() -> str:
    """Its code cells one after another, as "Run all" runs them; they are plain Python."""
    return "\n\n".join("".join(cell["source"]) for cell in document()["cells"] if cell["cell_type"] == "code")


def test_it_is_a_notebook_without_outputs() -> None:
    """Of format 4.5, whose cells have names; what somebody's run printed is not in it."""
    made = document()
    cells = made["cells"]

    assert (4, 5) == (made["nbformat"], made["nbformat_minor"])
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None
        for cell in cells
        if cell["cell_type"] == "code"
    )
    compile(program(), str(NOTEBOOK), "exec")


@needs_root
@pytest.mark.root
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("prefect_backend")
@pytest.mark.parametrize(
    ("part", "code", "said"),
    [
        ("", 0, "decision: launched"),
        ("wrong", 1, "FAIL HARDWARE algo-2"),
    ],
)
def test_its_cells_plan_start_and_read_a_gate(
    tmp_path: Path, account: Account, part: str, code: int, said: str
) -> None:
    """On a go the training ran; on a no-go the node is named, and what to do."""
    with account(part=part or "well") as cloud:
        path = cloud_gate(tmp_path, cloud, "in_job")
        done = subprocess.run(
            [sys.executable, "-c", program()],
            cwd=ROOT,
            env={**os.environ, "PRELAUNCH_GATE_FILE": str(path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
        )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "CreateTrainingJob" in done.stdout or "create_training_job" in done.stdout
    assert f"exit code {code} - " in done.stdout and said in done.stdout, done.stdout
    assert "report: " in done.stdout and "page: " in done.stdout
