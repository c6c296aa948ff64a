"""A full disk or a reader that went away behind stderr costs the lines, and neither the report nor the exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from checks import cli
from checks.process.isolate import Output, piped

LISTING = (
    sys.executable,
    "-c",
    "from checks.process.stderr import say; say('x'); say('y'); print('the result')",
)


def test_a_full_disk_behind_stderr_changes_no_exit_code() -> None:
    """Python's own answer would be 1, which reads as no-go."""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(LISTING, stdout=subprocess.PIPE, stderr=full, check=False)

    assert (0, b"the result\n") == (ended.returncode, ended.stdout)


def test_a_copy_that_cannot_be_written_does_not_stop_the_writer() -> None:
    """The ranks' output is shown as it comes; where nobody can read it, it is drained and kept all the same."""
    child = subprocess.Popen(
        (sys.executable, "-c", "print('x' * 500000); print('y' * 500000)"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    closed = os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0)
    output = Output(piped(child), closed)

    assert child.wait(60) == 0
    assert len(output.text(5.0)) == 1_000_002
    closed.close()


def test_an_error_of_the_checks_themselves_is_cannot_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not Python's exit code 1, which would say that the node is broken."""

    def stumble(*given: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("checks.runner.single_node.run", stumble)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)

    assert cli.main(["run", "--instance-type", "cpu", "--out", str(tmp_path / "report.json")]) == 3
    assert "can't start new thread" in capsys.readouterr().err
