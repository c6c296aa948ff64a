"""What the shipped gate files submit to Slurm, as it stands in tests/golden/slurm. UPDATE_GOLDEN=1 writes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.gate.context import open_gate_context
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.request import GateRequest
from tasks.launchers.slurm import batch_script
from tests.tasks.launchers.golden import GOLDEN, ROOT, gates_of, golden_text

SCRIPTS = GOLDEN / "slurm"
GATES = gates_of("slurm")


@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_the_batch_scripts_are_the_golden_ones(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that differs between two jobs; what is the same in all of them is job.sh."""
    monkeypatch.chdir(tmp_path)
    context = open_gate_context(GateRequest(gate_file=str(path)))
    scripts = [context.launcher.plan(job).processes[0].script for job in planned_jobs(context)]
    assert all(script.endswith(batch_script._body()) for script in scripts)
    heads = "\n".join(script.removesuffix(batch_script._body()) for script in scripts)
    heads = heads.replace(str(tmp_path), "/shared").replace(str(ROOT), "/prelaunch")
    if " " in str(ROOT):
        heads = re.sub("'(/prelaunch/[^']*)'", r"\1", heads)  # quoted for the blank

    assert heads == golden_text(SCRIPTS / f"{path.stem}.sbatch", heads)


def test_every_golden_script_is_of_a_shipped_gate_file() -> None:
    """A file that nobody compares says nothing."""
    assert {path.stem for path in GATES} == {path.stem for path in SCRIPTS.iterdir()}
