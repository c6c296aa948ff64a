"""Networks of namespaces that a test makes, spoils before any node starts, and lends to a job (root only).

with lent_network("slow", nodes=4) as network:
    shape("slow-2", "100mbit")
    launcher = LocalLauncher(root, LocalOptions(LocalNetwork.NAMESPACES, prepared="slow"))
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.launchers.local import network
from tasks.launchers.local.network import Network


@contextmanager
def lent_network(name: str, nodes: int) -> Iterator[Network]:
    """The network `name` with nodes name-0, name-1, ...; removed at the end with all that runs in it."""
    try:
        yield network.create(name, nodes, "10.90.0")
    finally:
        network.remove(name)


def shape(namespace: str, rate: str) -> None:
    """Hold a node to `rate` ("100mbit"), both ways. A token bucket: netem is not everywhere."""
    bucket = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "200ms")
    _run("tc", "-n", namespace, "qdisc", "replace", "dev", "eth0", *bucket)
    _run("tc", "-n", _switch(namespace), "qdisc", "replace", "dev", _port(namespace), *bucket)


def cut(namespace: str) -> None:
    """Pull the node's cable at the switch. The node itself sees no carrier, its peers only silence."""
    _run("ip", "-n", _switch(namespace), "link", "set", _port(namespace), "down")


def heal(namespace: str) -> None:
    """Undo both."""
    _run("ip", "-n", _switch(namespace), "link", "set", _port(namespace), "up")
    for where, device in ((namespace, "eth0"), (_switch(namespace), _port(namespace))):
        if "tbf" in _run("tc", "-n", where, "qdisc", "show", "dev", device):
            _run("tc", "-n", where, "qdisc", "del", "dev", device, "root")


def _switch(namespace: str) -> str:
    return network.switch(namespace.rpartition("-")[0])


def _port(namespace: str) -> str:
    return f"v{namespace.rpartition('-')[2]}"


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
