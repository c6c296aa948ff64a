"""A flow and its worker are SIGKILLed: a real server's automation notices, and the reaper ends what they left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows import reapers
from tests.flows.driving import request_of
from tests.flows.gates import processes_below, write_gate
from tests.world import World
from tests.world_processes import until

TAG = "reap-killed"


@pytest.mark.long
def test_a_gate_that_dies_with_its_worker_is_reaped(world: World, tmp_path: Path) -> None:
    """The run is Crashed, its nodes are gone, the cluster is free, and its owner was paged once."""
    gate = reapers.deploy(world, TAG, within_s=10)
    request = request_of(write_gate(tmp_path)).model_dump(mode="json")
    with world.worker(pool=TAG) as worker, world.worker(pool=f"{TAG}-reap"):
        run = world.start(gate, {"request": request}, env={"FAKE_NODE": "hang"})
        world.wait_events("prefect.flow-run.heartbeat", run)
        until(lambda: len(processes_below(tmp_path)) >= 4, 20, worker.log, "the nodes run")
        nodes = reapers.kill_all_but_nodes(worker, tmp_path)
        assert nodes == processes_below(tmp_path)

        ended = world.wait(run, "CRASHED")
        until(lambda: (tmp_path / "store" / "pages").is_dir(), 20, world.log, "somebody is paged")
        crashed = world.wait_events("prelaunch.gate.crashed", run)

    assert "has sent no heartbeat" in ended["state"]["message"]
    assert [] == processes_below(tmp_path)
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))
    assert (1, 1) == (len(list((tmp_path / "store" / "pages").iterdir())), len(crashed))
    assert [] == reapers.failed_actions(world, TAG)
