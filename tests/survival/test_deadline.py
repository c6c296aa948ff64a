"""A node's report is whole at its deadline, whatever its checks and ranks do."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.model import Cause, Outcome
from tests.survival.world import World, run

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
