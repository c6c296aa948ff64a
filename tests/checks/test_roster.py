"""Who probes whom over TCP."""

from __future__ import annotations

from collections import Counter

import pytest

from checks.roster import ALL_UP_TO, MOST, neighbours


@pytest.mark.parametrize("nodes", [1, 2, 3, ALL_UP_TO, ALL_UP_TO + 1, 64, 100, 1024, 5000])
def test_each_host_probes_and_is_probed_alike(nodes: int) -> None:
    """All of a few; of many 32, none twice, none itself."""
    ranks = range(nodes) if nodes <= 100 else (0, 1, nodes // 2, nodes - 1)
    for rank in ranks:
        peers = neighbours(rank, nodes)
        assert min(nodes - 1, MOST) == len(peers) == len(set(peers) - {rank})
        assert all(0 <= peer < nodes for peer in peers)
    if nodes <= 100:
        probed = Counter(peer for rank in ranks for peer in neighbours(rank, nodes))
        assert {min(nodes - 1, MOST)} == set(probed.values()) or nodes == 1


def test_neighbours_give_every_host_one_sender_in_each_step() -> None:
    """A receiver takes one stream at a time: two at once would wait for each other."""
    for step in range(MOST):
        assert 100 == len({neighbours(rank, 100)[step] for rank in range(100)})
