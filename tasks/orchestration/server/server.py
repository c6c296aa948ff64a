"""Prefect's server for one gate if nobody configured another: loopback only, no telemetry, and it ends with the gate.

ServerError                 no embedded server; carries the remedy
|- StateUnusable            its folder cannot be written
|  `- StateFull             no space is left there
|- EnvironmentUnusable      Prefect's client cannot be made in this environment
`- ServerFailed             it ended, or was not ready in time

Decisions.
- Every gate has its own process, all of one folder share its SQLite file in WAL mode. A server shared between
  gates would have to outlive, or die under, somebody's flow. A file for each would hide the runs from one
  another and from the next start. What they contend for is repeated in the server (tasks.orchestration.server.process).
- The listening socket is made here and inherited: the address is known at once, and no port can be lost to
  a race.
- Anybody on the machine can connect to loopback: a random secret, passed by environment, keeps them out.
- The server has a session of its own: Ctrl-C ends the flow, which must still be able to say so.

Imports no Prefect: `start()`, import Prefect meanwhile (1 s), then `wait_ready()`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TextIO

from checks.runner.deadline import NotInTime, limited
from tasks.orchestration.server.settings import client_environment, server_environment

READY_TIMEOUT_S = 90.0
_STOP_GRACE_S = 6.0
_DRAIN_S = 5.0
_LOG_LIMIT_BYTES = 1 << 20
_ROOT = Path(__file__).resolve().parents[3]


class ServerError(Exception):
    """There is no embedded server. The message says why, and the remedy."""


class StateUnusable(ServerError):
    """The server's folder cannot be made or written."""


class StateFull(StateUnusable):
    """No space is left in the server's folder."""


class EnvironmentUnusable(ServerError):
    """Prefect's client cannot be made in this environment: a proxy, the certificates, no home folder."""


class ServerFailed(ServerError):
    """The server ended, or was not ready in time."""


@dataclass(frozen=True)
class _ServerFiles:
    """What lies in the server's folder. `template` is outside: it serves every folder of this user."""

    folder: Path
    database: Path
    template: Path
    log: Path
    home: Path


class EmbeddedServer:
    """One server process. `start` returns in milliseconds; `stop` always leaves nothing behind."""

    def __init__(self, state_dir: Path, template_dir: Path | None = None) -> None:
        self._files = _files(state_dir, template_dir)
        self._auth = f"prelaunch:{secrets.token_urlsafe(24)}"
        self._process: subprocess.Popen[bytes] | None = None
        self._ready_fd = -1
        self.url = ""

    @property
    def log(self) -> Path:
        """Where the server's own messages go."""
        return self._files.log

    @property
    def pid(self) -> int | None:
        """The server's process id; None before `start` and after `stop`."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process; its `url` is known afterwards. To be called on the main thread.

        The kernel ends the server with the *thread* that started it, so a thread that ends early would take
        the server with it. Raises StateUnusable, ServerFailed.
        """
        if threading.current_thread() is not threading.main_thread():
            raise ServerFailed("The embedded Prefect server must be started from the main thread.")
        environment = server_environment(self._files.database, self._auth, self._files.home)
        path = environment.get("PYTHONPATH", "")
        log = _open_log(self._files)
        with log, socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
            self._ready_fd, ready = os.pipe()
            try:
                self._process = subprocess.Popen(
                    _command(self._files, listening.fileno(), ready),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._files.folder,  # Prefect reads the .env and prefect.toml where it stands
                    env={**environment, "PYTHONPATH": f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)},
                    pass_fds=(listening.fileno(), ready),
                    start_new_session=True,
                )
            finally:
                os.close(ready)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return once requests are answered. Raises ServerFailed, and then nothing is left running."""
        line = _read_line(self._ready_fd, timeout_s)
        if line == "ready":
            return
        reason = f"not ready after {timeout_s:g} s" if line is None else line or "it ended without a message"
        self.stop()
        first, _, full = reason.partition(": ")
        if first == "full":
            message = f"{self._files.folder} is full: the embedded Prefect server did not start there ({full}). Free space there."
            raise StateFull(message)
        raise ServerFailed(
            f"The embedded Prefect server did not start: {reason}. Its log is {self._files.log}. "
            f"Delete {self._files.folder} (it holds past runs only) and try again, or set PREFECT_API_URL."
        )

    def client_environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """What to set before Prefect is imported in this process, so that its flows run on this server.

        It has no UI, and no page may link to one.
        """
        environment = client_environment(self.url, self._auth, self._files.home, environ)
        return {**environment, "PREFECT_SERVER_UI_ENABLED": "false"}

    def stop(self, grace_s: float = _STOP_GRACE_S) -> None:
        """End the server once this process has told it everything; SIGKILL after `grace_s`. Idempotent."""
        process, self._process = self._process, None
        if self._ready_fd >= 0:
            os.close(self._ready_fd)
            self._ready_fd = -1
        if process is None:
            return
        if process.poll() is None:
            drain_client(_DRAIN_S)
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def embedded_server(state_dir: Path, template_dir: Path | None = None) -> Iterator[EmbeddedServer]:
    """A ready server for the time of the block. Raises ServerError."""
    server = EmbeddedServer(state_dir, template_dir)
    try:
        server.start()
        server.wait_ready()
        yield server
    finally:
        server.stop()


def drain_client(timeout_s: float) -> bool:
    """Send what Prefect's threads in this process hold (task states, log lines); False where time ran out.

    Prefect does so when the interpreter ends. By then the embedded server has ended: task runs would be lost.
    """

    def drain() -> None:
        from prefect.events.worker import EventsWorker
        from prefect.logging.handlers import APILogWorker

        EventsWorker.drain_all()
        APILogWorker.drain_all()

    if "prefect.events.worker" not in sys.modules:
        return True
    try:
        limited(timeout_s, drain)  # in a thread of its own, because the caller may run an event loop
    except Exception as error:  # noqa: BLE001 - what Prefect cannot send, nobody else can
        return not isinstance(error, NotInTime)
    return True


def _files(state_dir: Path, template_dir: Path | None) -> _ServerFiles:
    try:
        release = version("prefect")
    except PackageNotFoundError as error:
        raise ServerFailed("Prefect is not installed here. Run `make setup`.") from error
    folder = state_dir.resolve() / "prefect"
    cache = template_dir or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prelaunch"
    return _ServerFiles(
        folder=folder,
        database=folder / f"prefect-{release}.sqlite",
        template=cache / f"prefect-{release}.template.sqlite",
        log=folder / "server.log",
        home=folder / "home",
    )


def _open_log(files: _ServerFiles) -> TextIO:
    try:
        files.home.mkdir(parents=True, exist_ok=True)
        files.folder.chmod(0o700)
        if files.log.exists() and files.log.stat().st_size > _LOG_LIMIT_BYTES:
            files.log.replace(files.log.with_suffix(".log.old"))
        return files.log.open("a", encoding="utf-8")
    except OSError as error:
        raise StateUnusable(
            f"The embedded Prefect server cannot write its folder {files.folder}: {error.strerror}. "
            "Choose a folder that can be written, or set PREFECT_API_URL to use a server of your own."
        ) from error


def _command(files: _ServerFiles, listen_fd: int, ready_fd: int) -> tuple[str, ...]:
    # -P: a file prefect.py or a folder tasks/ where the person happens to stand must not be imported.
    return (
        *(sys.executable, "-P", "-m", "tasks.orchestration.server.process"),
        *("--listen-fd", str(listen_fd), "--ready-fd", str(ready_fd), "--parent", str(os.getpid())),
        *("--database", str(files.database), "--template", str(files.template)),
    )


def _read_line(descriptor: int, timeout_s: float) -> str | None:
    """What the process said: "" if it ended without a message, None if it said nothing in time."""
    deadline = time.monotonic() + timeout_s
    line = b""
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            return None
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return ""
        line += chunk
    return line.decode("utf-8", "replace").strip()


def main() -> int:
    """`python -m tasks.orchestration.server.server`: keep a migrated template, so that the first gate need not migrate.

    A machine that is busy or full ends no installation for it.
    """
    try:
        with tempfile.TemporaryDirectory() as folder, embedded_server(Path(folder)):
            pass
    except (ServerError, OSError) as error:
        first = " ".join(str(error).split())
        print(
            f"prelaunch: no database was prepared, so the first gate starts some seconds later: {first}",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
