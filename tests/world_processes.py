"""The processes of tests.world: Prefect's server and its workers, as an operator's machine would run them.

Each bears marks in its environment, so that whatever it started can be found, and ended by its pid.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from checks.process.free_ports import free_port
from tests import waiting
from tests.architecture import leftovers

PREFECT = (sys.executable, "-m", "prefect")
# A process in a script's background ignores SIGINT, and Prefect's worker would then swallow its first SIGTERM.
SIGNALS = ("env", "--default-signal=INT,TERM,HUP")
WORKER_MARK = "PRELAUNCH_TEST_WORKER"


class Server:
    """`prefect server start` on a port of its own, which it keeps when it starts again."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], argv: Sequence[str] = (), port: int = 0
    ) -> None:
        """`environment` is the whole one; the log is folder/server.log. `argv`, with its `port`: another way to start it."""
        self.port = port or free_port()
        words = ("server", "start", "--host", "127.0.0.1", "--port", str(self.port))
        self._argv = tuple(argv) or (*PREFECT, *words)
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.log = folder / "server.log"
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """None where it does not run."""
        return self._process.pid if self._process else None

    def start(self, timeout_s: float = 240) -> None:
        """Return once it answers."""
        self._process = process = _started(self._argv, self.log, self._environment)
        answers = lambda: _healthy(self.url) or process.poll() is not None  # noqa: E731 - a name for the line below
        until(answers, timeout_s, self.log, "the server answers")
        assert process.poll() is None, f"the server ended: {tail(self.log)}"

    def stop(self, grace_s: float = 15) -> None:
        """As systemd would: SIGTERM, and SIGKILL after the grace. Does nothing where it does not run."""
        process, self._process = self._process, None
        if process is not None:
            _end(process, grace_s)

    def kill(self) -> None:
        """SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Stop, then start on the same port."""
        self.stop()
        self.start()


class Worker:
    """A worker, with a mark of its own in its environment."""

    def __init__(self, folder: Path, name: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """The log is folder/NAME.log."""
        self.name, self.log = name, folder / f"{name}.log"
        self._process = _started(argv, self.log, {**environment, WORKER_MARK: name})

    @property
    def pid(self) -> int:
        """Of the worker's own process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the worker's own process runs."""
        return self._process.poll() is None

    def started(self) -> list[int]:
        """What it, or a process of its, started and still runs: flows, nodes, trainings."""
        return [pid for pid in marked(WORKER_MARK, self.name) if pid != self.pid]

    def terminate(self, grace_s: float = 30) -> None:
        """SIGTERM to the worker alone, and wait; its flows may live on. SIGKILL after the grace."""
        _end(self._process, grace_s)

    def kill(self) -> None:
        """SIGKILL to the worker alone; its flows live on."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """SIGKILL to the worker and to all that it started."""
        self.kill()
        end_marked(WORKER_MARK, self.name)


def _started(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """The process, in a session of its own and in the folder of its log."""
    with log.open("ab") as file:
        return subprocess.Popen(
            (*SIGNALS, *argv),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=environment,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def worker_argv(pool: str) -> tuple[str, ...]:
    """The command of a worker, without its name."""
    return (*PREFECT, "worker", "start", "--type", "process", "--pool", pool)


def marked(name: str, value: str) -> list[int]:
    """Living processes that bear this in their environment."""
    return [one.pid for one in leftovers.find(value, name)]


def end_marked(name: str, value: str, timeout_s: float = 10) -> None:
    """SIGKILL to each of them, until none is left: one may have been starting another."""
    until = time.monotonic() + timeout_s
    while pids := marked(name, value):
        assert time.monotonic() < until, f"still running: {pids}"
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def until(done: Callable[[], object], timeout_s: float, log: Path, what: str, every_s: float = 0.05) -> None:
    """Return once it is so; fail with the log's last lines where it is not in time."""
    waiting.until(done, lambda: f"{what}\n{tail(log)}", timeout_s, every_s)


def tail(log: Path, lines: int = 40) -> str:
    """The last lines of a log; "" where there is none."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
