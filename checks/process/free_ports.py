"""TCP ports that nobody uses now, for a process that listens a moment later."""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator

# Below the kernel's range for outgoing connections (ip_local_port_range, from 32768), which take any free port of it.
RANGE = range(20000, 32000)


# By process: what was given before may not be listened on yet, and a fork must not go on where its siblings do.
_PLACES: dict[int, Iterator[int]] = {}


def _candidates() -> Iterator[int]:
    """Each port of the range once, from this process's own place on."""
    places = _PLACES.setdefault(os.getpid(), itertools.count(random.SystemRandom().randrange(len(RANGE))))
    for _ in RANGE:
        yield RANGE[next(places) % len(RANGE)]


def free_ports(count: int, address: str) -> list[int]:
    """Different ports; if an address is given, ports that can be bound there now. Raises OSError."""
    ports: list[int] = []
    for port in _candidates():
        if not address or _is_free(address, port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"fewer than {count} ports between {RANGE.start} and {RANGE.stop} are free on {address}")


def free_port(address: str = "127.0.0.1") -> int:
    """One of them."""
    return free_ports(1, address)[0]


def _is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
