"""`prelaunch node machine`: what a node without a gate file is told of a machine of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.flows.cli.conftest import Run

GATES = Path(__file__).parents[3] / "deployments" / "gates"


def test_the_machine_of_a_gate_file_is_printed(run: Run) -> None:
    code, out, err = run("node", "machine", GATES / "slurm-ib.toml")
    found = json.loads(out)

    assert (0, "") == (code, err)
    assert ("hgx-h100", 8) == (found["instance_type"], found["gpus_per_node"])
    assert 400 == found["machine"]["ib_rate_gbit_s"]


@pytest.mark.parametrize(
    ("name", "said"), [("slurm-p5", "p5.48xlarge is a known instance type"), ("none", "none.toml")]
)
def test_a_gate_file_without_one_is_rejected(name: str, said: str, run: Run) -> None:
    code, out, err = run("node", "machine", GATES / f"{name}.toml")

    assert (2, "") == (code, out)
    assert said in err
