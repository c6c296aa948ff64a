"""A commissioning under a worker: cancelled as a whole, and killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.flows.commissioning import write_cluster
from tests.flows.gates import processes_below
from tests.world import World
from tests.world_processes import marked, until


def hanging(world: World, tmp_path: Path) -> str:
    """The run of a commissioning of two clusters whose nodes never answer, once both jobs run."""
    files = [str(write_cluster(tmp_path, name, "hang")) for name in ("north", "south")]
    deployment = world.deploy("flows/commission.py:commission", tmp_path.name, tags=["prelaunch"])
    run = world.start(deployment, {"request": {"gate_files": files, "profile": "quick"}})
    world.wait(run, "RUNNING")

    def jobs() -> bool:
        return all(list(tmp_path.glob(f"{name}/store/**/nodes/*/runs")) for name in ("north", "south"))

    until(jobs, 40, world.log, "both clusters' nodes run", 0.2)
    return run


def gates_of(world: World, run: str) -> list[str]:
    """The states of its gates."""
    chosen = {"flow_runs": {"parent_flow_run_id": {"any_": [run]}}}
    return [item["state_name"] for item in world.api.post("/flow_runs/filter", json=chosen).json()]


@pytest.mark.long
@pytest.mark.parametrize("how", ["cancelled", "killed"])
def test_no_job_of_a_cluster_outlives_a_commissioning(world_worker: World, tmp_path: Path, how: str) -> None:
    """Their jobs are ended, their leases given back, and their own runs closed as well."""
    run = hanging(world_worker, tmp_path)
    if how == "cancelled":
        world_worker.set_state(run, "CANCELLING")
    else:
        # The flow's own one, and those of the nodes that it started. SIGKILL comes from a kernel that lacks memory.
        processes = marked("PREFECT__FLOW_RUN_ID", run)
        (pid,) = [pid for pid in processes if b"prefect" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(pid, signal.SIGKILL)
    world_worker.wait(run, "CANCELLED" if how == "cancelled" else "CRASHED")
    until(lambda: not processes_below(tmp_path), 20, world_worker.log, "the nodes are gone", 0.2)

    def closed() -> bool:
        return set(gates_of(world_worker, run)) <= {"Cancelled", "Crashed"}

    until(closed, 20, world_worker.log, f"the gates are closed: {gates_of(world_worker, run)}", 0.2)

    assert 2 == len(gates_of(world_worker, run))
    assert [] == list(tmp_path.glob("*/store/leases/*.json"))
