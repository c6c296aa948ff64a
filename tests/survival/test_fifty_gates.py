"""Fifty gates at once on a server of one's own, each of another cluster; the worker is killed in between.

The nodes replay reports (tests/flows/fake_python.py); PostgreSQL, server, workers, flows, leases and store are real.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tasks.store.folder import FolderStore
from tasks.store.history import listed
from tests.flows.gates import processes_below, write_gate
from tests.waiting import until
from tests.world import FINAL, WORLD_MARK, World
from tests.world_processes import marked

GATES = int(os.environ.get("PRELAUNCH_TEST_GATES", "50"))
# What a cluster's nodes play, and how its run has to end.
PLAYED = {
    "healthy": "Launched",
    "wrong": "Refused",
    "warn": "Launched",
    "slow": "Launched",
    "lone": "CannotTell",
}
LEVELS = {"healthy": "PASS", "wrong": "FAIL", "warn": "WARN", "slow": "PASS", "lone": "FAIL"}
# What a database or server that was overwhelmed would have written.
TROUBLE = re.compile(
    r"database is locked|deadlock detected|too many clients|QueuePool limit|\" 5\d\d |Traceback", re.I
)
RAISED = re.compile(r"[\w.]*(Error|Exception|Timeout|Interrupt)\b")


@dataclass
class Peak:
    """The most memory that server, workers, flows and nodes had together."""

    bytes: int = 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_fifty_gates_at_once_lose_nothing(new_world: Callable[..., World], tmp_path: Path) -> None:
    """Each run ends in the state that its nodes deserve, each verdict is kept, and nothing is left."""
    world = new_world()
    deployment = world.deploy("flows/gate.py:gate", "fifty")
    seen = partial(_states, world, deployment)
    files = {f"cluster-{number}": _gate_file(tmp_path, number) for number in range(GATES)}
    parts = {name: tuple(PLAYED)[number % len(PLAYED)] for number, name in enumerate(files)}
    begun = time.monotonic()
    with _measured(world) as peak:
        with world.worker() as first:
            runs = {name: _order(world, deployment, files[name], parts[name]) for name in files}
            until(lambda: seen().count("RUNNING") >= GATES // 5, seen, 200, 0.2)
            taken = Counter(seen())
            first.kill()
            killed_s = time.monotonic() - begun
            stuck = _give_back(world, runs)
            with world.worker():
                until(lambda: {*seen()} <= {*FINAL}, seen, 600, 1)
        wall_s = time.monotonic() - begun

    ended = {name: world.run(run) for name, run in runs.items()}
    states = {name: run["state_name"] for name, run in ended.items()}
    wanted = {name: PLAYED[part] for name, part in parts.items()}
    assert wanted == states, f"{_messages(ended, parts)}\n{_trouble(world)}"
    rows = {row.cluster: row.level.value for row in listed(FolderStore(tmp_path / "store")).records}
    assert {name: LEVELS[part] for name, part in parts.items()} == rows
    assert GATES == len(list((tmp_path / "store").glob("gates/*/verdict.json")))
    assert [] == list((tmp_path / "store" / "leases").rglob("*.json"))
    assert [] == processes_below(tmp_path)
    trouble = _trouble(world)
    assert not trouble, trouble
    print(
        f"\n{GATES} gates: {wall_s:.0f} s, worker killed after {killed_s:.0f} s ({dict(taken)}, {stuck} without a process), "
        f"peak memory {peak.bytes / 2**30:.1f} GiB"
    )


def _gate_file(folder: Path, number: int) -> Path:
    name = f"cluster-{number}"
    path = write_gate(folder / name, checks_minutes=10, training_minutes=10)
    text = path.read_text().replace('name = "test"', f'name = "{name}"')
    text = text.replace(json.dumps(str(folder / name / "store")), json.dumps(str(folder / "store")))
    path.write_text(text)
    return path


def _order(world: World, deployment: str, file: Path, part: str) -> str:
    fake = {"FAKE_NODE": part, "FAKE_SECONDS": "15"}
    return world.start(deployment, {"request": {"gate_file": str(file)}}, env=fake)


def _states(world: World, deployment: str) -> list[str]:
    chosen = {"deployments": {"id": {"any_": [deployment]}}, "limit": 200}
    return [run["state_type"] for run in world.api.post("/flow_runs/filter", json=chosen).json()]


def _messages(ended: dict[str, dict[str, Any]], parts: dict[str, str]) -> str:
    wrong = [run for name, run in ended.items() if run["state_name"] != PLAYED[parts[name]]]
    return "\n".join(f"{run['name']}: {run['state_name']}: {run['state']['message']}" for run in wrong)


def _trouble(world: World) -> str:
    """The lines of both logs that tell of an error, and how each of their tracebacks ends; "" where there is none."""
    lines = [*world.log.read_text().splitlines(), *world.database.log.read_text().splitlines()]
    found = any(TROUBLE.search(line) for line in lines)
    return "\n".join(line for line in lines if TROUBLE.search(line) or RAISED.match(line)) if found else ""


def _give_back(world: World, runs: dict[str, str]) -> int:
    """What the dead worker took and never started is scheduled again, as an operator or an automation would do it.

    How many there were. Prefect itself leaves them Pending for ever (docs/server.md).
    """
    time.sleep(5)  # a process that it did start is there by now
    pending = [run for run in runs.values() if world.run(run)["state_type"] == "PENDING"]
    lost = [run for run in pending if not marked("PREFECT__FLOW_RUN_ID", run)]
    for run in lost:
        world.set_state(run, "SCHEDULED", "AwaitingRetry")
    return len(lost)


@contextmanager
def _measured(world: World) -> Iterator[Peak]:
    """Samples twice a second what the server, the workers and their runs hold; shared pages are shared out."""
    peak, done = Peak(), threading.Event()

    def sample() -> None:
        while not done.wait(0.5):
            peak.bytes = max(peak.bytes, sum(map(_private_bytes, marked(WORLD_MARK, world.mark))))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _private_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it ended meanwhile
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
