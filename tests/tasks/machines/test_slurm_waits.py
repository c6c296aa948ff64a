"""A node whose slurmd has not answered yet is waited for before it is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.launchers.slurm.commands import Said
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
