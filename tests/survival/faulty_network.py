"""Faults for a network of namespaces: a slow host, a cut cable. Root only, real qdiscs and links."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tasks.launchers import local_network

needs_root = pytest.mark.skipif(bool(local_network.unavailable()), reason=local_network.unavailable())


@contextmanager
def network(nodes: int) -> Iterator[str]:
    """A network of its own for one test; its name goes into the launcher's `prepared`."""
    name = f"plt{uuid.uuid4().hex[:6]}"
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


def cut(name: str, node: int) -> None:
    """Pull the host's cable at the switch."""
    _run("ip", "-n", local_network.switch(name), "link", "set", f"v{node}", "down")


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True)
