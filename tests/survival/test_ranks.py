"""Ranks that lie, die or freeze in the middle of a collective."""

from __future__ import annotations

from pathlib import Path

from checks.model import Cause
from prelaunch_sabotage import FAULTY_RANK
from tasks.render.headline import headline
from tests.survival.world import BESIDE, World, run

FAULTY = f"node-1/rank-{FAULTY_RANK}"
QUICK = ("collective.all_reduce", "collective.all_gather", "training.ddp")


def test_a_frozen_rank_is_named_first_and_ended(tmp_path: Path) -> None:
    """SIGSTOP makes no sound: the deadline does, to which nothing else comes on a busy machine."""
    ended = run(World(2, 1, ("frozen",), dict.fromkeys(QUICK, 20.0), skip=BESIDE), tmp_path)
    first = ended.verdict.findings[0]

    assert (3, FAULTY, []) == (ended.exit_code, first.subject, ended.fails(Cause.HARDWARE))
    assert "did not report; 1 other rank waited for it" in first.message
    assert "Timed out waiting" in first.evidence
    assert "node-1, rank 1 " in headline(ended.verdict, "gate")
