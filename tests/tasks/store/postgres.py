"""A PostgreSQL of this machine's packages, on loopback, as the user postgres, while a test needs it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PASSWORD = "hunter22-of-the-test"
QUICK = (
    "-c",
    "fsync=off",
    "-c",
    "synchronous_commit=off",
    "-c",
    "full_page_writes=off",
    "-c",
    "max_connections=100",
)


@dataclass(frozen=True)
class Postgres:
    """Where it listens, and its first process."""

    url: str
    pid: int


def binary(name: str) -> str:
    """The newest installed one. Skips the test where there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = next(
        (str(path / name) for path in reversed(folders) if (path / name).exists()), shutil.which(name)
    )
    if found is None:
        pytest.skip("not installed: postgresql. Remedy: apt-get install postgresql")
    return found


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A fresh server with a password; ended, and its files removed."""
    initdb, server = binary("initdb"), binary("postgres")
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL runs as the user postgres. Remedy: run the tests as root")
    other = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
    with tempfile.TemporaryDirectory(prefix="prelaunch-pg-") as name:
        folder, secret = Path(name), Path(name) / "password"
        secret.write_text(PASSWORD)
        for path in (folder, secret):
            shutil.chown(path, "postgres")
        made = (
            initdb,
            "-D",
            f"{name}/data",
            "-A",
            "scram-sha-256",
            "-U",
            "postgres",
            "--no-sync",
            "-E",
            "UTF8",
        )
        subprocess.run((*other, *made, f"--pwfile={secret}"), check=True, capture_output=True, cwd=name)
        port = _free_port()
        argv = (
            *other,
            server,
            "-D",
            f"{name}/data",
            "-p",
            str(port),
            "-k",
            name,
            "-c",
            "listen_addresses=127.0.0.1",
        )
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen((*argv, *QUICK), cwd=name, stdout=log, stderr=log)
        try:
            _until_ready(process, port, folder / "log")
            yield Postgres(f"postgresql+psycopg://postgres:{PASSWORD}@127.0.0.1:{port}/postgres", process.pid)
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)  # fast shutdown: ends its own children
            process.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + 60
    while f"port {port}" not in (said := log.read_text()) or "ready to accept connections" not in said:
        assert process.poll() is None and time.monotonic() < end, said
        time.sleep(0.02)
