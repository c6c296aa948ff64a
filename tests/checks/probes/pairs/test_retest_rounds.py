"""One rank reads what all have measured, and the others wait for its decision: as long as it lives, and no longer."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checks.probes.pairs import retest_rounds
from checks.probes.pairs.pair_wait import PairWait, WaitLimits
from checks.probes.pairs.rank import RankSchedule
from checks.probes.pairs.rendezvous import NoteStore
from tests.fakes.torch_store import FakeStore

ROUND_S, SCREEN_S = 0.1, 0.2


def schedule(me: int, store: FakeStore, time_s: float = 20.0) -> RankSchedule:
    """One of two ranks, whose tests are done."""
    limits = WaitLimits(ROUND_S, time.monotonic() + time_s)
    nothing = cast("Any", None)
    waits = PairWait(me, NoteStore(store, "p/", 2.0, limits.end), limits, fragile=False)
    return RankSchedule(2, nothing, nothing, waits, 0, 60.0, nothing)


def test_a_reader_that_works_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of thousands of ranks take longer to read than a silence may last."""
    monkeypatch.setattr(retest_rounds, "SCREEN_S", SCREEN_S)
    begun, store = threading.Event(), FakeStore()
    reader, other = schedule(0, store), schedule(1, store)

    def choose(_: object) -> tuple[()]:
        begun.set()
        time.sleep(4 * (4 * ROUND_S + SCREEN_S))
        return ()

    reads = threading.Thread(target=retest_rounds._stage, args=(reader, "final", choose, 1))
    store.set("p/final/tests/1", "[true, false, []]")
    reads.start()
    assert begun.wait(60.0)
    retest_rounds._stage(other, "final", choose, 1)
    reads.join()

    assert ((), ()) == (reader.gone, other.gone)


@pytest.mark.parametrize(
    ("lives", "time_s", "gone"), [(False, 600.0, (0,)), (True, 1.0, ())], ids=["frozen", "out of time"]
)
def test_a_reader_that_does_not_end_is_not_waited_for_longer(
    monkeypatch: pytest.MonkeyPatch, lives: bool, time_s: float, gone: tuple[int, ...]
) -> None:
    """One without a sign of life is gone soon. One that lives is not, and the time for all tests ends the wait."""
    monkeypatch.setattr(retest_rounds, "SCREEN_S", SCREEN_S)
    store, done = FakeStore(), threading.Event()
    store.set("p/final/reader", "0")
    other, signs = schedule(1, store, time_s), threading.Thread(target=_say, args=(store, done))
    begun = time.monotonic()
    if lives:
        signs.start()
    try:
        retest_rounds._stage(other, "final", lambda _: (), 1)
    finally:
        done.set()
    took_s = time.monotonic() - begun

    assert other.gone == gone
    assert took_s >= 0.9 or not lives


def _say(store: FakeStore, done: threading.Event) -> None:
    """A rank that says again and again where it is."""
    number = 0
    while not done.wait(ROUND_S / 2):
        number += 1
        store.set("p/at/0", f"4 {number}")


def test_a_decision_is_one_for_all() -> None:
    """Whoever asks first reads; both ranks follow what is decided."""
    store = FakeStore()
    ranks = [schedule(me, store) for me in range(2)]
    met: list[tuple[int, int]] = []

    for rank in ranks:
        cast("Any", rank).run_all = lambda rounds, me=rank.me: met.append((me, len(rounds)))
    both = [
        threading.Thread(target=retest_rounds._stage, args=(rank, "confirm 0", lambda _: ((0, 1),), 3)) for rank in ranks
    ]  # fmt: skip
    for one in both:
        one.start()
    for one in both:
        one.join()

    assert sorted(met) == [(0, 3), (1, 3)]
    assert [(), ()] == [rank.gone for rank in ranks]


def test_a_few_nodes_are_swept_again_by_all_ranks_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """While that fits into its time; who asks first decides, also for a rank that would have no time any more."""

    def run_all(rank: RankSchedule, rounds: list[Any]) -> None:
        rank.index += len(rounds)

    monkeypatch.setattr(RankSchedule, "run_all", run_all)
    store = FakeStore()

    assert [3, 3] == [schedule(me, store).repeat([None], 3, seconds) for me, seconds in ((0, 60.0), (1, 0.0))]  # type: ignore[list-item]


@dataclass
class Resting:
    """A round in which this rank has no partner."""

    def partner(self, me: int) -> int | None:
        """None."""
        return None


def resting_schedule(answer: str | None) -> RankSchedule:
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
    one = resting_schedule(answer)

    assert (made, unsure) == (one.repeat(SWEEP, 4, 10.0), one.unsure)
    assert one.index == 3 + 3 * made


def test_a_sweep_that_does_not_fit_is_not_repeated() -> None:
    """Neither without time nor without a budget."""
    assert 0 == resting_schedule("mine").repeat(SWEEP, 4, 0.0)
    spent = resting_schedule("mine")
    spent.budget_s = 0.0
    assert 0 == spent.repeat(SWEEP, 4, 10.0)


def test_rounds_beyond_the_budget_are_counted_and_all_ranks_stop_together() -> None:
    """After four rounds the cost is known: whoever asks first decides, also for a rank whose budget is larger."""
    first, other = resting_schedule(None), resting_schedule("4")
    first.note_store.agree = lambda key, opinion: opinion  # type: ignore[method-assign]
    first.budget_s = 0.0
    for rank in (first, other):
        rank.run(SWEEP * 2)

    assert [(7, 2), (7, 2)] == [(rank.index, rank.left_out) for rank in (first, other)]
