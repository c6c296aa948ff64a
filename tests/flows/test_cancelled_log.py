"""What the log of a run says at its end on a real server, where a worker's process runs it: of a cancelled gate, and of its reaper."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.flows import reapers
from tests.flows.driving import request_of
from tests.flows.gates import processes_below, write_gate
from tests.world import World
from tests.world_processes import until

TAG = "cancelled-log"


def reaper_of(world: World, run: str) -> list[str]:
    """The ids of the reaper's runs about it."""
    chosen = {"flow_runs": {"name": {"any_": [f"reap {run}, cancelled"]}}}
    return [one["id"] for one in world.api.post("/flow_runs/filter", json=chosen).json()]


def bad_lines(world: World, run: str) -> list[str]:
    """Its lines that Prefect shows as a warning or an error."""
    chosen = {"logs": {"flow_run_id": {"any_": [run]}, "level": {"ge_": logging.WARNING}}}
    return [line["message"] for line in world.api.post("/logs/filter", json=chosen).json()]


@pytest.mark.long
def test_a_run_that_a_worker_cancels_has_no_error_and_its_reaper_ends_with_a_sentence(
    world: World, tmp_path: Path
) -> None:
    """The reaper's last line is the state that it ended in, which says what it did."""
    gate = reapers.deploy(world, TAG, within_s=10)
    request = request_of(write_gate(tmp_path)).model_dump(mode="json")
    with world.worker(pool=TAG) as worker, world.worker(pool=f"{TAG}-reap"):
        run = world.start(gate, {"request": request}, env={"FAKE_NODE": "hang"})
        until(lambda: len(processes_below(tmp_path)) >= 4, 40, worker.log, "the nodes run")
        world.set_state(run, "CANCELLING")
        world.wait(run, "CANCELLED")
        world.wait_log(run, "Flow run was cancelled.")
        until(lambda: reaper_of(world, run), 60, world.log, "a reaper has looked at it")
        reaper = reaper_of(world, run)[0]
        world.wait(reaper, "COMPLETED")
        said = f"Finished in state LeftAlone('{world.run(run)['name']}: ended Cancelled')"
        world.wait_log(reaper, said)

    assert [] == [line for one in (run, reaper) for line in bad_lines(world, one)]
    assert said == world.logs(reaper)[-1] and "Finished in state Completed()" not in world.logs(reaper)
