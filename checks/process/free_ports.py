"""TCP ports that nobody uses now, for a process that listens a moment later."""

from __future__ import annotations

import random
import socket

# Below the kernel's range for outgoing connections (ip_local_port_range, from 32768), which take any free port of it.
RANGE = range(20000, 32000)


def free_ports(count: int, address: str) -> list[int]:
    """Different ports; if an address is given, ports that can be bound there now. Raises OSError."""
    found: list[int] = []
    for port in random.SystemRandom().sample(RANGE, len(RANGE)):
        if not address or _is_free(address, port):
            found.append(port)
        if len(found) == count:
            return found
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
