"""How often a sweep is repeated: the same number on every rank, whatever the store says, and no more than was planned."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checks.probes.pairs.rank import RankSchedule


@dataclass
class Resting:
    """A round in which this rank has no partner."""

    def partner(self, me: int) -> int | None:
        """None."""
        return None


def schedule(answer: str | None) -> RankSchedule:
    """A rank whose store gives this answer to each question."""
    store = SimpleNamespace(agree=lambda key, opinion: opinion if answer == "mine" else answer)
    nothing = cast("Any", None)
    waits = cast("Any", SimpleNamespace(me=0, note_store=store))
    made = RankSchedule(2, nothing, nothing, waits, 0, 60.0, nothing)
    made.run_all(SWEEP)
    return made


SWEEP = cast("Any", [Resting()] * 3)


@pytest.mark.parametrize(
    ("answer", "made", "unsure"),
    [("mine", 4, False), ("0", 0, False), ("1", 4, False), ("999999999", 4, False), (None, 1, True)],
)
def test_a_sweep_is_repeated_as_often_as_agreed(answer: str | None, made: int, unsure: bool) -> None:
    """At most as often as planned. A rank that got no answer takes part in the first, and blames nobody who does not."""
    one = schedule(answer)

    assert (made, unsure) == (one.repeat(SWEEP, 4, 10.0), one.unsure)
    assert one.index == 3 + 3 * made


def test_a_sweep_that_does_not_fit_is_not_repeated() -> None:
    """Neither without time nor without a budget."""
    assert 0 == schedule("mine").repeat(SWEEP, 4, 0.0)
    spent = schedule("mine")
    spent.budget_s = 0.0
    assert 0 == spent.repeat(SWEEP, 4, 10.0)


def test_rounds_beyond_the_budget_are_counted_and_all_ranks_stop_together() -> None:
    """After four rounds the cost is known: whoever asks first decides, also for a rank whose budget is larger."""
    first, other = schedule(None), schedule("4")
    first.note_store.agree = lambda key, opinion: opinion  # type: ignore[method-assign]
    first.budget_s = 0.0
    for rank in (first, other):
        rank.run(SWEEP * 2)

    assert [(7, 2), (7, 2)] == [(rank.index, rank.left_out) for rank in (first, other)]
