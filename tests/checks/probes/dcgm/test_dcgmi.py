"""dcgmi is interrupted, not killed: the diagnostic lives in the host engine, and dcgmi has to stop it there."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checks.check import CheckError
from checks.model import ErrorKind
from checks.probes.dcgm import dcgmi
from checks.process import isolate
from checks.process.tree import alive, start_ticks
from tests.fakes.tools import on_path
from tests.programs import executable, python_line

Engine = Callable[..., Path]

ROOT = Path(__file__).parents[4]
DEADLINE_S = 3600.0
# How long dcgmi may take to answer a signal, on a busy machine too.
PATIENCE_S = 30.0
# A fake dcgmi and the diagnostic of its host engine, which lives in a session of its own: it ends only if dcgmi, asked by a signal,
# stops it.
FAKE = Path(__file__).with_name("deaf_dcgmi.template").read_text()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Installs the fake; the file has the pid of its diagnostic, which ends with the test. The deadline passes when it is ready."""
    pid = tmp_path / "pid"

    class AtItsDeadline(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if timeout != DEADLINE_S:
                return super().wait(timeout)
            while not (tmp_path / "ready").exists():
                assert self.poll() is None
                time.sleep(0.02)
            raise subprocess.TimeoutExpired("dcgmi", DEADLINE_S)

    monkeypatch.setattr(subprocess, "Popen", AtItsDeadline)

    def fake(*, ends: bool = True, stops: bool = True, name: str = "not-nvvs") -> Path:
        first, ready = python_line("-S"), str(tmp_path / "ready")
        text = FAKE.format(first_line=first, pid=str(pid), ready=ready, ends=ends, stops=stops, name=name)
        executable(tmp_path / "dcgmi", text)
        return pid

    yield fake
    with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def runs(pid: Path) -> bool:
    """Whether the diagnostic does."""
    number = int(pid.read_text())
    return alive(number, start_ticks(number))


def test_at_its_deadline_dcgmi_stops_the_diagnostic(tmp_path: Path, engine: Engine) -> None:
    """It gets the signal that it answers with an abort, whatever else is installed."""
    pid = engine()
    stopped = pytest.raises(CheckError, match=r"3600 s\. It stopped the diagnostic in the host engine")
    with on_path(tmp_path, alone=True), stopped:
        dcgmi.run_to_deadline(("diag",), DEADLINE_S)

    assert not runs(pid)


@pytest.mark.parametrize(
    ("ends", "name", "words"),
    [
        (True, "nvvs", "dcgmi ended, and the diagnostic runs on as nvvs .process {pid}."),
        (False, "nvvs", "dcgmi did not end within 0.2 s, and the diagnostic runs on as nvvs .process {pid}."),
        (False, "not-nvvs", "dcgmi did not end within 0.2 s, and the diagnostic may run on"),
    ],
    ids=["the engine goes on", "dcgmi hangs", "another container"],
)
def test_a_diagnostic_that_goes_on_in_the_host_engine_is_named(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, ends: bool, name: str, words: str
) -> None:
    """Whether dcgmi could not stop it, or hung itself; whoever measures next would find the GPUs busy."""
    monkeypatch.setattr(dcgmi, "GRACE_S", 0.2)
    pid = engine(ends=ends, stops=False, name=name)
    with on_path(tmp_path), pytest.raises(CheckError) as raised:
        dcgmi.run_to_deadline(("diag",), DEADLINE_S)

    assert re.search(words.format(pid=pid.read_text()), str(raised.value))
    assert "systemctl restart nvidia-dcgm" in str(raised.value)


@pytest.mark.parametrize("killed", [False, True])
def test_a_check_that_is_ended_stops_its_diagnostic(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """A job that is cancelled ends its checks' processes, and dcgmi with them; also if the check itself is killed."""
    monkeypatch.setattr(isolate, "GRACE_S", PATIENCE_S)
    pid = engine()
    script = "from checks.probes.dcgm import dcgmi; dcgmi.run_to_deadline(('diag',), 3600.0)"

    def start(_: float) -> subprocess.Popen[bytes]:
        argv = (sys.executable, "-c", script)
        check = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, start_new_session=True)
        while not (tmp_path / "ready").exists():
            assert check.poll() is None
            time.sleep(0.02)
        if killed:
            check.kill()
            check.wait()
            while runs(pid):
                time.sleep(0.02)
        return check

    with on_path(tmp_path):
        row = isolate.isolated("dcgm.diag", "node-0", start, tmp_path / "result", -PATIENCE_S)

    assert (ErrorKind.OTHER if killed else ErrorKind.DEADLINE) is row.error_kind
    assert not runs(pid)
