"""Ports for a process that listens a moment later."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from checks.process import free_ports


def test_the_kernel_gives_none_of_them_to_an_outgoing_connection() -> None:
    """A port of the kernel's own range was taken while torch was imported, and the ranks could not meet."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert max(free_ports.RANGE) < first
    assert set(free_ports.free_ports(50, "127.0.0.1")) < set(free_ports.RANGE)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_on_which_somebody_listens_is_not_given(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is given once; too few are an error that says where."""
    free = free_ports.free_port(address)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as taken:
        used = taken.getsockname()[1]
        for of in (range(free, free + 1), range(used, used + 1)):
            monkeypatch.setattr(free_ports, "RANGE", of)
            if of.start == free:
                assert [free] == free_ports.free_ports(1, address)
            else:
                with pytest.raises(
                    OSError, match=f"fewer than 1 ports between {used} and {used + 1} are free on"
                ):
                    free_ports.free_ports(1, address)
