"""[checks] skip: which checks a gate file may leave out, and where that goes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.gate.context import open_gate_context
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import Advanced, GateRequest
from tests.flows.gates import write_gate

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("skip", "where", "said", "near"),
    [
        (
            "compute.gemm",
            "checks.skip[0]",
            "requires compute.gemm, so it cannot be skipped. Name an optional check (disk.io)",
            None,
        ),
        ("disk.oi", "checks.skip[0]", "there is no such check", "disk.io"),
    ],
)
def test_a_check_that_is_required_cannot_be_left_out(
    tmp_path: Path, skip: str, where: str, said: str, near: str | None
) -> None:
    """It is refused before anything starts, with the checks that may be."""
    path, policy = write_gate(tmp_path), tmp_path / "policy.toml"
    optional = '[checks."disk.io"]\naccept_skips = ["tool not installed on this node"]\n'
    policy.write_text(policy.read_text().replace('[checks."disk.io"]\n', optional))
    request = GateRequest(gate_file=str(path), advanced=Advanced(overrides=[f"checks.skip=['{skip}']"]))

    with pytest.raises(GateFileError) as caught:
        open_gate_context(request)

    assert (where, near) == (caught.value.path, caught.value.nearest)
    assert said in caught.value.message


def test_the_edit_that_the_refusal_names_lets_the_check_be_left_out(tmp_path: Path) -> None:
    """As it is written there, and in docs/policies.md; the other checks stay required."""
    path, policy = write_gate(tmp_path), tmp_path / "policy.toml"
    request = GateRequest(gate_file=str(path), advanced=Advanced(overrides=["checks.skip=['compute.gemm']"]))
    with pytest.raises(GateFileError) as caught:
        open_gate_context(request)

    edit = re.search(r"\((accept_skips = \[[^]]*\])", caught.value.message)
    assert edit and edit[1] in (ROOT / "docs" / "policies.md").read_text()
    whole = policy.read_text()
    policy.write_text(whole.replace('[checks."compute.gemm"]\n', f'[checks."compute.gemm"]\n{edit[1]}\n'))
    assert whole != policy.read_text()
    assert ("compute.gemm",) == open_gate_context(request).bundle("a").skip


def test_a_check_that_is_left_out_reaches_every_node(tmp_path: Path) -> None:
    """In the bundle; and a PASS without it is another one."""
    path, policy = write_gate(tmp_path), tmp_path / "policy.toml"
    optional = '[checks."disk.io"]\naccept_skips = ["tool not installed on this node"]\n'
    policy.write_text(policy.read_text().replace('[checks."disk.io"]\n', optional))
    skipping = Advanced(overrides=["checks.skip=['disk.io']"])
    whole, without = (
        open_gate_context(GateRequest(gate_file=str(path), advanced=advanced))
        for advanced in (Advanced(), skipping)
    )

    assert ((), ("disk.io",)) == (whole.bundle("a").skip, without.bundle("a").skip)
    assert whole.fingerprint != without.fingerprint
