"""DCGM's host engine in the container: started only where it is needed and missing, and it does not outlive the checks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from checks.process.free_ports import free_port
from checks.process.tree import alive, start_ticks
from container.agent.machine import dcgm_host_engine
from tests.programs import executable, python_line

FAKE = """{first_line}
# A fake nv-hostengine: it listens where it is told, or not at all, and notes its pid.
import os, socket, sys, time
open({pid!r}, "w").write(str(os.getpid()))
if {port}:
    server = socket.create_server(("127.0.0.1", {port}))
time.sleep(3600)
"""


def _install(folder: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    pid, text = folder / "pid", FAKE.format(first_line=python_line("-S"), pid=str(folder / "pid"), port=port)
    executable(folder / dcgm_host_engine.PROGRAM, text)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return pid


# In a process of its own, as the agent is one: it ends all its children.
AGENT = """
from checks.process.tree import end_children
from container.agent.machine import dcgm_host_engine
dcgm_host_engine.READY_S = {ready_s}
print(dcgm_host_engine.ensure(8, {port}))
print(dcgm_host_engine.answers({port}))
end_children(0.0)
print(dcgm_host_engine.answers({port}))
"""


def _as_agent(port: int, ready_s: float = dcgm_host_engine.READY_S) -> list[str]:
    """What `ensure` said, and whether the engine answered then, and after the agent ended its children."""
    argv = (sys.executable, "-c", AGENT.format(port=port, ready_s=ready_s))
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def test_host_engine_is_started_and_ends_with_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers before the checks begin."""
    path = _install(tmp_path, port := free_port(), monkeypatch)
    said, *answers = _as_agent(port)
    pid = int(path.read_text())

    assert said.startswith("started ")
    assert ["True", "False"] == answers
    assert not alive(pid, start_ticks(pid))


def test_host_engine_is_not_started_beside_another_or_without_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's own engine holds the site's watches, and a CPU node has no use for one."""
    pid = _install(tmp_path, 0, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert dcgm_host_engine.ensure(8, server.getsockname()[1]) == ""
    assert dcgm_host_engine.ensure(0, free_port()) == ""
    assert not pid.exists()


def test_host_engine_that_never_answers_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks then say that no host engine answers."""
    _install(tmp_path, 0, monkeypatch)

    assert "does not answer" in _as_agent(free_port(), ready_s=0.5)[0]
