"""Checks that look before the ranks run and again after them."""

from __future__ import annotations

from pathlib import Path

from checks.model import Cause, Outcome
from tests.survival import world as worlds
from tests.survival.world import World


def test_a_closing_check_compares_and_one_that_could_not_look_says_so(tmp_path: Path) -> None:
    """Its first look is from before the ranks, its second from after them; a failed first look is no zero."""
    ended = worlds.run(World(sabotage=("counts", "blind"), few=True), tmp_path)
    rows = {row.check: row for row in ended.report.observations}

    assert rows["sabotage.counts"].metrics == {"delta": 2, "before_the_ranks": True, "after_the_ranks": True}
    assert (rows["sabotage.blind"].outcome, ended.exit_code) == (Outcome.ERRORED, 3)
    assert [(f.check, f.cause) for f in ended.fails()] == [("sabotage.blind", Cause.EVIDENCE)]
    assert "(first measurement: the counters cannot be read)" in rows["sabotage.blind"].reason
    assert rows["sabotage.counts"].started_s > rows["site.adds"].started_s > 0
