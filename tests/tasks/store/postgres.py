"""A PostgreSQL of this machine's packages, on loopback, as the user postgres, while a test needs it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from checks.process.free_ports import free_port

PASSWORD = "hunter22-of-the-test"
QUICK = ("--fsync=off", "--synchronous_commit=off", "--full_page_writes=off", "--max_connections=100")


@dataclass(frozen=True)
class Postgres:
    """Where it listens, its first process, and its log."""

    url: str
    pid: int
    log: Path

    def database(self, name: str, driver: str = "psycopg") -> str:
        """The URL of another database on it, or for another driver."""
        return self.url.replace("+psycopg:", f"+{driver}:").rpartition("/")[0] + f"/{name}"


def binary(name: str) -> str:
    """The newest installed one. Skips the test where there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    newest = (str(path / name) for path in reversed(folders) if (path / name).exists())
    found = next(newest, shutil.which(name))
    if found is None:
        pytest.skip("not installed: postgresql. Remedy: apt-get install postgresql")
    return found


@contextlib.contextmanager
def postgres(template: Path | None = None, keep: Path | None = None) -> Iterator[Postgres]:
    """A fresh server with a password, or one on a copy of `template`; ended, and its files removed.

    `keep`: where the data folder is copied to once the server has ended.
    """
    initdb, server = binary("initdb"), binary("postgres")
    other = _other_user()
    with tempfile.TemporaryDirectory(prefix="prelaunch-pg-") as name:
        folder, data = Path(name), Path(name) / "data"
        _owned(folder)
        if template is not None:
            _copy(template, data)
        else:
            secret = folder / "password"
            secret.write_text(PASSWORD)
            _owned(secret)
            login = ("--auth=scram-sha-256", "--username=postgres", f"--pwfile={secret}")
            made = (initdb, "-D", str(data), "--no-sync", "--encoding=UTF8", "--wal-segsize=1")
            subprocess.run((*other, *made, *login), check=True, capture_output=True, cwd=name)
        port = free_port()
        listen = ("-p", str(port), "-k", name, "-c", "listen_addresses=127.0.0.1")
        with open(folder / "log", "wb") as log:
            argv = (*other, server, "-D", str(data), *listen, *QUICK)
            process = subprocess.Popen(argv, cwd=name, stdout=log, stderr=log)
        try:
            _until_ready(process, port, folder / "log")
            url = f"postgresql+psycopg://postgres:{PASSWORD}@127.0.0.1:{port}/postgres"
            yield Postgres(url, process.pid, folder / "log")
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)  # fast shutdown: ends its own children
            process.wait(60)
        if keep is not None:
            _copy(data, keep)


def _other_user() -> tuple[str, ...]:
    """PostgreSQL refuses to run as root: the words before its command."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("not installed: util-linux. Remedy: apt-get install util-linux")
    return ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")


def _owned(path: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(path, "postgres")


def _copy(source: Path, target: Path) -> None:
    """A data folder, with its modes, and its owner where we may."""
    subprocess.run(("cp", "--archive", "--reflink=auto", str(source), str(target)), check=True)


def _until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + 60
    while f"port {port}" not in (said := log.read_text()) or "ready to accept connections" not in said:
        assert process.poll() is None and time.monotonic() < end, said
        time.sleep(0.02)
