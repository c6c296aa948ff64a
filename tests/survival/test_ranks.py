"""Ranks that lie, die or freeze in the middle of a collective."""

from __future__ import annotations

from pathlib import Path

from checks.model import Cause
from prelaunch_sabotage import FAULTY_RANK
from tests.survival.world import World, run

FAULTY = f"node-1/rank-{FAULTY_RANK}"
QUICK = {"collective.all_reduce": 8.0, "collective.all_gather": 8.0, "training.ddp": 8.0}


def test_wrong_sums_on_one_rank_are_a_fail_that_names_it(tmp_path: Path) -> None:
    """Corruption is hardware, however fast it is."""
    ended = run(World(2, 1, ("wrong_sums",), QUICK), tmp_path)
    blamed = {f.subject for f in ended.fails(Cause.HARDWARE) if f.check == "collective.all_reduce"}

    assert (1, {FAULTY}) == (ended.exit_code, blamed)


def test_a_rank_killed_in_a_collective_is_named_first(tmp_path: Path) -> None:
    """Its peers report what they saw; the one that says nothing is the suspect."""
    ended = run(World(2, 1, ("killed",), QUICK), tmp_path)
    first = ended.verdict.findings[0]

    assert (3, FAULTY, []) == (ended.exit_code, first.subject, ended.fails(Cause.HARDWARE))
    assert ended.seconds < 60


def test_a_frozen_rank_is_named_first_and_ended(tmp_path: Path) -> None:
    """SIGSTOP makes no sound: the deadline does."""
    ended = run(World(2, 1, ("frozen",), QUICK), tmp_path)
    first = ended.verdict.findings[0]

    assert (3, FAULTY, []) == (ended.exit_code, first.subject, ended.fails(Cause.HARDWARE))
    assert ended.seconds < 60
