"""The notebook for SageMaker Studio: its cells, in their order, plan, start and read a gate on the stand-in of SageMaker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.cli.output import json_text
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport, outcome_json
from tests.flows.cloud import Account, account, cloud_gate
from tests.programs import executable
from tests.sample_reports import healthy, verdict_of, wrong_sums
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


def test_notebook_has_named_cells_without_outputs() -> None:
    """Of format 4.5, whose cells have names; what somebody's run printed is not in it."""
    made = document()
    cells = made["cells"]

    assert (4, 5) == (made["nbformat"], made["nbformat_minor"])
    assert len({cell["id"] for cell in cells}) == len(cells)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    compile(program(), str(NOTEBOOK), "exec")


def ran(path: Path, **environment: str) -> str:
    """What its cells print about a gate file."""
    argv, own = (sys.executable, "-c", program()), {**os.environ, "PRELAUNCH_GATE_FILE": str(path)}
    null = subprocess.DEVNULL
    done = subprocess.run(argv, cwd=ROOT, env=own | environment, stdin=null, capture_output=True, text=True)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "report: " in done.stdout and "page: " in done.stdout
    return done.stdout


@needs_root
@pytest.mark.root
@pytest.mark.long  # below all cells run, with a command that is made up; tests/flows/test_sagemaker.py has the real gate
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("prefect_backend")
def test_its_cells_plan_start_and_read_a_gate(tmp_path: Path, account: Account) -> None:
    """On a go the training ran."""
    with account(part="well") as cloud:
        printed = ran(cloud_gate(tmp_path, cloud, "in_job"))

    assert "Plan of gate test: 24 checks on 2 nodes of m5.large, 4 ranks; launcher sagemaker" in printed
    assert "exit code 0 - " in printed and "decision: launched" in printed, printed


COMMAND = """#!/bin/sh
[ "$1" = plan ] && exit 0
cat "$(dirname "$0")/said.json"
exit 1
"""


def test_its_cells_read_a_refusal(tmp_path: Path) -> None:
    """On a no-go the node is named, and what to do. The command is made up; what it prints is written as the real one does."""
    report = wrong_sums(healthy())
    judged = JudgedReport(report, verdict_of(report))
    refused = GateOutcome(
        "g-1", Ending.VERDICT, Decision.REFUSED, judged, None, "no-go", "report.json", "report.html"
    )
    (tmp_path / "said.json").write_text(json_text(outcome_json(refused, "local")))
    executable(tmp_path / "prelaunch", COMMAND)
    printed = ran(tmp_path / "gate.toml", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    assert "exit code 1 - decision: refused" in printed and "FAIL HARDWARE node-1" in printed, printed
    assert "    do: " in printed
