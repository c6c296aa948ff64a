"""network.mtu: over real TCP, and over a real network with a narrow place in it."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from checks.probes.network import mtu
from tasks.launchers.local import network as local_network
from tests.survival.faulty_network import add_address, needs_root, network

PEER = """
import sys, threading
from checks.exchange.exchange import Responder
from tests.exchanges import access
responder = Responder(access("node-1"), "")
responder.listen(sys.argv[1], 7001)
print("ready", flush=True)
threading.Event().wait(60)
"""
PROBE = """
import json, sys
from dataclasses import replace
from pathlib import Path
from checks.probes.network.mtu import mtu
from checks.process.observe import probe
from checks.roster import Member, Roster
from tests.corpus.case import context
members = (Member("node-0", sys.argv[1], 1), Member("node-1", sys.argv[2], 7001))
made = replace(context(mtu, Path("/tmp"), nodes=2, options={"stall_s": 1.0}), roster=Roster(members, 1, ""))
row = probe(mtu, made, "node-0")
print(json.dumps({"reason": row.reason, **row.metrics}))
"""


def _inside(namespace: str, script: str, *arguments: str) -> subprocess.Popen[str]:
    argv = ("ip", "netns", "exec", namespace, sys.executable, "-c", script, *arguments)
    return subprocess.Popen(argv, cwd=Path(__file__).parents[4], stdout=subprocess.PIPE, text=True)


@contextmanager
def _answering(name: str, address: str) -> Iterator[None]:
    peer = _inside(f"{name}-1", PEER, address)
    try:
        assert peer.stdout is not None
        assert "ready\n" == peer.stdout.readline()
        yield
    finally:
        peer.kill()
        peer.communicate()


def _probe(name: str, *given: str) -> Mapping[str, object]:
    addresses = given or local_network.find(name, 2).addresses
    with _answering(name, addresses[1]):
        said, _ = _inside(f"{name}-0", PROBE, *addresses).communicate()
    found: Mapping[str, object] = json.loads(said)
    return found


@needs_root
def test_a_bridge_port_that_drops_large_packets_is_found() -> None:
    """Both nodes' interfaces say 1500, a port between them takes 1400 and tells nobody: small messages pass."""
    with network(2) as name:
        argv = ("ip", "-n", local_network.switch(name), "link", "set", "dev", "v1", "mtu", "1400")
        subprocess.run(argv, check=True, capture_output=True)
        found = _probe(name)

    assert (1500, [None]) == (found["interface_mtu_bytes"], found["path_mtu_bytes"])
    assert [1] == found["full_size_lost"]


@needs_root
@pytest.mark.parametrize("device", ["eth0", "lo"])
def test_mtu_is_measured_from_an_address_that_is_not_the_interfaces_first(device: str) -> None:
    """The second one of eth0; or a /32 of lo, as hosts have that route by BGP: then the route sends."""
    here, there = "10.20.0.4", "10.20.0.5"
    with network(2) as name:
        for index, (own, other) in enumerate(((here, there), (there, here))):
            namespace = f"{name}-{index}"
            add_address(namespace, device, f"{own}/32")
            argv = ("ip", "-n", namespace, "route", "add", f"{other}/32", "dev", "eth0", "src", own)
            subprocess.run(argv, check=True, capture_output=True)
        found = _probe(name, here, there)

    assert ("", ["ok"]) == (found["reason"], found["failures"])
    assert (1500, [1500]) == (found["interface_mtu_bytes"], found["path_mtu_bytes"])
    assert [0] == found["narrowed_bytes"]


def _info(segment: int, route: int, options: int = 1) -> bytes:
    made = bytearray(104)
    made[mtu.OPTIONS_AT] = options
    struct.pack_into("I", made, mtu.SEND_MSS_AT, segment)
    struct.pack_into("I", made, mtu.PATH_MTU_AT, route)
    return bytes(made)


@pytest.mark.parametrize(
    ("segment", "route", "options", "family", "path"),
    [
        (1448, 1500, 1, socket.AF_INET, 1500),
        (1460, 1500, 0, socket.AF_INET, 1500),
        (1428, 1500, 1, socket.AF_INET6, 1500),
        (1448, 9001, 1, socket.AF_INET, 1500),
        (8949, 9001, 1, socket.AF_INET, 9001),
        (32741, 65536, 1, socket.AF_INET, 65535),
    ],
)
def test_the_path_is_the_narrower_of_route_and_segment(
    segment: int, route: int, options: int, family: int, path: int
) -> None:
    """With and without timestamps, both families; on the loopback interface the window holds the segments small."""
    assert path == mtu.path_mtu(_info(segment, route, options), family)


def test_a_narrowed_path_is_no_gain_on_the_loopback_interface() -> None:
    """Its MTU is 65536, one more than a packet can be."""
    assert (0, 0) == (mtu.PathResult("ok", 65536, 65535).narrowed, mtu.PathResult("ok", 1500, 1500).narrowed)


@pytest.mark.parametrize(
    ("address", "interface", "sent"),
    [
        ("10.9.8.2", "eth0", 9001),
        ("10.20.0.5", "lo", 1500),
        ("fd00::5", "lo", 1500),
        ("127.0.0.1", "lo", 65536),
        ("203.0.113.77", "", 1500),
    ],
)
def test_the_route_stands_for_an_interface_that_sends_nothing(
    monkeypatch: pytest.MonkeyPatch, address: str, interface: str, sent: int
) -> None:
    """Whatever segment the peer takes: a peer of another MTU stays visible."""
    monkeypatch.setattr(mtu, "interface_of", {address: interface}.__getitem__)
    monkeypatch.setattr(mtu, "mtu_of", {"eth0": 9001, "lo": 65536}.__getitem__)

    assert sent == mtu.sending_mtu(address, _info(1348, 1500))
