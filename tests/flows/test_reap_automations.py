"""On a real server the reaper is started for no gate that ended; a log says at its end what ended."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flows import reapers
from tests.flows.commissioning import write_cluster
from tests.flows.driving import request_of
from tests.flows.gates import processes_below, write_gate
from tests.world import World
from tests.world_processes import until

TAG, GATES = "reap-under-load", 8
CANCELLED = "cancelled-log"
# As in deployments/prefect.yaml: a run that has sent no heartbeat for so long is looked at. Then the server needs some seconds.
SILENT_S, LATER_S = 90.0, 30.0
BUSY_S = 1200


@contextmanager
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """Two programs that want a CPU each, all the time."""
    argv = ("stress-ng", "--cpu", "2", "--timeout", f"{BUSY_S}s", "--quiet")
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()  # it ends those that it started
        process.wait(60)


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="stress-ng (Debian) makes the machine busy")
def test_no_reaper_is_started_for_a_gate_that_ended(world: World, tmp_path: Path) -> None:
    """Not of a GO, nor of a refusal, however late the last heartbeats and the events of the end arrive."""
    gate = reapers.deploy(world, TAG, within_s=SILENT_S)
    parts = ("healthy", "healthy", "healthy", "wrong")
    files = [write_cluster(tmp_path, f"load-{number}", parts[number % 4]) for number in range(GATES)]
    with busy() as load, world.worker(pool=TAG):
        runs = [world.start(gate, {"request": request_of(path).model_dump(mode="json")}) for path in files]
        ended = [world.wait(run, timeout_s=BUSY_S) for run in runs]
        time.sleep(SILENT_S + LATER_S)  # by then a run that is taken for silent has a reaper
        still_busy = load.poll() is None
    beats = [world.events("prefect.flow-run.heartbeat", run) for run in runs]
    named = {"deployments": {"name": {"any_": [f"{TAG}-reap"]}}}
    reapers_of_test = world.api.post("/deployments/filter", json=named).json()
    asked = world.api.post("/flow_runs/filter", json=named).json()

    assert still_busy and all(beats), "the gates ran beside the load, and each sent heartbeats"
    assert {"COMPLETED", "FAILED"} >= {run["state_type"] for run in ended}, [run["state"] for run in ended]
    assert 1 == len(reapers_of_test), "its runs are found by this name"
    assert [] == [f"{run['name']} {run['parameters']}" for run in asked]
    assert [] == reapers.failed_actions(world, TAG)
    assert [] == processes_below(tmp_path)


def reaper_of(world: World, run: str) -> list[str]:
    """The ids of the reaper's runs about it."""
    chosen = {"flow_runs": {"name": {"any_": [f"reap {run}, cancelled"]}}}
    return [one["id"] for one in world.api.post("/flow_runs/filter", json=chosen).json()]


def bad_lines(world: World, run: str) -> list[str]:
    """Its lines that Prefect shows as a warning or an error."""
    chosen = {"logs": {"flow_run_id": {"any_": [run]}, "level": {"ge_": logging.WARNING}}}
    return [line["message"] for line in world.api.post("/logs/filter", json=chosen).json()]


@pytest.mark.long
@pytest.mark.parametrize("stopped", [False, True])
def test_a_run_that_a_worker_cancels_has_no_error_and_its_reaper_ends_with_a_sentence(
    world: World, tmp_path: Path, stopped: bool
) -> None:
    """The reaper's last line is the state that it ended in, which says what it did. If the worker is stopped the run ends itself."""
    gate = reapers.deploy(world, CANCELLED, within_s=10)
    request = request_of(write_gate(tmp_path)).model_dump(mode="json")
    with world.worker(pool=CANCELLED) as worker, world.worker(pool=f"{CANCELLED}-reap"):
        run = world.start(gate, {"request": request}, env={"FAKE_NODE": "hang"})
        until(lambda: len(processes_below(tmp_path)) >= 4, 40, worker.log, "the nodes run")
        if stopped:
            os.kill(worker.pid, signal.SIGSTOP)
        world.set_state(run, "CANCELLING")
        world.wait(run, "CANCELLED")
        os.kill(worker.pid, signal.SIGCONT)
        if not stopped:
            world.wait_log(run, "Flow run was cancelled.")
        until(lambda: reaper_of(world, run), 60, world.log, "a reaper has looked at it")
        reaper = reaper_of(world, run)[0]
        world.wait(reaper, "COMPLETED")
        said = f"Finished in state LeftAlone('{world.run(run)['name']}: ended Cancelled', type=COMPLETED)"
        world.wait_log(reaper, said)
        assert "CANCELLED" == world.run(run)["state_type"]

    # A run that ends itself logs the traceback of the task that found out.
    quiet = (reaper,) if stopped else (run, reaper)
    assert [] == [line for one in quiet for line in bad_lines(world, one)]
    assert [] == processes_below(tmp_path)
    assert said == world.logs(reaper)[-1] and "Finished in state Completed()" not in world.logs(reaper)
