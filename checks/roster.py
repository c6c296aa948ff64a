"""The nodes of a job, their addresses, and where they meet. Also: which peers a node tests by itself over TCP. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """One node: its name, the address its peers use, and the TCP port its responder listens on."""

    name: str
    address: str
    probe_port: int


@dataclass(frozen=True)
class Roster:
    """The nodes in rank order. `rendezvous_port` is opened on the first member's address.

    `interface` is the network interface of the collectives ("" leaves the choice to the library).
    As JSON: {"members": [{"name", "address", "probe_port"}], "rendezvous_port": 29500, "interface": "lo"}.
    """

    members: tuple[Member, ...]
    rendezvous_port: int
    interface: str


ALL_UP_TO = 33
MOST = 32


def neighbours(rank: int, nodes: int) -> tuple[int, ...]:
    """The ranks of the peers that node `rank` tests, beginning with its successor.

    Up to 33 nodes test all others. With more nodes each tests 32 at growing distances, which are the same for every node, so that
    each node is tested by 32 others as well and the cost does not grow with the cluster. That is enough to find a slow node; slow
    links are found by the pair tests of the ranks (checks/probes/pairs/pairs.py).
    """
    if nodes <= ALL_UP_TO:
        return tuple((rank + step) % nodes for step in range(1, nodes))
    return tuple((rank + step) % nodes for step in _steps(nodes))


def _steps(nodes: int) -> tuple[int, ...]:
    """32 distances from 1 to nodes - 1, each larger than the one before by about the same factor."""
    steps: list[int] = []
    for index in range(MOST):
        wanted = round((nodes - 1) ** (index / (MOST - 1)))
        steps.append(max(wanted, steps[-1] + 1 if steps else 1))
    # Small distances are rounded up to 1, 2, 3 ...; the distances that this moved past the end are moved back.
    return tuple(min(step, nodes - MOST + index) for index, step in enumerate(steps))
