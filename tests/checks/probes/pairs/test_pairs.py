"""The tournament among real ranks: what a rank that dies, freezes, lies or is late leaves in the others' rows."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.checks.probes.pairs.worlds import Ended, World, play

# So much time that no load of this machine makes a message too slow for a larger one, or a round too late.
UNHURRIED = {"seconds": 10.0, "budget_s": 60.0, "round_s": 20.0}
WORLDS: Mapping[str, World] = {
    "healthy": World(1, 4, options=UNHURRIED),
    "rails": World(2, 2, options=UNHURRIED),
    "stopped": World(5, 1, "stop", victim=2, options={"confirms": 1}),
    "killed": World(5, 1, "kill", victim=2),
    "lying": World(4, 1, "corrupt", victim=1, options={"confirms": 1}),
    "mute": World(5, 1, "mute", victim=1),
    "late": World(5, 1, "late", victim=2),
    "storeless": World(5, 1, "storeless", victim=3, options={"round_s": 5.0}),
    "uncertain": World(6, 1, "uncertain", victim=0, options={"budget_s": 0.0, "round_s": 0.6}),
    "fragile": World(5, 1, "stop", victim=2, fragile=True),
    "matchings": World(5, 1, options={"all_pairs_nodes": 4, "matchings": 3, "confirms": 1}),
}


@pytest.fixture(scope="module")
def ended() -> Mapping[str, Ended]:
    return dict(zip(WORLDS, play(list(WORLDS.values())), strict=True))


def pairs_of(one: Ended) -> set[tuple[int, int]]:
    """Which pairs were measured, by either of them."""
    return {(rank, peer) for rank, row in one.rows.items() for peer in row["peers"]}


def failed(one: Ended) -> set[tuple[int, int]]:
    """(who says it, of whom)."""
    return {
        (rank, peer)
        for rank, row in one.rows.items()
        for peer, why in zip(row["peers"], row["failures"], strict=True)
        if why != "ok"
    }


def test_healthy_ranks_measure_every_pair_once_from_both_ends(ended: Mapping[str, Ended]) -> None:
    """Every number is there, and nothing is wrong. The messages grow from 64 KiB on, to the largest that the options allow."""
    one, ranks = ended["healthy"], WORLDS["healthy"].ranks
    sizes = {size for row in one.rows.values() for size in row["message_bytes"]}
    assert 1 << 16 <= min(sizes) and max(sizes) == 1 << 20
    for rank, row in one.rows.items():
        assert sorted(row["peers"]) == [peer for peer in range(ranks) if peer != rank]
        assert set(row["failures"]) == {"ok"}
        assert min(*row["bandwidth_gbps"], *row["latency_us"], *row["slowest_us"]) > 0
        assert (set(row["wrong_elements"]), row["fault"], row["rounds_left_out"]) == ({0}, "", 0)
        assert all(slow >= usual for slow, usual in zip(row["slowest_us"], row["latency_us"], strict=True))
        assert row["rounds"] == ranks - 1
    assert one.missing == ()


def test_ranks_of_two_nodes_measure_inside_then_along_their_rails(ended: Mapping[str, Ended]) -> None:
    """Ranks of unequal local rank on two nodes never meet."""
    peers = [row["peers"] for _, row in sorted(ended["rails"].rows.items())]
    assert peers == [[1, 2], [0, 3], [3, 0], [2, 1]]


@pytest.mark.parametrize("name", ["stopped", "killed", "fragile"])
def test_a_rank_that_is_gone_is_named_by_its_partners_alone(ended: Mapping[str, Ended], name: str) -> None:
    """Everybody else's row is there in time."""
    one = ended[name]

    assert one.missing == (2,)
    # What hangs would take longer on any machine.
    assert all(row["seconds"] < 60 for row in one.rows.values())
    assert {peer for _, peer in failed(one)} >= {2}
    if name != "fragile":
        assert {peer for _, peer in failed(one)} == {2}
        assert {(a, b) for a in (0, 1, 3, 4) for b in (0, 1, 3, 4) if a != b} <= pairs_of(one)


def test_silence_and_a_closed_connection_are_told_apart(ended: Mapping[str, Ended]) -> None:
    """A frozen process keeps its connections, a dead one's are closed by its kernel."""
    silent = [why for rank in ended["stopped"].rows for why in ended["stopped"].failures(rank, 2)]
    closed = [why for rank in ended["killed"].rows for why in ended["killed"].failures(rank, 2)]

    assert any(why.startswith("no answer within") for why in silent)
    assert any(why == "connection closed" for why in closed)
    assert not any("closed" in why for why in silent)


def test_exchange_that_hangs_costs_the_tournament_of_one_rank_only(ended: Mapping[str, Ended]) -> None:
    """As with NCCL: one partner of the frozen rank is lost to the others, who are told and do not hang themselves."""
    one = ended["fragile"]
    lost = [rank for rank, row in one.rows.items() if any("communicator" in why for why in row["failures"])]

    assert len(lost) == 1
    for rank in set(one.rows) - set(lost):
        assert {peer for said, peer in failed(one) if said == rank} <= {2, *lost}
        assert {"ok", "not_run", "peer_left"} >= set(one.results(rank, lost[0]))


def test_a_rank_that_sends_wrong_data_is_named_by_all_who_got_it(ended: Mapping[str, Ended]) -> None:
    """And what it receives is right."""
    one = ended["lying"]

    assert failed(one) == {(0, 1), (2, 1), (3, 1)}
    assert all(why.endswith("wrong elements") for rank in (0, 2, 3) for why in one.failures(rank, 1))
    assert set(one.rows[1]["wrong_elements"]) == {0}


def test_a_pair_that_hears_nothing_of_each_other_condemns_neither(ended: Mapping[str, Ended]) -> None:
    """Both meet all others."""
    assert failed(ended["mute"]) <= {(1, 3), (3, 1)}
    assert (1, 3) in failed(ended["mute"]) or (3, 1) in failed(ended["mute"])


def test_a_late_rank_is_waited_for(ended: Mapping[str, Ended]) -> None:
    """Its pause is shorter than the deadline; nobody behind it in the queue calls it silent."""
    assert (failed(ended["late"]), ended["late"].missing) == (set(), ())


def test_after_a_tournament_of_the_living_collectives_work(ended: Mapping[str, Ended]) -> None:
    """What hung in one pair closed no other connection."""
    for name in ("healthy", "mute", "late"):
        assert {row["later"] for row in ended[name].rows.values()} == {float(WORLDS[name].ranks)}


def test_a_group_without_a_rank_is_lost_on_all_the_others_alike(ended: Mapping[str, Ended]) -> None:
    """The next collective would wait for it. A rank that was late, and a pair that is cut, lose nothing."""
    for name in ("stopped", "killed", "fragile"):
        said = {tuple(row["lost"]) for row in ended[name].rows.values()}
        assert len(said) == 1 and re.match(r"ranks? (1, |)2(, \d|) stopped answering", said.pop()[0]), name
    for name in ("healthy", "mute", "late", "lying", "storeless"):
        assert all(row["lost"] == [] for row in ended[name].rows.values())


def test_a_store_that_stops_makes_nobody_look_silent(ended: Mapping[str, Ended]) -> None:
    """Whoever waits for the store, or for a late rank, is waited for."""
    one = ended["storeless"]

    assert (failed(one), one.missing) == (set(), ())
    assert all("the ranks could not exchange notes" in row["evidence"] for row in one.rows.values())


def test_rank_without_agreed_rounds_accuses_no_peer_of_leaving(ended: Mapping[str, Ended]) -> None:
    """The store stopped when some had heard how many rounds there are; the others go on."""
    one = ended["uncertain"]
    said = {why for row in one.rows.values() for why in row["failures"]} - {"ok"}

    assert len({row["rounds"] for row in one.rows.values()}) > 1
    assert said and all(why.startswith("not run: the store is lost") for why in said)


def test_above_the_number_of_nodes_there_are_matchings_first(ended: Mapping[str, Ended]) -> None:
    """Three rounds, then what looked bad."""
    one = ended["matchings"]

    assert all("3 planned" in row["evidence"] for row in one.rows.values())
    assert (failed(one), one.missing) == (set(), ())
