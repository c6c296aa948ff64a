"""The world that other tests stand on: it starts, runs flows in a worker, tells what went wrong, and leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.world import World
from tests.world_processes import WORKER_MARK, marked, until

FLOW = """
import asyncio, os
from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.events import emit_event
from prefect.states import Failed

@flow
async def probe(seconds: float = 0, fail: bool = False):
    get_run_logger().info("probing %s", os.environ.get("FAKE_NODE"))
    await create_markdown_artifact("# here", key="probe")
    emit_event("prelaunch.test.probed", resource={"prefect.resource.id": "prelaunch.test"})
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        get_run_logger().info("still here")
    if fail:
        return Failed(name="Refused", message="as it was asked to", data=ValueError("no"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds a small flow."""
    (tmp_path / "probe.py").write_text(FLOW)
    return tmp_path


@pytest.fixture(scope="module")
def refused(world_worker: World, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that was asked to fail, and did so."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "probe.py").write_text(FLOW)
    deployment = world_worker.deploy("probe.py:probe", "told", folder=folder)
    run = world_worker.start(deployment, {"fail": True}, env={"FAKE_NODE": "wrong"})
    world_worker.wait(run, "Refused")
    return run


def test_what_a_run_did_can_be_asked_for(world: World, refused: str) -> None:
    """Its lines, its artifact, its event, and how it failed."""
    ended = world.run(refused)

    assert ("FAILED", "as it was asked to") == (ended["state_type"], ended["state"]["message"])
    assert ["probe"] == [item["key"] for item in world.artifacts(refused)]
    assert ["prelaunch.test.probed"] == [
        item["event"] for item in world.wait_events("prelaunch.test.", refused)
    ]
    world.wait_log(refused, "probing wrong")


def test_an_end_that_was_not_awaited_is_told_with_its_reason(world: World, refused: str) -> None:
    """At once, not when the time is up."""
    with pytest.raises(AssertionError, match=r"ended not .*Launched.*Refused: as it was asked to"):
        world.wait(refused, "Launched")


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


def test_prefect_in_this_process_speaks_to_the_world(at_world: World) -> None:
    """And does so no longer afterwards."""
    from prefect import get_client

    with get_client(sync_client=True) as client:
        here, pool = str(client.api_url), client.read_work_pool("prelaunch")

    assert (at_world.url, "process") == (here.rstrip("/"), pool.type)
    assert False is pool.base_job_template["variables"]["properties"]["stream_output"]["default"]


def test_a_schedule_makes_runs(world: World, folder: Path) -> None:
    """With SQLAlchemy 2.1 the scheduler of Prefect 3.8 dies at each round, and says so in the server's log alone."""
    deployment = world.deploy("probe.py:probe", "scheduled", folder=folder, cron="0 2 * * *")
    chosen = {"deployments": {"id": {"any_": [deployment]}}}

    until(
        lambda: world.api.post("/flow_runs/filter", json=chosen).json(),
        20,
        world.log,
        "a run of the schedule",
    )


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
