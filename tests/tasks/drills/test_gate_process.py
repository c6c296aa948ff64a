"""The gate that a drill starts ends with the drill, with all that it started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tasks.drills.gate_process import start_gate


def living(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_gate_that_ends_has_an_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    """What it prints goes to stderr, because stdout is the drill's."""
    gate = start_gate(("sh", "-c", "echo GO; exit 1"))
    while gate.code() is None:
        time.sleep(0.01)
    gate.end()
    shown = capfd.readouterr()

    assert (1, "", "GO\n") == (gate.code(), shown.out, shown.err)


def test_a_gate_that_runs_is_ended_with_its_children(tmp_path: Path) -> None:
    """It gets SIGTERM first, so that it can end its jobs."""
    file = tmp_path / "said"
    gate = start_gate(
        ("sh", "-c", f"trap 'echo ending >{file}; exit 143' TERM; sleep 600 & echo $! >{file}.pid; wait")
    )
    while not (pid := Path(f"{file}.pid")).exists() or not pid.read_text().strip():
        time.sleep(0.01)
    assert gate.code() is None
    gate.end()

    assert (143, "ending\n") == (gate.code(), file.read_text())
    assert not living(int(pid.read_text()))
