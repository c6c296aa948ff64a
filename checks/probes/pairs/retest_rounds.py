"""After the planned rounds: the results of all ranks are collected, and suspicious pairs are measured again.

The first rank that gets here reads all notes, and writes the pairs to measure and the ranks that are gone. A rank that waits for
that in vain writes "no pairs, and the reader is gone" instead. The first value under the key counts, so that either all ranks
measure again or none does.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from checks.culprit import retest
from checks.culprit.retest import Bounds, Note, RetestEntry
from checks.culprit.rounds import Pair, disjoint, is_small
from checks.probes.pairs.pair_wait import MOST_ROUNDS
from checks.probes.pairs.rank import RankSchedule

LOOK_S = 0.01
AWAIT_S = 0.5
SCREEN_S = 3.0
LEAST_ROUNDS = 45
# How long each stage of retests waits before it measures. What congestion of a second slowed is good again then, and a few pairs may
# be slowed by chance again. Each stage has notes of its own.
CONFIRM_WAITS_S = (2.0, 2.0, 2.0, 2.0, 2.0)
# The share of a round's deadline for which the reader waits for a sign of life from silent ranks.
GONE_SHARE = 0.5

Choose = Callable[[Sequence[RetestEntry]], Sequence[Pair]]


@dataclass(frozen=True)
class RoundDecision:
    """What one rank decides for all: the pairs to measure again, and the ranks without which no collective can complete."""

    pairs: tuple[Pair, ...] = ()
    gone: tuple[int, ...] = ()


def suspects(schedule: RankSchedule, nodes: int, ranks_per_node: int, bounds: Bounds) -> int:
    """If not all pairs were planned: measures all pairs of the nodes that look bad. Returns the number of pairs."""
    choose = partial(retest.suspects, nodes=nodes, ranks_per_node=ranks_per_node, bounds=bounds)
    return _stage(schedule, "suspects", choose, 1)


def confirm(schedule: RankSchedule, ranks_per_node: int, times: int, bounds: Bounds) -> int:
    """Measures the doubtful pairs this many times, some seconds later, and again as long as that clears some. Returns how many were
    doubtful at first.
    """
    counts: list[int] = []
    nodes = schedule.ranks // ranks_per_node
    sweep = ranks_per_node * nodes * (nodes - 1) // 2 if is_small(nodes) else 0
    choose = partial(retest.doubtful, ranks_per_node=ranks_per_node, bounds=bounds)
    for number, wait_s in enumerate(CONFIRM_WAITS_S):
        counts.append(_stage(schedule, f"confirm {number}", choose, times, wait_s))
        if not retest.goes_on(counts, sweep):
            break
    return counts[0]


def final_stage(schedule: RankSchedule) -> None:
    """Finds out which ranks are gone, after all tests."""
    _stage(schedule, "final", lambda _: (), 1)


def _stage(schedule: RankSchedule, name: str, choose: Choose, times: int, wait_s: float = 0.0) -> int:
    note = retest.write(schedule.tests, not schedule.stopped, schedule.hung)
    schedule.note_store.post(f"{name}/tests/{schedule.me}", note)
    note_text = _agreed(schedule, name, choose, times)
    # Without the store each rank uses what it heard itself, which is mostly the same.
    heard = RoundDecision(gone=tuple(rank for rank in range(schedule.ranks) if schedule.gossip.silent(rank)))
    decision = heard if note_text is None else decode(note_text, schedule.ranks)
    schedule.gone = decision.gone
    if decision.pairs:
        schedule.wait(wait_s)
    schedule.run_all(disjoint(decision.pairs) * times)
    return len(decision.pairs)


def encode(decision: RoundDecision) -> str:
    """The decision as a note. Pure."""
    return json.dumps([decision.pairs, decision.gone])


def decode(text: str, ranks: int) -> RoundDecision:
    """The decision in a note; an empty one if the text is not such a note. Pure."""
    try:
        pairs, gone = json.loads(text)
        decision = RoundDecision(
            tuple((int(first), int(other)) for first, other in pairs), tuple(map(int, gone))
        )
    except (ValueError, TypeError):
        return RoundDecision()
    ends = [*decision.gone, *(end for pair in decision.pairs for end in pair)]
    return decision if all(0 <= end < ranks for end in ends) else RoundDecision()


def _agreed(schedule: RankSchedule, name: str, choose: Choose, times: int) -> str | None:
    """The decision of the first rank that asked, as a note; None without the store, or if the time for all tests is up. A reader that
    gives no sign of life is gone.
    """
    key, limits = f"{name}/pairs", schedule.pair_wait.limits
    reader = schedule.note_store.agree(f"{name}/reader", str(schedule.me))
    if reader is None:
        return None
    if reader == str(schedule.me):
        with _signs_of_life(schedule):
            decision = _decided(schedule, name, choose, times)
        return schedule.note_store.agree(key, encode(decision))
    note_text, sign, seen_at = None, "", time.monotonic()
    silence_s = (MOST_ROUNDS + GONE_SHARE) * limits.round_s + SCREEN_S
    while note_text is None and not schedule.note_store.lost:
        now, last_sign = time.monotonic(), schedule.pair_wait.sign_of(int(reader))
        sign, seen_at = last_sign, (now if last_sign != sign else seen_at)
        if now > limits.end:
            break
        if (left_s := seen_at + silence_s - now) <= 0:
            return schedule.note_store.agree(key, encode(RoundDecision(gone=(int(reader),))))
        # In short waits, so that a store that hangs is noticed soon.
        note_text = schedule.note_store.await_note(key, min(AWAIT_S, left_s))
    return note_text


@contextmanager
def _signs_of_life(schedule: RankSchedule) -> Iterator[None]:
    """Meanwhile this rank says that it lives: to read what thousands of ranks measured takes longer than a silence may last."""
    done = threading.Event()

    def say() -> None:
        while not done.wait(schedule.pair_wait.limits.round_s / 4):
            schedule.pair_wait.say_left(schedule.index)

    threading.Thread(target=say, name="signs of life of the reader", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _decided(schedule: RankSchedule, name: str, choose: Choose, times: int) -> RoundDecision:
    """What follows from the notes of all ranks."""
    notes = _gather(schedule, name)
    chosen = choose([test for note in notes.values() for test in note.tests])
    # At most half of the rounds that were run, or three sweeps of a small cluster: if more is doubtful, the host is busy or the
    # fabric is bad.
    most = max(1, min(schedule.affordable(), max(schedule.index // 2, LEAST_ROUNDS)) // times)
    rounds = disjoint(retest.testable(notes, chosen))[:most]
    return RoundDecision(tuple(pair for r in rounds for pair in r.pairs()), _gone(schedule, name, notes))


def _gone(schedule: RankSchedule, name: str, notes: Mapping[int, Note]) -> tuple[int, ...]:
    """The ranks that hang, and the silent ranks that give no sign of life now. A slow rank is waited for by all."""
    candidates = retest.gone(notes, schedule.ranks)
    silent = {
        rank: schedule.pair_wait.sign_of(rank) for rank in candidates if rank not in {*notes, *schedule.gone}
    }
    limits = schedule.pair_wait.limits
    if silent:
        time.sleep(max(0.0, min(GONE_SHARE * limits.round_s, limits.end - time.monotonic())))
    alive = {rank for rank, sign in silent.items() if schedule.pair_wait.sign_of(rank) != sign}
    alive |= {rank for rank in silent if schedule.note_store.read(f"{name}/tests/{rank}") is not None}
    return tuple(rank for rank in candidates if rank not in alive)


def _gather(schedule: RankSchedule, name: str) -> dict[int, Note]:
    """The notes of all ranks, except those that are known to be silent, and those that give no sign of life for a round's deadline.

    The rank that met the silent one last comes late, and knows most.
    """
    keys = {rank: f"{name}/tests/{rank}" for rank in range(schedule.ranks)}
    limits, begun, notes = schedule.pair_wait.limits, time.monotonic(), dict[int, Note]()
    end, signs, sign = min(begun + MOST_ROUNDS * limits.round_s, limits.end), list[str](), begun
    missing = list(keys)
    while missing and not schedule.note_store.lost:
        texts = {rank: schedule.note_store.read(keys[rank]) for rank in missing}
        notes |= {rank: retest.read(rank, text) for rank, text in texts.items() if text is not None}
        missing = [rank for rank in missing if rank not in notes]
        awaited = [r for r in missing if not schedule.gossip.silent(r) and not retest.silent(notes, r)]
        now = time.monotonic()
        if now - begun > limits.round_s / 4:
            signs_now = [schedule.pair_wait.sign_of(rank) for rank in awaited]
            signs, sign = signs_now, (now if signs_now != signs else sign)
        if not awaited or now > end or now - sign > limits.round_s:
            break
        time.sleep(LOOK_S)
    return dict(sorted(notes.items()))
