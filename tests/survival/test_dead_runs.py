"""Runs that die on a real server, with the automations of deployments/prefect.yaml as they are: nothing is left of them.

PostgreSQL, Prefect's server and its workers are real, the nodes are made up. Times are those of the product: docs/server.md
has the last results.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flows import reapers
from tests.flows.answering import form
from tests.flows.driving import request_of
from tests.flows.gates import processes_below, write_gate
from tests.world import ROOT, World
from tests.world_processes import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
TAG = "prelaunch"
# Three heartbeats, the server's look every few seconds, a worker's poll, the start of a process, and a slow machine.
REAPED_S = 150.0
# Longer than the three heartbeats of the automation, and its look.
WAITS_S = 105.0


@pytest.fixture
def own(new_world: Callable[..., World]) -> Iterator[World]:
    """A server of the test's own, and a worker for the reaper alone."""
    world = new_world()
    with world.worker(pool=world.pool(f"{TAG}-reap")):
        yield world


@pytest.mark.parametrize("signal", ["SIGKILL to flow and worker", "SIGTERM to the worker"])
def test_a_gate_that_loses_its_worker_leaves_nothing(
    own: World, tmp_path: Path, signal: str, record_property: Callable[[str, object], None]
) -> None:
    """The run is Crashed in two minutes, its jobs are gone, the cluster is free, its owner was paged once."""
    gate = reapers.deploy(own, TAG, within_s=900)
    with own.worker(pool=TAG) as worker:
        run = _hanging(own, gate, tmp_path)
        begun = time.monotonic()
        if signal.startswith("SIGKILL"):
            assert reapers.kill_all_but_nodes(worker, tmp_path)
        else:
            worker.terminate()

        ended = own.wait(run, "CRASHED", timeout_s=REAPED_S)
        crashed = time.monotonic() - begun
        until(lambda: (tmp_path / "store" / "pages").is_dir(), 60, own.log, "somebody is paged")
        events = own.wait_events("prelaunch.gate.crashed", run)
        record_property("seconds until Crashed", round(crashed))
        print(f"{signal}: Crashed after {crashed:.0f} s")

    assert "SIGKILL" not in signal or "has sent no heartbeat" in ended["state"]["message"]
    assert [] == processes_below(tmp_path)
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))
    assert (1, 1) == (len(list((tmp_path / "store" / "pages").iterdir())), len(events))
    assert [] == reapers.failed_actions(own, TAG)


def test_a_healthy_gate_is_left_alone_though_its_heartbeats_are_slow(own: World, tmp_path: Path) -> None:
    """A process at Prefect's default is silent for 180 s: the automation fires, and the lease says that it lives."""
    gate = reapers.deploy(own, TAG, within_s=900)
    with own.worker(pool=TAG):
        run = _hanging(own, gate, tmp_path, PREFECT_FLOWS_HEARTBEAT_FREQUENCY="180")
        until(lambda: _reaper_runs(own), REAPED_S, own.log, "a reaper was started", 1.0)
        (reaper,) = _reaper_runs(own)
        ended = own.wait(reaper)
        assert ("LeftAlone", "Running") == (ended["state_name"], own.run(run)["state_name"])
        assert processes_below(tmp_path)

        own.set_state(run, "CANCELLING")
        own.wait(run, "CANCELLED")
        until(lambda: not processes_below(tmp_path), 30, own.log, "its jobs have ended")
    assert not (tmp_path / "store" / "pages").exists()
    assert [] == reapers.failed_actions(own, TAG)


def test_a_suspended_gate_is_let_wait(own: World, tmp_path: Path) -> None:
    """It has no process, and that is no reason to look."""
    gate = reapers.deploy(own, TAG, within_s=900)
    request = request_of(write_gate(tmp_path, on_warn="ask"), ask_minutes=30).model_dump(mode="json")
    with own.worker(pool=TAG):
        run = own.start(gate, {"request": request}, env={"FAKE_NODE": "warn"})
        own.wait(run, "Suspended")
        time.sleep(WAITS_S)
        assert ("Suspended", []) == (own.run(run)["state_name"], _reaper_runs(own))

        own.resume(run, form("block"))
        own.wait(run, "Refused")


def test_a_gate_that_waits_in_its_own_process_is_let_wait(own: World, tmp_path: Path) -> None:
    """Its heart beats on while it is Paused."""
    reapers.deploy(own, TAG, within_s=900)
    path = write_gate(tmp_path, on_warn="ask")
    words = (sys.executable, "-m", "flows.cli.main", "gate", str(path))
    with subprocess.Popen(words, env=own.environment(FAKE_NODE="warn"), cwd=ROOT) as gate:
        try:
            (event,) = own.wait_events("prelaunch.gate.asked")
            run = event["payload"]["flow_run_id"]
            own.wait(run, "Paused")
            before = len(own.events("prefect.flow-run.heartbeat", run))
            time.sleep(WAITS_S)
            assert 2 <= len(own.events("prefect.flow-run.heartbeat", run)) - before
            assert ("Paused", []) == (own.run(run)["state_name"], _reaper_runs(own))

            own.resume(run, form("block"))
            own.wait(run, "Refused")
            assert 1 == gate.wait(60)
        finally:
            gate.terminate()


def test_a_run_that_no_worker_takes_is_told_once(own: World, tmp_path: Path) -> None:
    """The reaper has a worker of its own, and says so."""
    gate = reapers.deploy(own, TAG, within_s=900)
    request = request_of(write_gate(tmp_path)).model_dump(mode="json")
    begun = time.monotonic()
    run = own.start(gate, {"request": request})

    pages = tmp_path / "store" / "pages"
    until(lambda: pages.is_dir() and list(pages.iterdir()), REAPED_S, own.log, "somebody is paged")
    print(f"no worker: told after {time.monotonic() - begun:.0f} s")

    (page,) = pages.iterdir()
    assert "no worker has started run" in page.read_text()
    assert "Late" == own.run(run)["state_name"]
    assert [] == reapers.failed_actions(own, TAG)


def _hanging(world: World, gate: str, folder: Path, **environment: str) -> str:
    """A gate whose nodes run and never report, once its first heartbeat is known."""
    request = request_of(write_gate(folder, checks_minutes=30.0)).model_dump(mode="json")
    run = world.start(gate, {"request": request}, env={"FAKE_NODE": "hang", **environment})
    world.wait_events("prefect.flow-run.heartbeat", run)
    until(lambda: len(processes_below(folder)) >= 4, 30, world.log, "the nodes run")
    return run


def _reaper_runs(world: World) -> list[str]:
    body = {"flows": {"name": {"any_": ["reap"]}}}
    return [run["id"] for run in world.api.post("/flow_runs/filter", json=body).json()]
