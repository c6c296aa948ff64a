"""dcgmi is interrupted, not killed: the diagnostic lives in the host engine, and dcgmi has to stop it there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from checks.check import CheckError
from checks.probes.dcgm import dcgmi
from checks.process.tool import ToolMissing
from tests.fakes.tools import Reply, install, on_path

STOPS = """#!/bin/sh
trap 'kill $!; echo aborted > "{mark}"; exit 203' INT
sleep 600 & wait
"""


def test_at_its_deadline_dcgmi_may_abort_the_diagnostic(tmp_path: Path) -> None:
    """It gets the signal that it answers with an abort."""
    mark, path = tmp_path / "mark", tmp_path / "dcgmi"
    path.write_text(STOPS.format(mark=mark))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    with on_path(tmp_path), pytest.raises(CheckError, match="interrupted at its deadline"):
        dcgmi.run_to_deadline(("diag",), 1.0)

    assert "aborted" == mark.read_text().strip()


def test_no_host_engine_is_said_with_its_remedy(tmp_path: Path) -> None:
    """Whichever of the two ways dcgmi says it."""
    for words in ("Error: Unable to connect to host engine.", "Error: unable to establish a connection to x"):
        install(tmp_path, "dcgmi", [Reply(words, code=235)])
        with on_path(tmp_path), pytest.raises(CheckError, match="nv-hostengine"):
            dcgmi.ask("discovery", "-l", timeout_s=5)


def test_without_dcgmi_the_tool_is_missing(tmp_path: Path) -> None:
    """That is a reason of its own."""
    with on_path(tmp_path, alone=True), pytest.raises(ToolMissing):
        dcgmi.run_to_deadline(("diag",), 1.0)
