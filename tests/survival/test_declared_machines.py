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


def _run(instance_type: str, profile: str, out: Path) -> subprocess.CompletedProcess[str]:
    argv = ("-m", "checks", "run", "--profile", profile, "--instance-type", instance_type, "--out", str(out))
    return subprocess.run((sys.executable, *argv), cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
@pytest.mark.parametrize("profile", ["quick", pytest.param("standard", marks=pytest.mark.long)])
def test_a_machine_without_gpus_is_no_p5(profile: str, tmp_path: Path) -> None:
    """8 GPUs declared and none in /proc or /dev: no-go with the cause HARDWARE, and what could not be seen is named."""
    ended = _run("p5.48xlarge", profile, tmp_path / "report.json")
    report = load((tmp_path / "report.json").read_bytes())
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


@pytest.mark.long  # the same way as a p5's; its checks without a device are in tests/corpus/neuron_cases.py
@pytest.mark.parametrize("instance_type", ["trn1.32xlarge"])
def test_a_machine_without_neuron_devices_is_no_trn1(instance_type: str, tmp_path: Path) -> None:
    """Nothing that only a Trainium node can show was seen, so nothing passes."""
    ended = _run(instance_type, "quick", tmp_path / "report.json")

    assert ended.returncode in (1, 3), ended.stdout + ended.stderr
    assert "neuron.devices" in ended.stdout


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


def test_of_a_plain_machine_what_was_not_declared_is_planned_as_skipped() -> None:
    """Profile standard: each check is run, or has its declared reason."""
    lines = catalog.plan(
        catalog.CATALOG, Declared("cpu", 1, 0, 1), Profile.STANDARD, builtin().instances.get("cpu")
    )

    assert {line.skip.value for line in lines if line.skip} <= UNDECLARED
    assert {"compute.gemm", "system.identity"} <= {line.check for line in lines if line.skip is None}


@pytest.mark.long  # profile quick passes in tests/survival/test_under_torchrun.py
def test_declared_as_what_it_is_it_passes(tmp_path: Path) -> None:
    """The same machine as `cpu`, profile standard: go, and every skip has its declared reason."""
    ended = _run("cpu", "standard", tmp_path / "report.json")
    report = load((tmp_path / "report.json").read_bytes())

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert {line.skip.value for line in report.plan if line.skip} <= UNDECLARED
