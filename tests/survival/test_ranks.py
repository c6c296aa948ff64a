"""Ranks that lie, die or freeze in the middle of a collective."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.model import Cause
from prelaunch_sabotage import FAULTY_RANK
from tasks.render.headline import headline
from tests.survival.world import BESIDE, World, run

FAULTY = f"node-1/rank-{FAULTY_RANK}"
QUICK = {"collective.all_reduce": 8.0, "collective.all_gather": 8.0, "training.ddp": 8.0}


@pytest.mark.long  # tests/survival/test_in_job.py has the same rank, in a gate inside the job
def test_wrong_sums_on_one_rank_are_a_fail_that_names_it(tmp_path: Path) -> None:
    """Corruption is hardware, however fast it is."""
    ended = run(World(2, 1, ("wrong_sums",), QUICK), tmp_path)
    blamed = {f.subject for f in ended.fails(Cause.HARDWARE) if f.check == "collective.all_reduce"}

    assert (1, {FAULTY}) == (ended.exit_code, blamed)


@pytest.mark.long  # the one that is frozen stays; tests/checks/judge/culprits/test_silent_ranks.py has both reports, made up
def test_a_rank_killed_in_a_collective_is_named_first(tmp_path: Path) -> None:
    """Its peers report what they saw; the one that says nothing is the suspect."""
    ended = run(World(2, 1, ("killed",), QUICK), tmp_path)
    first = ended.verdict.findings[0]

    assert (3, FAULTY, []) == (ended.exit_code, first.subject, ended.fails(Cause.HARDWARE))
    assert "did not report; 1 other rank waited for it" in first.message
    assert "node-1, rank 1 " in headline(ended.verdict, "gate")


def test_a_frozen_rank_is_named_first_and_ended(tmp_path: Path) -> None:
    """SIGSTOP makes no sound: the deadline does."""
    ended = run(World(2, 1, ("frozen",), dict.fromkeys(QUICK, 4.0), skip=BESIDE), tmp_path)
    first = ended.verdict.findings[0]

    assert (3, FAULTY, []) == (ended.exit_code, first.subject, ended.fails(Cause.HARDWARE))
    assert "did not report; 1 other rank waited for it" in first.message
    assert "Timed out waiting" in first.evidence
    assert "node-1, rank 1 " in headline(ended.verdict, "gate")


@pytest.mark.long  # a second job whose rank dies; tests/checks/probes/pairs has the same without a gate around it
@pytest.mark.parametrize("how", ["killed_in_pairs", "frozen_in_pairs"])
def test_after_a_rank_was_lost_in_the_pairs_nobody_waits_for_it_again(tmp_path: Path, how: str) -> None:
    """It is named first, every pair of the others was measured, and no collective runs into its deadline."""
    ended = run(World(2, 2, (how,), {"collective.pairs": 20.0}), tmp_path)
    first = ended.verdict.findings[0]
    rows = [row for row in ended.report.observations if row.subject.startswith("node-1/")]
    after = [row for row in rows if row.check in (*QUICK, "compute.overlap")]

    assert (3, "collective.pairs", f"node-0/rank-{FAULTY_RANK}", []) == (
        ended.exit_code, first.check, first.subject, ended.fails(Cause.HARDWARE),
    )  # fmt: skip
    assert len(after) == 8
    assert all(
        f"not run: rank {FAULTY_RANK} stopped answering" in row.reason and row.seconds < 1 for row in after
    )


@pytest.mark.long  # half a minute of deadlines; tests/checks/judge/culprits/test_silent_ranks.py has the same report, made up
def test_a_rank_that_froze_before_the_others_met_is_named_first(tmp_path: Path) -> None:
    """It never comes to the process group; the one of four is named, with the check that it never ended."""
    ended = run(World(2, 2, ("frozen_alone",), QUICK), tmp_path)
    first = ended.verdict.findings[0]

    assert (3, f"node-0/rank-{FAULTY_RANK}", "sabotage.frozen_alone") == (
        ended.exit_code, first.subject, first.check,
    )  # fmt: skip
    assert "did not report; 3 other ranks waited for it in " in first.message
    assert [] == ended.fails(Cause.HARDWARE)
