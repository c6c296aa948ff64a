"""Ports for a process that listens a moment later."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from checks.process import free_ports


def test_the_kernel_gives_none_of_them_to_an_outgoing_connection() -> None:
    """A port of the kernel's own range was taken while torch was imported, and the ranks could not meet."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert max(free_ports.RANGE) < first
    assert set(free_ports.free_ports(50, "127.0.0.1")) < set(free_ports.RANGE)


def test_a_process_is_given_another_port_each_time() -> None:
    """The port that it was given before may not be listened on yet: of 500 chosen at random some would be equal."""
    assert 500 == len({free_ports.free_port() for _ in range(500)})


def test_a_fork_does_not_go_on_where_its_parent_is() -> None:
    """Else the ranks that are forks of one process would all be given the same port."""
    free_ports.free_port()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, f"{free_ports.free_port()}".encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        assert abs(int(told.read()) - free_ports.free_port()) > 2


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
