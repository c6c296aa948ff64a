"""Reboots by the back end `slurm` on a real cluster, nodes that die, and a slurmctld that is silent."""

from __future__ import annotations

import pytest

from tasks.machines.base import MachineError, Rung, Settled
from tasks.machines.slurm import SlurmMachines
from tests.engines.slurm_machine_states import (
    FENCED,
    MARK,
    TESTED,
    job,
    job_state,
    rebooted,
    scheduled,
    seen,
    state_of,
)
from tests.engines.slurm_reboots import RebootingCluster
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


@pytest.mark.long
def test_a_reboot_that_is_none_fails_and_the_node_is_kept(reboots: RebootingCluster) -> None:
    """The RebootProgram does nothing; 22.05 would let the node serve again."""
    reboots.hook("reboot")
    machines = SlurmMachines()
    machines.fence("n1", MARK)
    foreign, before = job(reboots), seen()
    machines.act(Rung.REBOOT, "n1", MARK)

    assert rebooted(before, 120.0) is Settled.FAILED
    scheduled(reboots)
    assert (state_of() in (FENCED, TESTED), job_state(reboots, foreign)) == (True, "PENDING")
    machines.close_retest("n1", MARK)
    scheduled(reboots)
    assert (state_of(), job_state(reboots, foreign)) == (FENCED, "PENDING")


@pytest.mark.long
def test_a_dead_node_that_is_ours_stays_ours(reboots: RebootingCluster) -> None:
    """Slurm keeps our reason when it sets the node down, and our re-test's reservation when it says "Not responding"."""
    machines = SlurmMachines()
    machines.fence("n1", MARK)
    machines.open_retest("n1", (), MARK)
    reboots.kill("n1")
    try:
        until(lambda: seen().status.startswith("DOWN"), seconds=90.0)
        assert state_of() == FENCED
        machines.close_retest("n1", MARK)
        assert (state_of(), seen().mark) == (FENCED, MARK)
        with pytest.raises(MachineError):
            machines.free("n2", MARK)
    finally:
        reboots.start_node("n1")
