"""A node whose slurmd has not answered yet is waited for before it is tested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.launchers.slurm.commands import SlurmReply
from tasks.machines.base import ActRefused, Retest
from tasks.machines.slurm import SlurmMachines
from tests.tasks.machines.slurm_answers import MARK, SlurmAnswers, fenced


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

    def resumed(words: dict[str, str], argv: tuple[str, ...]) -> SlurmReply:
        said = resume(words, argv)
        silent.flags = ["IDLE", "NOT_RESPONDING"]
        return said

    slurm._update = resumed  # type: ignore[method-assign]
    place = SlurmMachines(None, slurm, Path("/nonexistent"), pause).open_retest("n1", (), MARK)

    assert ("n1",) == place.nodes
    assert min(answers_after, 30) == len(waited)


RESUME = ("scontrol", "update", "nodename=n1", "state=resume")


def opened(after: Callable[[SlurmAnswers, int], None]) -> tuple[Retest | ActRefused, int]:
    """What comes of a re-test of a node that Slurm does not resume yet, and how often it was waited for. `after` is told of each."""
    slurm, waited = fenced(), list[float]()
    slurm.refuse[RESUME] = SlurmReply(1, "", "slurm_update error: Invalid node state specified")

    def pause(seconds: float) -> None:
        waited.append(seconds)
        assert len(slurm.reservations) == 1
        after(slurm, len(waited))

    try:
        found: Retest | ActRefused = SlurmMachines(None, slurm, Path("/nonexistent"), pause).open_retest(
            "n1", (), MARK
        )
    except ActRefused as refused:
        found = refused
    return found, len(waited)


def test_a_node_that_slurm_does_not_resume_yet_is_resumed_later() -> None:
    """For a while after a reboot Slurm 22.05 refuses it; the node stays reserved meanwhile, and a refusal that lasts is one."""
    found, waited = opened(lambda slurm, count: slurm.refuse.clear() if count == 3 else None)
    refused, most = opened(lambda slurm, count: None)

    assert isinstance(found, Retest) and (found.nodes, waited, most) == (("n1",), 3, 30)
    assert "Invalid node state specified. Slurm shows" in str(refused) and "DRAIN" in str(refused)


def test_each_try_looks_at_the_node_again() -> None:
    """22.05 refuses a node that its own work after a reboot has just made idle; and what somebody takes meanwhile is left to him."""

    def idle(slurm: SlurmAnswers, count: int) -> None:
        slurm.nodes["n1"].flags, slurm.nodes["n1"].reason = ["IDLE"], ""

    def taken(slurm: SlurmAnswers, count: int) -> None:
        slurm.nodes["n1"].reason = "broken fan, jdoe"
        slurm.refuse.clear()

    assert isinstance(opened(idle)[0], Retest)
    assert "belongs to" in str(opened(taken)[0])
