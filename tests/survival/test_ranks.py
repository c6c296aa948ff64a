"""Ranks that lie, die or freeze in the middle of a collective."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.model import Cause, Outcome
from prelaunch_sabotage import FAULTY_RANK
from tasks.render.headline import headline
from tests.survival.world import World, all_but, run

FAULTY = f"node-1/rank-{FAULTY_RANK}"
QUICK = ("collective.all_reduce", "collective.all_gather", "training.ddp")


def test_a_frozen_rank_is_named_first_and_ended(tmp_path: Path) -> None:
    """SIGSTOP makes no sound: the deadline does, to which nothing else comes on a busy machine."""
    ended = run(World(2, 1, ("frozen",), {QUICK[0]: 20.0}, skip=all_but(QUICK[0])), tmp_path)
    first = ended.verdict.findings[0]

    assert (3, FAULTY, []) == (ended.exit_code, first.subject, ended.fails(Cause.HARDWARE))
    assert "did not report; 1 other rank waited for it" in first.message
    assert "Timed out waiting" in first.evidence
    assert "node-1, rank 1 " in headline(ended.verdict, "gate")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nodes_with_different_environments_start_their_ranks_alike(tmp_path: Path) -> None:
    """The ranks of node-0 could be forks. Those of node-1 cannot, because of a variable that somebody set there."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nif os.environ.get('PRELAUNCH_NODE') == 'node-1':\n    os.environ['OMP_NUM_THREADS'] = '2'\n"
    )
    own = {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    world = World(2, 1, environment=own, skip=all_but(*QUICK), stage_s=300.0, max_runtime_s=400.0)
    rows = run(world, tmp_path).report.observations

    measured = {(row.check, row.subject) for row in rows if row.outcome is Outcome.MEASURED}
    ranks = ("node-0/rank-0", "node-1/rank-1")
    assert {(check, rank) for check in QUICK for rank in ranks} <= measured
