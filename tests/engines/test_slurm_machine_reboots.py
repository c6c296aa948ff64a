"""Reboots by the back end `slurm` on a real cluster, nodes that die, and a slurmctld that is silent."""

from __future__ import annotations

import signal

import pytest

from tasks.machines.base import (
    ActAmbiguous,
    ActRefused,
    EngineSilent,
    Holder,
    MachineError,
    Rung,
    Service,
    Settled,
)
from tasks.machines.slurm import SlurmMachines
from tests.engines.slurm_machine_states import (
    FENCED,
    MARK,
    SERVES,
    TESTED,
    Steps,
    job,
    job_state,
    rebooted,
    scheduled,
    seen,
    state_of,
    stopped,
    until,
)
from tests.engines.slurm_reboots import BOOT_ID, RebootingCluster

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


@pytest.mark.long
def test_a_rebooted_node_is_kept_until_it_is_freed(reboots: RebootingCluster) -> None:
    """Its boot time moved, and our job there sees another boot id; with ReturnToService=2 Slurm itself would let it serve."""
    machines, boot_id = SlurmMachines(), reboots.boot_id("n1")
    machines.fence("n1", MARK)
    foreign = job(reboots)
    before = seen()
    machines.act(Rung.REBOOT, "n1", MARK)
    with pytest.raises(ActRefused, match="under way"):
        machines.act(Rung.REBOOT, "n1", MARK)
    requested = seen()

    assert (requested.service, requested.holder, requested.mark) == (Service.CHANGING, Holder.PRELAUNCH, MARK)
    assert rebooted(before) is Settled.DONE
    until(lambda: state_of() == TESTED)  # the engine has given the node back by itself
    reservation = machines.open_retest("n1", ("n2",), MARK).options["reservation"]
    said = reboots.run("srun", f"--reservation={reservation}", "-w", "n1", "cat", BOOT_ID).strip()
    assert said == reboots.boot_id("n1") != boot_id
    scheduled(reboots)
    assert job_state(reboots, foreign) == "PENDING"
    machines.free("n1", MARK)
    until(lambda: job_state(reboots, foreign) == "RUNNING")


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
def test_a_silent_slurmctld_is_not_asked_to_change_anything(reboots: RebootingCluster) -> None:
    """Afterwards everything is as before."""
    with stopped(reboots):
        for ask in (lambda: SlurmMachines().look(), lambda: SlurmMachines().fence("n1", MARK)):
            with pytest.raises(EngineSilent):
                ask()

    until(lambda: state_of() == SERVES)


@pytest.mark.long
def test_a_request_without_an_answer_is_ambiguous(reboots: RebootingCluster) -> None:
    """It is not repeated. Slurm takes this one once it runs again."""
    steps = Steps(1, lambda: reboots.kill("slurmctld", signal.SIGSTOP))
    try:
        with pytest.raises(ActAmbiguous):
            SlurmMachines(run=steps).fence("n1", MARK)
    finally:
        reboots.kill("slurmctld", signal.SIGCONT)

    assert steps.count == 1
    until(lambda: state_of() == FENCED)
    assert MARK == seen().mark


@pytest.mark.long
def test_a_dead_node_that_is_ours_stays_ours(reboots: RebootingCluster) -> None:
    """Slurm keeps our reason when it sets the node down, and our re-test's reservation when it says "Not responding"."""
    machines = SlurmMachines()
    machines.fence("n1", MARK)
    machines.open_retest("n1", (), MARK)
    reboots.kill("n1")
    try:
        until(lambda: seen().words.startswith("DOWN"), 90.0)
        assert state_of() == FENCED
        machines.close_retest("n1", MARK)
        assert (state_of(), seen().mark) == (FENCED, MARK)
        with pytest.raises(MachineError):
            machines.free("n2", MARK)
    finally:
        reboots.start_node("n1")
