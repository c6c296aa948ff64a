"""Machines that no table knows, and policies that are for others."""

from __future__ import annotations

from pathlib import Path

from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import edit, refusal


def test_a_policy_for_other_types_is_refused_in_one_line(tmp_path: Path) -> None:
    """It names the declared type and the key to change, and not every type that there is."""
    path, types = write_gate(tmp_path), [f"p{number}.large" for number in range(60)]
    edit(tmp_path / "policy.toml", 'instance_types = ["cpu"]', f"instance_types = {types}")
    said = str(refusal(path))

    assert "policy 'test' (policy.toml) was not written for cpu, but for p" in said and " and 55 more" in said
    assert said.endswith("Name another in [policy] file, or add the type to a copy of this one.")
    assert len(said) < 500


def test_an_unknown_type_is_refused_with_the_types_of_the_policy(tmp_path: Path) -> None:
    """The policy file that the gate file names is for another type, and the error says for which."""
    said = str(refusal(edit(write_gate(tmp_path), '"cpu"', '"our-h200"')))

    assert "'our-h200' is not a known instance type. Known are cpu, m5.*" in said
    assert "[cluster.machine]" in said
    assert said.endswith("Policy policy.toml is for cpu.")
