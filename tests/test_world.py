"""What a server with its services, a database and a worker keep through restarts. Whoever uses this world shows that it starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.world import World
from tests.world_processes import WORKER_MARK, marked, until

FLOW = """
import asyncio
from prefect import flow, get_run_logger

@flow
async def probe(seconds: float = 0):
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        get_run_logger().info("still here")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds a small flow."""
    (tmp_path / "probe.py").write_text(FLOW)
    return tmp_path


@pytest.mark.long
def test_a_flow_outlives_its_worker(world: World, folder: Path) -> None:
    """The pool's file has its output not go through the worker: its end is not the flow's."""
    pool = world.pool("outlives")
    run = world.start(world.deploy("probe.py:probe", "outlives", folder=folder, pool=pool), {"seconds": 2})
    with world.worker(pool) as worker:
        world.wait(run, "RUNNING")
        worker.kill()
        assert worker.started()
        world.wait(run, "Completed")

    assert not marked(WORKER_MARK, worker.name)


def test_a_schedule_makes_runs(world: World, folder: Path) -> None:
    """With SQLAlchemy 2.1 the scheduler of Prefect 3.8 dies at each round, and says so in the server's log alone."""
    deployment = world.deploy("probe.py:probe", "scheduled", folder=folder, cron="0 2 * * *")
    chosen = {"deployments": {"id": {"any_": [deployment]}}}

    runs = lambda: world.api.post("/flow_runs/filter", json=chosen).json()  # noqa: E731 - a name for the line below
    until(runs, 240, world.log, "a run of the schedule")


@pytest.mark.long
def test_a_slot_is_free_again_though_the_server_restarted(
    new_world: Callable[..., World], folder: Path
) -> None:
    """One run at a time: the second begins after the first, whose slot the new server knows."""
    world = new_world(auth="prelaunch:secret")
    deployment = world.deploy("probe.py:probe", "slots", folder=folder, concurrency_limit=1)
    with world.worker():
        first = world.start(deployment, {"seconds": 12})
        world.wait(first, "RUNNING")
        second = world.start(deployment)
        world.server.restart()
        world.wait(first, "Completed")
        world.wait(second, "Completed")


@pytest.mark.long
def test_a_run_outlives_its_server(new_world: Callable[..., World], folder: Path) -> None:
    """It repeats what a dead server did not answer, and ends as it would have."""
    world = new_world()
    with world.worker():
        run = world.start(world.deploy("probe.py:probe", "outlives", folder=folder), {"seconds": 4})
        world.wait(run, "RUNNING")
        world.server.kill()
        time.sleep(8)  # the run wants to end meanwhile
        world.server.start()
        world.wait(run, "Completed")
