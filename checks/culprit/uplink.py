"""Which switches this very node hangs under: what the bundle says of it, else what Slurm set in its environment."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from checks import machine
from checks.culprit.topology import COMMA, SWITCHES, Topology, by_address

SLURM_ADDRESS = "SLURM_TOPOLOGY_ADDR"
SLURM_PATTERN = "SLURM_TOPOLOGY_ADDR_PATTERN"


def uplink(node: str, topology: Topology | None, environ: Mapping[str, str], root: Path) -> dict[str, str]:
    """What the identity of the node keeps: SWITCHES, or nothing where nobody described any switches.

    A node is looked up as `node`, as its host is called, by Slurm's name for it and by its EC2 instance id.
    """
    found = (node, platform.node(), environ.get("SLURMD_NODENAME", ""), machine.instance_id(root))
    known = tuple(dict.fromkeys(filter(None, found)))
    if topology is not None:
        return {SWITCHES: COMMA.join(topology.switches(known))}
    switches = by_address(environ.get(SLURM_ADDRESS, ""), environ.get(SLURM_PATTERN, ""), known)
    return {} if switches is None else {SWITCHES: COMMA.join(switches)}
