"""A node whose slurmd has not answered yet is waited for before it is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.launchers.slurm.commands import Said
from tasks.machines.base import ActRefused
from tasks.machines.slurm import SlurmMachines
from tests.tasks.machines.slurm_answers import MARK, fenced


@pytest.mark.parametrize("answers_after", [3, 1000])
def test_a_node_whose_slurmd_has_not_answered_yet_is_waited_for(answers_after: int) -> None:
    """sbatch refuses every job for a node right after its reboot; a node that stays silent is left to the re-test to report."""
    slurm, waited = fenced(), list[float]()
    silent = slurm.nodes["n1"]

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == answers_after:
            silent.flags = ["IDLE"]

    resume = slurm._update

    def resumed(words: dict[str, str], argv: tuple[str, ...]) -> Said:
        said = resume(words, argv)
        silent.flags = ["IDLE", "NOT_RESPONDING"]
        return said

    slurm._update = resumed  # type: ignore[method-assign]
    place = SlurmMachines(None, slurm, Path("/nonexistent"), pause).open_retest("n1", (), MARK)

    assert ("n1",) == place.nodes
    assert min(answers_after, 30) == len(waited)


@pytest.mark.parametrize("ready_after", [3, 1000])
def test_a_node_that_slurm_does_not_resume_yet_is_resumed_later(ready_after: int) -> None:
    """For a while after a reboot Slurm 22.05 refuses it; the node stays reserved meanwhile, and a refusal that lasts is one."""
    slurm, waited = fenced(), list[float]()
    resume = ("scontrol", "update", "nodename=n1", "state=resume")
    slurm.refuse[resume] = Said(1, "", "slurm_update error: Invalid node state specified")

    def pause(seconds: float) -> None:
        waited.append(seconds)
        assert len(slurm.reservations) == 1
        if len(waited) == ready_after:
            slurm.refuse.clear()

    machines = SlurmMachines(None, slurm, Path("/nonexistent"), pause)
    if ready_after == 1000:
        with pytest.raises(ActRefused, match=r"Invalid node state specified. Slurm shows .*DRAIN"):
            machines.open_retest("n1", (), MARK)
        assert len(waited) == 30
        return

    assert ("n1",) == machines.open_retest("n1", (), MARK).nodes
    assert [1.0] * 3 == waited


def test_a_node_that_is_resumed_although_slurm_refused_is_not_resumed_again() -> None:
    """22.05 refuses it for a node that its own work after a reboot has just made idle: nothing but the reservation holds it then."""
    slurm = fenced()
    resume = ("scontrol", "update", "nodename=n1", "state=resume")
    slurm.refuse[resume] = Said(1, "", "slurm_update error: Invalid node state specified")

    def pause(seconds: float) -> None:
        slurm.nodes["n1"].flags, slurm.nodes["n1"].reason = ["IDLE"], ""

    assert ("n1",) == SlurmMachines(None, slurm, Path("/nonexistent"), pause).open_retest(
        "n1", (), MARK
    ).nodes


def test_a_node_that_somebody_takes_meanwhile_is_left_to_him() -> None:
    """Each try looks at the node again."""
    slurm = fenced()
    resume = ("scontrol", "update", "nodename=n1", "state=resume")
    slurm.refuse[resume] = Said(1, "", "slurm_update error: Invalid node state specified")

    def pause(seconds: float) -> None:
        slurm.nodes["n1"].reason = "broken fan, jdoe"
        slurm.refuse.clear()

    with pytest.raises(ActRefused, match="belongs to"):
        SlurmMachines(None, slurm, Path("/nonexistent"), pause).open_retest("n1", (), MARK)
