"""`prelaunch node machine`: what a node without a gate file is told of a machine of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli.main import main
from tests.flows.cli.conftest import Captured

GATES = Path(__file__).parents[3] / "deployments" / "gates"


def test_the_machine_of_a_gate_file_is_printed(capsys: Captured) -> None:
    code = main(["node", "machine", str(GATES / "slurm-ib.toml")])
    told = capsys.readouterr()
    found = json.loads(told.out)

    assert (0, "") == (code, told.err)
    assert ("hgx-h100", 8, 400) == (
        found["instance_type"], found["gpus_per_node"], found["machine"]["ib_rate_gbit_s"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "said"), [("slurm-p5", "p5.48xlarge is a known instance type"), ("none", "none.toml")]
)
def test_a_gate_file_without_one_is_rejected(name: str, said: str, capsys: Captured) -> None:
    code = main(["node", "machine", str(GATES / f"{name}.toml")])
    told = capsys.readouterr()

    assert (2, "") == (code, told.out)
    assert said in told.err
