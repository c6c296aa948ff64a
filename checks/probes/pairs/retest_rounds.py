"""After the planned rounds: everybody's tests come together, and what looks bad is measured again.

The first rank that has come so far reads all notes and leaves the pairs to play, and the ranks that are gone. Who waits
for that in vain leaves "nothing, and the reader is gone" in its place: the first word under the key counts, so that either
all play or nobody does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from checks.culprit import retest
from checks.culprit.retest import Bounds, Entry, Note
from checks.culprit.rounds import Pair, disjoint
from checks.probes.pairs.pair_wait import MOST_ROUNDS
from checks.probes.pairs.rank import RankSchedule

LOOK_S = 0.01
AWAIT_S = 0.5
SCREEN_S = 3.0
# A stage that clears most of the doubt leaves a few pairs that were slowed by chance once more; each stage has notes of its own.
CONFIRMS = ("confirm", "confirm 2", "confirm 3")
GONE_SHARE = 0.5  # of a round's deadline: so long does the reader look for a sign of those who fell silent

Choose = Callable[[Sequence[Entry]], Sequence[Pair]]


@dataclass(frozen=True)
class Word:
    """What one rank says for all: the pairs to play, and the ranks without whom nothing done by all can end."""

    pairs: tuple[Pair, ...] = ()
    gone: tuple[int, ...] = ()


def suspects(player: RankSchedule, nodes: int, ranks_per_node: int, bounds: Bounds) -> int:
    """Where not all pairs were planned: all pairs of the nodes that look bad. Returns how many pairs there were."""
    return _stage(player, "suspects", lambda tests: retest.suspects(tests, nodes, ranks_per_node, bounds), 1)


def confirm(player: RankSchedule, ranks_per_node: int, times: int, bounds: Bounds) -> int:
    """What is doubtful, so many times; and again while that leaves fewer pairs in doubt. Returns how many there were at first."""
    counts: list[int] = []
    for name in CONFIRMS:
        counts.append(
            _stage(player, name, lambda tests: retest.doubtful(tests, ranks_per_node, bounds), times)
        )
        if not counts[-1] or (len(counts) > 1 and counts[-1] >= counts[-2]):
            break
    return counts[0]


def last_look(player: RankSchedule) -> None:
    """Who is gone, after all that was played."""
    _stage(player, "last look", lambda _: (), 1)


def _stage(player: RankSchedule, name: str, choose: Choose, times: int) -> int:
    note = retest.write(player.tests, not player.stopped, player.hung)
    player.board.post(f"{name}/tests/{player.me}", note)
    said = _agreed(player, name, choose, times)
    # Without the board everybody trusts what he heard: mostly it is the same.
    heard = Word(gone=tuple(rank for rank in range(player.ranks) if player.rumour.silent(rank)))
    word = heard if said is None else decode(said, player.ranks)
    player.gone = word.gone
    player.play_all(disjoint(word.pairs) * times)
    return len(word.pairs)


def encode(word: Word) -> str:
    """The word as a note (pure)."""
    return json.dumps([word.pairs, word.gone])


def decode(text: str, ranks: int) -> Word:
    """The word of a note; an empty one where it is no such note (pure)."""
    try:
        pairs, gone = json.loads(text)
        word = Word(tuple((int(one), int(other)) for one, other in pairs), tuple(map(int, gone)))
    except (ValueError, TypeError):
        return Word()
    ends = [*word.gone, *(end for pair in word.pairs for end in pair)]
    return word if all(0 <= end < ranks for end in ends) else Word()


def _agreed(player: RankSchedule, name: str, choose: Choose, times: int) -> str | None:
    key, patience = f"{name}/pairs", player.meetings.patience
    reader = player.board.agree(f"{name}/reader", str(player.me))
    if reader is None:
        return None
    if reader == str(player.me):
        notes = _gather(player, name)
        chosen = choose([test for note in notes.values() for test in note.tests])
        # At most half as much again as was played: where more is doubtful, the host is busy or the fabric is bad.
        most = max(1, min(player.affordable(), player.index // 2) // times)
        rounds = disjoint(retest.playable(notes, chosen))[:most]
        word = Word(tuple(pair for r in rounds for pair in r.pairs()), _gone(player, name, notes))
        return player.board.agree(key, encode(word))
    reader_s = (MOST_ROUNDS + GONE_SHARE) * patience.round_s + SCREEN_S
    end, said = min(time.monotonic() + reader_s, patience.end), None
    while said is None and not player.board.lost and (left_s := end - time.monotonic()) > 0:
        said = player.board.await_note(
            key, min(AWAIT_S, left_s)
        )  # in pieces: a store that hangs is known soon
    return said if said is not None else player.board.agree(key, encode(Word(gone=(int(reader),))))


def _gone(player: RankSchedule, name: str, notes: Mapping[int, Note]) -> tuple[int, ...]:
    """The ranks that hang, and those that fell silent and give no sign of life now: a slow one is waited for by all."""
    named = retest.gone(notes, player.ranks)
    silent = {rank: player.meetings.sign_of(rank) for rank in named if rank not in {*notes, *player.gone}}
    patience = player.meetings.patience
    if silent:
        time.sleep(max(0.0, min(GONE_SHARE * patience.round_s, patience.end - time.monotonic())))
    alive = {rank for rank, sign in silent.items() if player.meetings.sign_of(rank) != sign}
    alive |= {rank for rank in silent if player.board.read(f"{name}/tests/{rank}") is not None}
    return tuple(rank for rank in named if rank not in alive)


def _gather(player: RankSchedule, name: str) -> dict[int, Note]:
    """The notes of all but those who are known to be silent, and those who give no sign of life for a round's deadline.

    Who met the silent one last comes late, and knows most.
    """
    keys = {rank: f"{name}/tests/{rank}" for rank in range(player.ranks)}
    patience, begun, notes = player.meetings.patience, time.monotonic(), dict[int, Note]()
    end, signs, sign = min(begun + MOST_ROUNDS * patience.round_s, patience.end), list[str](), begun
    missing = list(keys)
    while missing and not player.board.lost:
        texts = {rank: player.board.read(keys[rank]) for rank in missing}
        notes |= {rank: retest.read(rank, text) for rank, text in texts.items() if text is not None}
        missing = [rank for rank in missing if rank not in notes]
        awaited = [r for r in missing if not player.rumour.silent(r) and not retest.silent(notes, r)]
        now = time.monotonic()
        if now - begun > patience.round_s / 4:
            said = [player.meetings.sign_of(rank) for rank in awaited]
            signs, sign = said, (now if said != signs else sign)
        if not awaited or now > end or now - sign > patience.round_s:
            break
        time.sleep(LOOK_S)
    return dict(sorted(notes.items()))
