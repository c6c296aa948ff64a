"""[checks] skip: which checks a gate file may leave out, and where that goes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import edit, opened, refusal

ROOT = Path(__file__).parents[3]


def gate(folder: Path, check: str = "disk.io", line: str = "") -> Path:
    """The test gate, whose policy does without this check where the tool for it is not installed."""
    path, line = write_gate(folder), line or 'accept_skips = ["tool not installed on this node"]'
    edit(folder / "policy.toml", f'[checks."{check}"]\n', f'[checks."{check}"]\n{line}\n')
    return path


@pytest.mark.parametrize(
    ("skip", "said", "near"),
    [
        (
            "compute.gemm",
            "requires compute.gemm, so it cannot be skipped. Name an optional check (disk.io)",
            None,
        ),
        ("disk.oi", "there is no such check", "disk.io"),
    ],
)
def test_a_check_that_is_required_cannot_be_left_out(
    tmp_path: Path, skip: str, said: str, near: str | None
) -> None:
    """It is refused before anything starts, with the checks that may be."""
    error = refusal(gate(tmp_path), f"checks.skip=['{skip}']")

    assert ("checks.skip[0]", near) == (error.path, error.nearest)
    assert said in error.message


def test_the_edit_that_the_refusal_names_lets_the_check_be_left_out(tmp_path: Path) -> None:
    """As it is written there, and in docs/policies.md; the other checks stay required."""
    skipping = "checks.skip=['compute.gemm']"
    line = re.search(r"\((accept_skips = \[[^]]*\])", refusal(write_gate(tmp_path), skipping).message)

    assert line and line[1] in (ROOT / "docs" / "policies.md").read_text()
    assert ("compute.gemm",) == opened(gate(tmp_path, "compute.gemm", line[1]), skipping).bundle("a").skip


def test_a_check_that_is_left_out_reaches_every_node(tmp_path: Path) -> None:
    """In the bundle; and a PASS without it is another one."""
    path = gate(tmp_path)
    whole, without = opened(path), opened(path, "checks.skip=['disk.io']")

    assert ((), ("disk.io",)) == (whole.bundle("a").skip, without.bundle("a").skip)
    assert whole.fingerprint != without.fingerprint
