"""Who takes part in a job: the nodes, their addresses, and where they meet."""

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
