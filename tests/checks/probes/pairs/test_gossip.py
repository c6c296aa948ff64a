"""Who is known to be silent, and how that travels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from checks.probes.pairs.gossip import LENGTH, Gossip


def test_gossip_believes_two_accusers_but_not_one_until_the_rank_is_heard() -> None:
    """The link between the two may be what is broken. Accusations from before a rank answered are void, later ones count."""
    known = Gossip(8)
    known.accuse(5, 1, round_=3)
    assert not known.silent(5)

    known.accuse(5, 2, round_=4)
    assert (known.silent(5), known.accusers(5)) == (True, (1, 2))

    known.heard(5, 6)
    known.accuse(5, 3, round_=5)
    assert (known.silent(5), known.accusers(5)) == (False, ())


def test_a_rank_that_says_it_of_itself_is_believed() -> None:
    """It has left, and knows it."""
    known = Gossip(8)
    known.accuse(5, 5, round_=3)

    assert known.silent(5)


def test_gossip_passes_accusations_on() -> None:
    """Each heard of one accuser: together they know two, and the third learns it from either."""
    one, other, third = Gossip(8), Gossip(8), Gossip(8)
    one.accuse(5, 1, round_=3)
    other.accuse(5, 2, round_=4)
    other.learn(one.encode())
    third.learn(other.encode())

    assert (one.silent(5), third.silent(5), third.accusers(5)) == (False, True, (1, 2))


def test_gossip_keeps_a_later_answer_against_older_accusations() -> None:
    """A message of round 3 does not silence who answered in round 4; and the answer travels as well."""
    told, witness = Gossip(8), Gossip(8)
    told.accuse(5, 1, round_=2)
    told.accuse(5, 2, round_=3)
    witness.heard(5, 4)
    witness.learn(told.encode())
    assert not witness.silent(5)

    witness.accuse(5, 6, round_=7)
    told.learn(witness.encode())
    assert (told.silent(5), told.accusers(5)) == (False, (6,))


def test_a_message_has_one_length_however_many_are_silent() -> None:
    """A whole switch may be gone; the latest are told."""
    known, learner = Gossip(4000), Gossip(4000)
    for rank in range(1000):
        known.accuse(rank, 2000 + rank, round_=rank)
        known.accuse(rank, 3000 + rank % 900, round_=rank)
    learner.learn(known.encode())

    assert len(known.encode()) == len(Gossip(2).encode()) == LENGTH
    assert [rank for rank in range(4000) if learner.silent(rank)] == list(range(936, 1000))


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=2 * LENGTH))
def test_no_message_breaks_it(words: list[int]) -> None:
    """What came damaged names at most ranks that exist."""
    known = Gossip(8)
    known.learn(words)

    assert all(0 <= accuser < 8 for rank in range(8) for accuser in known.accusers(rank))
    assert len(known.encode()) == LENGTH
