"""What is measured next, what is written down, and how large messages grow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from checks.culprit import retest
from checks.culprit.doubt import to_confirm
from checks.culprit.test_rows import FINE, PairEnding, Trial, lost_percent, metrics
from checks.model_details import PairOutcome
from checks.probes.pairs import retest_rounds
from checks.probes.pairs.pair_test import Sizes
from checks.probes.pairs.retest_rounds import RoundDecision, decode, encode
from checks.probes.pairs.tcp_counters import NOTHING_SENT, TcpCounters, counted, have_links
from tests.checks.culprit import planted

MIB = 1 << 20
SIZES = Sizes(pings=10, least_bytes=1 << 16, most_bytes=MIB, seconds=0.01, repeats=3)


def notes(ranks: int, rate: Callable[[int, int], float | None]) -> Mapping[int, retest.Note]:
    """The notes of ranks that all met each other."""

    def trial(other: int, gbps: float | None) -> Trial:
        silent = PairEnding(PairOutcome.NO_ANSWER, "said so")
        return Trial(other, silent) if gbps is None else Trial(other, FINE, gbps, 30.0, 60.0)

    def text(one: int) -> str:
        trials = [trial(other, rate(one, other)) for other in range(ranks) if other != one]
        return retest.write(trials, able=True)

    return {one: retest.read(one, text(one)) for one in range(ranks)}


def entry(source: int, target: int, gbps: float | None, slowest_us: float = 70.0) -> retest.RetestEntry:
    return retest.RetestEntry(source, target, gbps, slowest_us, PairOutcome.OK)


def entries_of(made: Mapping[int, retest.Note]) -> list[retest.RetestEntry]:
    return [test for note in made.values() for test in note.tests]


def test_among_healthy_nodes_nothing_is_measured_again() -> None:
    """Every test is as fast as every other."""
    made = entries_of(notes(8, lambda a, b: 10.0 + (a + b) % 3 / 10))

    assert (retest.doubtful(made, 1), retest.suspects(made, 8, 1)) == ((), ())


def test_a_slow_pair_is_measured_again() -> None:
    """It alone."""
    made = notes(8, lambda a, b: 1.0 if {a, b} == {2, 5} else 10.0)

    assert retest.testable(made, retest.doubtful(entries_of(made), 1)) == ((2, 5),)


def inside(slow_gbps: float) -> list[retest.RetestEntry]:
    """Two nodes of two ranks; one direction of one pair is slow, though not a tenth of what is usual."""
    cells = {(0, 1): 0.1, (1, 0): 0.1, (2, 3): 0.1, (3, 2): slow_gbps}
    return [entry(a, b, gbps) for (a, b), gbps in cells.items()]


def test_retest_includes_values_below_the_floor_of_the_policy() -> None:
    """The judge compares with floors too: a value that only they call bad was blamed on one measurement."""
    bounds = retest.Bounds(ratio=0.1, floor_inside_gbps=0.02)

    assert {(2, 3), (3, 2)} == set(retest.doubtful(inside(0.015), 2, bounds))
    assert () == retest.doubtful(inside(0.025), 2, bounds)


def test_retest_covers_every_pair_when_all_are_below_the_floor() -> None:
    """A busy host slows all pairs of the first round."""
    made = [entry(a, b, 0.001) for a, b in itertools.permutations(range(4), 2)]

    assert 12 == len(set(retest.doubtful(made, 1, retest.Bounds(0.1, floor_gbps=0.02))))


def test_a_failed_pair_comes_first() -> None:
    """What gave no number is what nobody should be blamed for unasked."""
    made = notes(8, lambda a, b: None if {a, b} == {0, 3} else 10.0)

    assert retest.testable(made, retest.doubtful(entries_of(made), 1))[0] == (0, 3)


def test_a_pause_is_measured_again_however_high_the_bandwidth() -> None:
    """Packet loss: TCP waits 200 ms before it sends again."""
    made = [entry(1, 2, 10.0, 101_000.0), entry(2, 1, 10.0)]

    assert retest.doubtful(made, 1) == ((1, 2),)


def test_a_rank_without_a_note_or_that_cannot_go_on_is_not_met_again() -> None:
    """Each meeting with it would cost the whole deadline."""
    made = dict(notes(4, lambda a, b: 10.0))
    del made[0]
    made[1] = retest.read(1, retest.write([], able=False))

    assert retest.testable(made, [(0, 2), (1, 2), (3, 2), (2, 3)]) == ((2, 3),)


def test_suspects_meet_each_other_and_a_few_good_nodes_on_all_rails() -> None:
    """Node 3 of twelve, two ranks each, is slow towards everybody."""

    def rate(a: int, b: int) -> float | None:
        return 1.0 if 3 in (a // 2, b // 2) else 10.0

    made = [
        entry(a, b, rate(a, b))
        for a, b in itertools.permutations(range(24), 2)
        if a % 2 == b % 2 and abs(a - b) in (2, 4)
    ]
    pairs = retest.suspects(made, 12, 2)
    of_three = {(min(a, b) // 2, max(a, b) // 2) for a, b in pairs if 3 in (a // 2, b // 2)}

    assert {a % 2 for a, _ in pairs} == {0, 1}
    assert all(a % 2 == b % 2 for a, b in pairs)
    assert len(of_three) >= retest.GOOD_PARTNERS
    assert len({end // 2 for pair in pairs for end in pair}) < 12


def test_two_that_wait_in_vain_make_a_rank_silent() -> None:
    """Its note is not waited for."""
    made = notes(4, lambda a, b: None if 3 in (a, b) and 0 not in (a, b) else 10.0)

    assert [rank for rank in range(4) if retest.silent({r: made[r] for r in range(3)}, rank)] == [3]


def test_tests_that_never_ran_say_nothing() -> None:
    """They are in the row, and nowhere else."""
    left, never = PairEnding(PairOutcome.PEER_LEFT, "a"), PairEnding(PairOutcome.NOT_RUN, "b")
    text = retest.write([Trial(1, left), Trial(2, never)], True)

    assert retest.read(0, text).tests == ()


def test_a_damaged_plan_is_no_plan() -> None:
    """Nobody plays what it cannot read, nor with a rank that does not exist."""
    word = RoundDecision(((0, 1), (2, 3)), (1,))
    damaged = ("[[[0, 4]], []]", "[[], [4]]", "[[[0]], []]", "[[]]", "7", "{", "[[[0, null]], []]")

    assert decode(encode(word), 4) == word
    assert {decode(text, 4) for text in damaged} == {RoundDecision()}


def test_gone_is_who_hangs_or_fell_silent_and_left_no_note() -> None:
    """A late rank leaves a note in the end; one that nobody accused may only be slow."""
    made = dict(notes(5, lambda a, b: None if b in (1, 3) else 10.0))
    assert retest.gone(made, 5) == ()

    del made[1], made[4]
    made[2] = retest.read(2, retest.write([], able=False, hung=True))
    assert retest.gone(made, 5) == (1, 2)


def test_messages_grow_while_they_are_quick() -> None:
    """The size that counts is sent a few times."""
    assert SIZES.following(1 << 16, [0.0001]) == (MIB, 3)
    assert SIZES.following(1 << 16, [0.002]) == (5 << 16, 1)
    assert SIZES.following(MIB, [0.001] * 3) == (0, 0)


def test_a_pause_does_not_end_the_growth_and_a_slow_link_does() -> None:
    """A message that came late is sent again; one that took ten times the time for all is slow by itself."""
    assert SIZES.following(1 << 16, [0.02]) == (1 << 16, 2)
    assert SIZES.following(1 << 16, [0.02, 0.03, 0.0001]) == (MIB, 3)
    assert SIZES.following(1 << 16, [0.02, 0.03, 0.02]) == (0, 0)
    assert SIZES.following(1 << 16, [0.1]) == (0, 0)


SNMP = "Ip: Forwarding\nIp: 1\nTcp: RtoMin OutSegs RetransSegs\nTcp: 200 77 5\nUdp: x\n"
NETSTAT = (
    "TcpExt: TCPDSACKRecv TCPDSACKOfoRecv TCPOrigDataSent TCPDSACKRecvSegs\nTcpExt: 2 1 60 4\nIpExt: x\n"
)


def test_tcp_counters_are_read_by_name() -> None:
    """A kernel that prints no such counter, or half a table, gives no number; one before 5.9 counts reports, not segments."""
    old = NETSTAT.replace("TCPDSACKRecvSegs", "Other")

    assert counted(SNMP, NETSTAT) == TcpCounters(resent=5, data=60, needless=4)
    assert counted(SNMP.replace("RetransSegs", "Other"), old) == TcpCounters(None, 60, 3)
    assert counted("Tcp: a\n", "TcpExt: a b\nTcpExt: 1\n") == counted("", "") == TcpCounters()


@pytest.mark.parametrize(
    ("resent", "data", "needless", "percent"),
    [
        (5, 100, 1, 4.0),
        (90, 2424, 90, 0.0),
        (1, 100, 2, 0.0),
        (0, 100, 0, 0.0),
        (1, 0, 0, None),
        (None, 9, 0, None),
    ],
)
def test_loss_excludes_segments_that_the_receiver_already_had(
    resent: int | None, data: int | None, needless: int | None, percent: float | None
) -> None:
    """A busy healthy receiver answers late, and the sender sends again; its answer says that it was needless."""
    assert percent == lost_percent(resent, data, needless)


def test_the_row_has_an_entry_a_test() -> None:
    """Also for one that failed, and segments where they are counted."""
    made = [Trial(1, FINE, 9.0, 1.0, 2.0, 0, 0), Trial(3, PairEnding(PairOutcome.CLOSED, "closed"))]
    row = metrics(made, 3, 0, with_segments=True)

    assert (row["peers"], row["bandwidth_gbps"]) == ((1, 3), (9.0, None))
    assert "retransmits" not in metrics(made, 3, 0, with_segments=False)


@pytest.mark.parametrize(
    ("doubtful", "stages_played"),
    [((0,), 1), ((5, 0), 2), ((5, 2, 1, 0), 4), ((5, 5, 5), 3), ((5, 6, 6), 3), ((5, 6, 2, 1, 1, 1), 5)],
)
def test_doubt_is_measured_again_while_that_clears_some(
    monkeypatch: pytest.MonkeyPatch, doubtful: tuple[int, ...], stages_played: int
) -> None:
    """A pair that chance slowed again is looked at again, five times at most; a fabric that is bad as a whole is not, for ever."""
    played: list[str] = []

    def stage(schedule: object, name: str, choose: object, times: int, wait_s: float) -> int:
        assert wait_s > 1
        played.append(name)
        return doubtful[len(played) - 1]

    monkeypatch.setattr(retest_rounds, "_stage", stage)
    schedule: Any = SimpleNamespace(ranks=64)

    assert doubtful[0] == retest_rounds.confirm(schedule, 2, 3, retest.Bounds(0.7, 0.0, 0.0))
    assert stages_played == len(played) == len({*played})


def test_a_note_says_when_each_test_was_made() -> None:
    """Without that nobody could tell congestion from a bad node."""
    text = retest.write([Trial(1, FINE, 9.0, 1.0, 2.0, in_round=7, began_s=0.51234)], True)

    assert [(7, 0.512)] == [(test.in_round, test.began_s) for test in retest.read(0, text).tests]


@pytest.mark.parametrize(
    ("addresses", "links"),
    [
        (["127.0.0.1", "127.0.0.2"], False),
        (["::1", "127.0.0.1"], False),
        (["10.0.0.1", "10.0.0.2"], True),
        (["127.0.0.1", "10.0.0.2"], True),
        (["node-0", "node-1"], True),
        ([], True),
    ],
)
def test_processes_at_loopback_addresses_have_no_links(addresses: list[str], links: bool) -> None:
    """They share the counters of their host with all its programs, whose lost segments are no finding about a link."""
    nothing = (NOTHING_SENT.resent, NOTHING_SENT.data, NOTHING_SENT.needless)

    assert links is have_links(addresses)
    assert lost_percent(*nothing) is None and None not in nothing


def test_pairs_that_nobody_saw_good_come_first_where_too_many_are_in_doubt() -> None:
    """Otherwise those that congestion spoiled again would take the room, and healthy pairs would lack evidence."""
    matrix = planted.matrix(planted.nodes(20), cells=planted.all_pairs(planted.nodes(20)) * 2)
    never, half = {(0, 1), (1, 0), (2, 3)}, len(matrix.values) // 2
    crowd = [test for test, cell in enumerate(matrix.ends) if test < half or cell in never]

    assert {(0, 1), (1, 0), (2, 3), (3, 2)} == set(to_confirm(matrix, crowd))
    few = to_confirm(matrix, [test for test in crowd if matrix.ends[test] in {*never, (0, 2), (2, 0)}])
    assert few.index((2, 3)) < few.index((0, 2))


def test_a_pair_that_was_bad_at_two_moments_alone_is_measured_again() -> None:
    """Congestion may have been there both times."""
    cells = [(0, 1), (1, 0)]
    four, seven = (planted.matrix(planted.nodes(4), cells=cells * times) for times in (4, 7))

    assert tuple(cells) == to_confirm(four, range(8)) and () == to_confirm(seven, range(14))
