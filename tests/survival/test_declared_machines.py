"""One machine without accelerators, declared as what it is and as what it is not: `python -m checks run` itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checks import catalog
from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Answer, Cause, Declared, Level, Outcome, Profile, Skip
from tasks.gate_file.references import default_policy

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_a_machine_without_gpus_is_no_p5(tmp_path: Path) -> None:
    """8 GPUs declared and none in /proc or /dev: no-go with the cause HARDWARE, and what could not be seen is named."""
    out = tmp_path / "report.json"
    argv = ("-m", "checks", "run", "--profile", "quick", "--instance-type", "p5.48xlarge", "--out", str(out))
    ended = subprocess.run((sys.executable, *argv), cwd=ROOT, capture_output=True, text=True, check=False)
    report = load(out.read_bytes())
    verdict = decide(report, default_policy("p5.48xlarge")[1], builtin())
    first = verdict.findings[0]

    assert (ended.returncode, verdict.answer) == (1, Answer.NO_GO), ended.stdout + ended.stderr
    assert (first.check, first.cause, first.level) == ("gpu.inventory", Cause.HARDWARE, Level.FAIL)
    assert (first.metric, first.compared and first.compared.value) == ("gpus_missing", 8)
    assert verdict.coverage.gpus.observed == 0
    unseen = {f.check for f in verdict.findings if f.cause is Cause.EVIDENCE}
    planned = {line.check for line in report.plan if line.skip is None}
    measured = {row.check for row in report.observations if row.outcome is Outcome.MEASURED}
    assert planned - measured <= unseen, "a check that was not measured is not named"
    assert {"gpu.ecc", "dcgm.diag", "efa.devices", "nccl.all_reduce", "compute.gemm"} <= unseen
    assert all(name in ended.stdout for name in ("gpu.inventory", "dcgm.diag", "efa.devices"))


UNDECLARED = {
    "no GPU declared",
    "one node declared",
    "one rank declared",
    "not in this profile",
    "this instance type has no EFA",
    "this instance type has no InfiniBand port",
    "this instance type has no Neuron device",
    Skip.KERNEL_LOG_READABLE.value,
}


def test_plan_for_a_plain_machine_skips_undeclared_parts() -> None:
    """Profile standard: each check is run, or has its declared reason."""
    cpu = builtin().instances.get("cpu")
    lines = catalog.plan(catalog.CATALOG, Declared("cpu", 1, 0, 1), Profile.STANDARD, cpu)

    assert {line.skip.value for line in lines if line.skip} <= UNDECLARED
    assert {"compute.gemm", "system.identity"} <= {line.check for line in lines if line.skip is None}
