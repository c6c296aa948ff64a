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


DEADLINE_S = 20.0


@pytest.mark.usefixtures("least_checks")
def test_check_given_up_at_the_deadline_is_in_the_verdict(tmp_path: Path) -> None:
    """A check hangs that may run for 100 s, so that no rank begins: each is named, with its node, as missing evidence. Only what
    hangs comes to the deadline, on a busy machine as well.
    """
    world = World(sabotage=("hangs",), timeouts_s={"sabotage.hangs": 100.0}, deadline_s=DEADLINE_S, few=True)
    ended = run(world, tmp_path)
    rows = {row.check: row for row in ended.report.observations}
    reasons = {name: row.reason for name, row in rows.items() if row.outcome is not Outcome.MEASURED}
    [node] = ended.report.nodes
    passed = f"the run's deadline of {DEADLINE_S:g} s passed: "

    assert node.complete and ended.seconds < 90.0  # what hangs would end after 100 s
    assert rows.keys() == {planned.check for planned in ended.report.plan if planned.skip is None}
    # Where other programs used the CPU, the reason says so behind this.
    assert reasons.keys() == {"sabotage.hangs", "site.adds"}  # the share of the closing checks was kept
    assert reasons["sabotage.hangs"].startswith(f"{passed}the check was still running")
    assert reasons["site.adds"].startswith(f"{passed}the check had not started")
    assert (3, {Cause.EVIDENCE}) == (ended.exit_code, {f.cause for f in ended.fails()})
    [hung] = (found for found in ended.fails() if found.check == "sabotage.hangs")
    assert ("node-0", True) == (hung.subject, passed in hung.message)
