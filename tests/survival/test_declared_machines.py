"""One machine without accelerators, declared as what it is and as what it is not: `python -m checks run` itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks import catalog
from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Answer, Cause, Declared, Level, Outcome, Profile, Report, Skip
from tasks.gate_file.references import default_policy
from tests.survival.world import ROOT, World, all_but


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


SKIPPED = all_but("collective.barrier", "collective.all_reduce")


def torchrun(world: World, folder: Path) -> Report:
    """The report of one node of the world's ranks."""
    (folder / "bundle.json").write_bytes(bundles.dump(world.bundle("torchrun")))
    argv = (
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(world.ranks_per_node)),
        *("--standalone", "-m", "checks", "run"),
        *("--bundle", str(folder / "bundle.json"), "--out", str(folder / "report.json")),
    )
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests" / "sabotage")))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    ended = subprocess.run(argv, env=environment, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-6000:]
    return load((folder / "report.json").read_bytes())


def test_torchrun_ranks_make_one_report(tmp_path: Path) -> None:
    """Node checks once, rank checks on each, and nothing is wrong but that some checks were left out. A thread that is in a call of
    torch's store when its process ends aborts it, unless the process ends at once.
    """
    world = World(1, 2, ("in_store",), skip=SKIPPED)
    verdict = decide(torchrun(world, tmp_path), world.policy, builtin())

    assert 2 == verdict.coverage.ranks.observed
    assert {*SKIPPED} >= {found.check for found in verdict.findings if found.level is not Level.PASS}
