"""DCGM's host engine in the container: started only where it is needed and missing, and it does not outlive the checks."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from checks.process.tree import alive, end_children, reap, start_ticks
from container.agent.machine import dcgm_host_engine
from tests.checks.exchange.test_exchange import free_port

FAKE = """#!{python} -S
# A fake nv-hostengine: it listens where it is told, or not at all, and notes its pid.
import os, socket, sys, time
open({pid!r}, "w").write(str(os.getpid()))
if {port}:
    server = socket.create_server(("127.0.0.1", {port}))
time.sleep(3600)
"""


def _install(folder: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    pid, path = folder / "pid", folder / dcgm_host_engine.PROGRAM
    path.write_text(FAKE.format(python=sys.executable, pid=str(pid), port=port))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return pid


def test_it_is_started_and_ends_with_the_agents_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers before the checks begin."""
    port = free_port()
    pid = _install(tmp_path, port, monkeypatch)
    said = dcgm_host_engine.ensure(8, port)

    assert said.startswith("started ")
    assert dcgm_host_engine.answers(port)
    end_children(0.0)
    assert not dcgm_host_engine.answers(port)
    assert not alive(int(pid.read_text()), start_ticks(int(pid.read_text())))
    reap()


def test_one_that_runs_already_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's own engine holds the site's watches."""
    pid = _install(tmp_path, 0, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert dcgm_host_engine.ensure(8, server.getsockname()[1]) == ""
    assert not pid.exists()


def test_without_gpus_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU node has no use for it."""
    pid = _install(tmp_path, 0, monkeypatch)

    assert dcgm_host_engine.ensure(0, free_port()) == ""
    assert not pid.exists()


def test_one_that_never_answers_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks then say that no host engine answers."""
    _install(tmp_path, 0, monkeypatch)
    monkeypatch.setattr(dcgm_host_engine, "READY_S", 0.5)
    said = dcgm_host_engine.ensure(8, free_port())
    end_children(0.0)
    reap()

    assert "does not answer" in said
