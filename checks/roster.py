"""Who takes part in a job: the nodes, their addresses, and where they meet.

Which peers a host probes by itself over TCP: all of a few, a spread of many (pure).
"""

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
    """The ranks of the peers that node `rank` probes, its successor first.

    Up to 33 hosts all others. Beyond, 32 of them at growing distances, the same for each host, so that each is
    probed by 32 others as well and the cost does not grow with the cluster: enough to find a slow host, while a slow
    link is found by the tournament of the ranks (checks/probes/pairs/pairs.py).
    """
    if nodes <= ALL_UP_TO:
        return tuple((rank + step) % nodes for step in range(1, nodes))
    return tuple((rank + step) % nodes for step in _steps(nodes))


def _steps(nodes: int) -> tuple[int, ...]:
    """32 distances from 1 to nodes - 1, each about as many times the one before."""
    steps: list[int] = []
    for place in range(MOST):
        wanted = round((nodes - 1) ** (place / (MOST - 1)))
        steps.append(max(wanted, steps[-1] + 1 if steps else 1))
    # Near distances crowd at 1, 2, 3 ...; what that pushed past the end is moved back.
    return tuple(min(step, nodes - MOST + place) for place, step in enumerate(steps))
