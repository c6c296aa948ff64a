"""The shipped gate file for Slurm with few checks, so that a whole gate on two cores costs seconds."""

from __future__ import annotations

import json
from pathlib import Path

from tests.survival import few_checks

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "deployments" / "gates" / "slurm-cpu.toml"
TRAINED = ("{python}", "-c", "print('trained')")


def slurm_gate(
    folder: Path,
    placement: str = "in_job",
    options: str = "",
    training: tuple[str, ...] = TRAINED,
    nodes: int = 2,
    distributed: str = "none",
) -> Path:
    """The gate file below `folder`, which the nodes share; `options` are lines of [cluster.options]."""
    folder.mkdir(parents=True, exist_ok=True)
    python = few_checks.interpreter(folder / "few-python")
    changes = {
        "\nnodes = 2": f"\nnodes = {nodes}",
        'placement = "in_job"': f'placement = "{placement}"\npython = "{python}"\npoll_seconds = 0.2\ngrace_s = 1.0\n{options}',
        'command = ["{here}/../examples/train_tiny.py", "--steps", "20"]': f"command = {json.dumps(training)}",
        'distributed = "torchrun"': f'distributed = "{distributed}"',
    }
    return few_checks.gate_file(SHIPPED, folder, changes)


def jobs_below(path: Path) -> dict[str, Path]:
    """The folders of the gate's jobs by the stage that their names end with ("check-1")."""
    found = (path.parent / "store" / "clusters").glob("*/jobs/*")
    return {"-".join(job.name.split("-")[-2:]): job for job in found}
