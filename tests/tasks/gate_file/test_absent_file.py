"""A gate file that is not where it was looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate_file.read import GateFileError, read_gate_file
from tests.flows.gates import write_gate


@pytest.mark.parametrize(
    ("name", "said"),
    [("absent.toml", "there is no such file"), ("x/a.toml", "no folder"), (".", "is a folder")],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, said: str) -> None:
    """Absent, or a folder."""
    with pytest.raises(GateFileError, match=said):
        read_gate_file(tmp_path / name)


def test_beside_a_file_that_is_not_there_the_gate_files_are_named(tmp_path: Path) -> None:
    """And the nearest one; a policy is none."""
    write_gate(tmp_path).rename(tmp_path / "p5-prod.toml")
    with pytest.raises(GateFileError) as caught:
        read_gate_file(tmp_path / "p5-prd.toml")

    assert caught.value.message.endswith(f"The gate files in {tmp_path}: p5-prod")
    assert str(tmp_path / "p5-prod.toml") == caught.value.nearest
