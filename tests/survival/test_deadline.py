"""A node's report is whole at its deadline, whatever its checks and ranks do."""

from __future__ import annotations

from pathlib import Path

from checks.model import Cause, Outcome
from tests.survival.world import World, run

DEADLINE_S = 7.0


def test_what_was_given_up_at_the_deadline_is_in_the_verdict(tmp_path: Path) -> None:
    """A check hangs that may run for 100 s, and no rank comes to its end: each is named, with its node, as missing evidence."""
    world = World(sabotage=("hangs",), timeouts_s={"sabotage.hangs": 100.0}, deadline_s=DEADLINE_S)
    ended = run(world, tmp_path)
    reasons = {
        row.check: row.reason for row in ended.report.observations if row.outcome is not Outcome.MEASURED
    }
    [node] = ended.report.nodes
    planned = {p.check for p in ended.report.plan if p.skip is None}

    assert node.complete and planned == {row.check for row in ended.report.observations}
    said, _, _ = reasons["sabotage.hangs"].partition(
        " (node-0 was busy: "
    )  # where other programs used the CPU
    assert said == f"the run's deadline of {DEADLINE_S:g} s passed: the check was still running"
    assert reasons["training.step"].startswith(f"the run's deadline of {DEADLINE_S:g} s passed: ")
    assert {"kernel.xid", "kernel.hardware"}.isdisjoint(reasons)  # their share of the time was kept
    assert (3, {Cause.EVIDENCE}) == (ended.exit_code, {f.cause for f in ended.fails()})
    assert any(
        (f.check, f.subject) == ("sabotage.hangs", "node-0")
        and f"the run's deadline of {DEADLINE_S:g} s passed" in f.message
        for f in ended.fails()
    )
    assert ended.seconds < DEADLINE_S + 5 + 5  # the last for the start of the shepherd and of Python
