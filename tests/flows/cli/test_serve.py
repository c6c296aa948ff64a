"""`prelaunch serve` as a process beside a real server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flows.cli.conftest import Run
from tests.flows.commissioning import write_cluster
from tests.flows.gates import processes_below
from tests.world import World
from tests.world_processes import until

SERVE = (sys.executable, "-m", "flows.cli.main", "serve")


@contextmanager
def serving(world: World, gates: Path, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The process, once it has told its deployments, and what it writes."""
    log = gates / "serve.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            (*SERVE, "--gates", str(gates)), cwd=Path(__file__).parents[3], env=world.environment(**more),
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        until(lambda: b"Ctrl-C stops it" in log.read_bytes(), 60, log, "it serves", 0.1)
        yield process, log
    finally:
        process.kill()
        process.wait()


def deployment_of(log: Path, name: str) -> str:
    """The id in the page that it told."""
    found = re.search(rf"^{name}/here  \S*/([0-9a-f-]{{36}})", log.read_text(), re.MULTILINE)
    assert found is not None, log.read_text()
    return found.group(1)


@pytest.mark.long
def test_the_deployments_are_told_with_their_pages(world: World, tmp_path: Path) -> None:
    """Gate, commissioning, reap and remedy; SIGTERM ends it, and says 143."""
    write_cluster(tmp_path, "laptop")
    with serving(world, tmp_path) as (process, log):
        pages = [line for line in log.read_text().splitlines() if "/here  http" in line]
        held = world.api.get(f"/deployments/{deployment_of(log, 'gate')}").json()
        process.terminate()

        assert 143 == process.wait(60)
    assert ["gate/here", "commission/here", "reap/here", "remedy/here"] == [line.split()[0] for line in pages]
    fields = held["parameter_openapi_schema"]["definitions"]["GateRequest"]["properties"]
    assert (["laptop"], "prelaunch.gate") == (fields["gate_file"]["enum"], held["entrypoint"])
    assert "prelaunch" in held["tags"]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.long),
    ],
)
def test_serve_cancels_running_gates_with_their_jobs(
    world: World, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """A terminal's Ctrl-C reaches the flow as well; either way no node and no lease is left, and the run is not Running."""
    write_cluster(tmp_path, "laptop", "hang")
    with serving(world, tmp_path) as (process, log):
        run = world.start(deployment_of(log, "gate"), {"request": {"gate_file": "laptop"}})
        until(lambda: list(tmp_path.glob("laptop/store/**/nodes/*/runs")), 40, log, "its nodes run", 0.2)
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)

        assert code == process.wait(60), log.read_text()
    assert 1 == log.read_text().count("prelaunch: stopped serving. What still ran was cancelled"), (
        log.read_text()
    )
    assert world.run(run)["state_type"] in (("CANCELLED",) if code == 143 else ("CANCELLED", "CRASHED"))
    assert [] == processes_below(tmp_path / "laptop")
    assert [] == list(tmp_path.glob("laptop/store/leases/*.json"))


@pytest.mark.parametrize(
    ("url", "gates", "said"),
    [
        ("", "deployments/gates", "no Prefect server is configured"),
        ("http://127.0.0.1:9/api", "deployments/nowhere", "there is no gate file in"),
    ],
)
def test_serve_rejects_unusable_settings_with_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch, url: str, gates: str, said: str
) -> None:
    """Before Prefect is asked: exit code 2. What this process starts later gets no folder of a command that was refused."""
    monkeypatch.setenv("PREFECT_API_URL", url)
    before = dict(os.environ)
    ended = run("serve", "--gates", gates)

    assert (2, "") == (ended.code, ended.out)
    assert said in ended.err and ("--gates" in ended.err or "PREFECT_API_URL=" in ended.err)
    assert before == dict(os.environ)
