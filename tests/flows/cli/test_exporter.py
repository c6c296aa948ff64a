"""`prelaunch serve exporter` as a process: it serves until it is told to end, on this machine only."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checks.watch import commands as watch
from flows.cli import exporter
from flows.cli.main import main
from tasks.store.folder import FolderStore
from tests.sample_reports import healthy
from tests.tasks.kept_gates import keep
from tests.tasks.monitoring.expositions import samples

ROOT = Path(__file__).parents[3]


@contextmanager
def served(*words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process and its port."""
    argv = (sys.executable, "-m", "flows.cli.main", "serve", "exporter", *words, "--listen", "127.0.0.1:0")
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", said)
            assert found, said
            yield process, int(found[1])
        finally:
            process.kill()


def values(port: int) -> dict[str, float]:
    """The samples without labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        return {one.name: one.value for one in samples(answer.read().decode()) if not one.labels}


def test_exporter_serves_until_a_signal_ends_it(tmp_path: Path) -> None:
    """A gate that ends meanwhile is in the next scrape."""
    store = FolderStore(tmp_path)
    with served(str(tmp_path)) as (process, port):
        assert {"prelaunch_store_readable": 0.0} == values(port)
        keep(store, 0, healthy())
        assert 1.0 == values(port)["prelaunch_store_readable"]
        process.send_signal(signal.SIGTERM)

        assert 143 == process.wait(60)


def test_exporters_listen_on_this_machine_unless_somebody_says_otherwise() -> None:
    """There is no password."""
    assert {"127.0.0.1"} == {one.LISTEN.partition(":")[0] for one in (exporter, watch)}


@pytest.mark.parametrize(
    "words", [("--listen", "9403"), ("--listen", "a:99999"), ("https://x/y",), ("no-such.toml",)]
)
def test_words_that_are_wrong_are_refused(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exit code 2."""
    monkeypatch.chdir(tmp_path)

    assert 2 == main(["serve", "exporter", *words])


def test_an_address_that_is_taken_is_five(tmp_path: Path) -> None:
    """As a service that has no room."""
    keep(FolderStore(tmp_path), 0, healthy())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert 5 == main(["serve", "exporter", str(tmp_path), "--listen", address])
