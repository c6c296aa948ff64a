"""Machines that no table knows, and policies that are for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate.context import open_gate_context
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import GateRequest
from tests.flows.gates import write_gate


def test_a_policy_for_other_types_is_refused_in_one_line(tmp_path: Path) -> None:
    """It names the declared type and the key to change, and not every type that there is."""
    path = write_gate(tmp_path)
    policy, types = tmp_path / "policy.toml", [f"p{number}.large" for number in range(60)]
    text = policy.read_text()
    assert 'instance_types = ["cpu"]' in text
    policy.write_text(text.replace('instance_types = ["cpu"]', f"instance_types = {types}"))
    with pytest.raises(GateFileError) as caught:
        open_gate_context(GateRequest(gate_file=str(path)))

    said = str(caught.value)
    assert "policy 'test' (policy.toml) was not written for cpu, but for p" in said and " and 55 more" in said
    assert said.endswith("Name another in [policy] file, or add the type to a copy of this one.")
    assert len(said) < 500


def test_an_unknown_type_is_refused_with_the_types_of_the_policy(tmp_path: Path) -> None:
    """The policy file that the gate file names is for another type, and the error says for which."""
    path = write_gate(tmp_path)
    path.write_text(path.read_text().replace('"cpu"', '"our-h200"'))
    with pytest.raises(GateFileError) as caught:
        open_gate_context(GateRequest(gate_file=str(path)))

    said = str(caught.value)
    assert (
        "'our-h200' is not a known instance type. Known are cpu, m5.*" in said and "[cluster.machine]" in said
    )
    assert said.endswith("The policy policy.toml is for cpu.")
