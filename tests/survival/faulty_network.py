"""Faults for a network of namespaces: slow hosts and links, loss, a cut cable. Root only, real qdiscs, filters and links."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tasks.launchers.local import network as local_network

needs_root = pytest.mark.skipif(bool(local_network.unavailable()), reason=local_network.unavailable())


@contextmanager
def network(nodes: int, kind: str = "plt") -> Iterator[str]:
    """A network of its own for one test; its name, which begins with `kind`, goes into the launcher's `prepared`."""
    name = f"{kind}{uuid.uuid4().hex[:6]}"
    local_network.create(name, nodes, "10.78.0")
    try:
        yield name
    finally:
        local_network.remove(name)


def shape(name: str, node: int, rate: str = "100mbit") -> None:
    """Hold a host to `rate` in both directions."""
    for namespace, device in ((f"{name}-{node}", "eth0"), (local_network.switch(name), f"v{node}")):
        tbf = ("tbf", "rate", rate, "burst", "64kb", "latency", "200ms")
        _run("ip", "netns", "exec", namespace, "tc", "qdisc", "replace", "dev", device, "root", *tbf)


def slow_link(name: str, one: int, other: int, rate: str = "100mbit") -> None:
    """Hold what these two hosts send to each other to `rate`; towards all others they stay as fast as they are."""
    hosts = local_network.find(name, max(one, other) + 1).addresses
    for here, there in ((one, other), (other, one)):
        tc = ("ip", "netns", "exec", f"{name}-{here}", "tc")
        _run(*tc, "qdisc", "replace", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1")
        for number, speed in (("1", "40gbit"), ("2", rate)):
            way = ("parent", "1:", "classid", f"1:{number}", "htb", "rate", speed, "burst", "64kb")
            _run(*tc, "class", "replace", "dev", "eth0", *way, "quantum", "60000")
        match = ("u32", "match", "ip", "dst", f"{hosts[there]}/32", "flowid", "1:2")
        _run(*tc, "filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", *match)


LOSS = """
table inet prelaunch_loss {{
  chain towards {{
    type filter hook input priority 0
    iifname "eth0" numgen random mod 10000 < {share} counter drop
  }}
}}
"""


def lose(name: str, node: int, share: float) -> None:
    """Drop this share of what arrives at the host."""
    argv = ("ip", "netns", "exec", f"{name}-{node}", "nft", "-f", "-")
    text = LOSS.format(share=round(share * 10_000))
    subprocess.run(argv, check=True, capture_output=True, text=True, input=text)


def heal(name: str, node: int) -> None:
    """Take every fault from the host again."""
    for namespace, device in ((f"{name}-{node}", "eth0"), (local_network.switch(name), f"v{node}")):
        subprocess.run(
            ("ip", "netns", "exec", namespace, "tc", "qdisc", "del", "dev", device, "root"),
            check=False, capture_output=True,
        )  # fmt: skip
    _run("ip", "-n", local_network.switch(name), "link", "set", f"v{node}", "up")
    table = ("nft", "delete", "table", "inet", "prelaunch_loss")
    subprocess.run(("ip", "netns", "exec", f"{name}-{node}", *table), check=False, capture_output=True)


def cut(name: str, node: int) -> None:
    """Pull the host's cable at the switch."""
    _run("ip", "-n", local_network.switch(name), "link", "set", f"v{node}", "down")


def add_address(namespace: str, device: str, *address: str) -> None:
    """Give the device one more address."""
    _run("ip", "-n", namespace, "addr", "add", *address, "dev", device)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True)
