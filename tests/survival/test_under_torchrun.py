"""`python -m checks run` started by a torchrun that is not ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from checks import bundle as bundles
from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Level, Report
from tests.survival.world import ROOT, World, all_but

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
