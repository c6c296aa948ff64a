"""Somebody on the nodes' network who knows everything of a gate but its key, and tries to decide for it.

`python -m tests.survival.outsider ROSTER GATE CAPTURED SAID [KEY]`, in a namespace of its own. It attacks the responders'
ports until it is ended: idle connections, lines without an end, unsigned requests, forged notes and streams,
and what was captured on the network, sent again. SAID gets, as JSON, what it did and what it was told. With KEY, the key of
the checks, it is no outsider: that shows that its attack works.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from checks.exchange.authentication import GREETING_BYTES, NONCE_BYTES, ExchangeSession, Op, nonce_of
from checks.process.whole_file import write_whole

PAUSE_S = 0.1
ETH_P_ALL, ETHERTYPE_IP = 3, b"\x08\x00"  # linux/if_ether.h


class Outsider:
    """What one attacker does to one port, in threads that never end by themselves."""

    def __init__(self, target: tuple[str, int], names: list[str], gate: str, captured: Path, key: bytes):
        self.target, self.names, self.gate, self.captured, self.key = target, names, gate, captured, key
        self.done: Counter[str] = Counter()
        self.told: list[str] = []

    def attacks(self) -> tuple[Callable[[], None], ...]:
        """Each is one try, repeated for ever."""
        return (self.idle, self.endless, self.forge, self.hold_sink, self.replay)

    def idle(self) -> None:
        """500 connections that say nothing; who is cut comes back."""
        links: list[socket.socket] = []
        while True:
            with suppress(OSError):
                links.append(self._connected())
                self.done["idle"] += 1
            if len(links) >= 500:
                links.pop(0).close()
                time.sleep(PAUSE_S)

    def endless(self) -> None:
        """A line that never ends."""
        with self._connected() as link:
            self.done["endless"] += 1
            while True:
                link.sendall(b"x" * 65536)
                time.sleep(PAUSE_S)

    def forge(self) -> None:
        """Tokens, reports and objections in the nodes' own names."""
        for key, value in self._notes():
            name = key.rpartition("/")[2]
            data = json.dumps({"from": name, "key": key, "value": value}).encode()
            self._say(data, Op.PUT)
            self._say(json.dumps({"from": name, "keys": [key], "wait_ms": 0}).encode(), Op.NOTES)
            self.done["forged"] += 1
            time.sleep(PAUSE_S)

    def hold_sink(self) -> None:
        """A stream that takes the receiver and never goes on."""
        data = json.dumps({"from": self.names[0], "bytes": 1 << 40}).encode()
        self._say(data, Op.SINK, stays_s=5.0)
        self.done["sink"] += 1

    def replay(self) -> None:
        """What nodes sent to this port, byte for byte, on a connection of its own."""
        for sent in captured_streams(self.captured, self.target):
            self._say(sent)
            self.done["replayed"] += 1
        time.sleep(PAUSE_S)

    def _notes(self) -> Iterator[tuple[str, str]]:
        for name in self.names:
            for kind in ("pass", "report", "seen", "claim", "answered", "done"):
                yield f"{kind}/{name}", secrets.token_hex(32)
            for barrier in ("reached", "probed", "confirmed"):
                yield f"{barrier}/{name}", f"{name} objects"

    def _say(self, data: bytes, op: Op | None = None, stays_s: float = 0.0) -> None:
        """Send bytes, or a request under this attacker's key; whatever comes back but the greeting is kept."""
        with self._connected() as link:
            nonce = nonce_of(link.recv(GREETING_BYTES, socket.MSG_WAITALL))
            if op is not None:
                session = ExchangeSession(self.key, nonce, secrets.token_bytes(NONCE_BYTES), op, len(data))
                data = session.opening() + session.request(data)
            link.sendall(data)
            link.settimeout(max(stays_s, 1.0))
            with suppress(OSError):
                while said := link.recv(65536):
                    self.told.append(said[:200].decode("latin-1"))

    def _connected(self) -> socket.socket:
        return socket.create_connection(self.target, timeout=5.0)


def captured_streams(path: Path, target: tuple[str, int]) -> list[bytes]:
    """What each caller of `target` sent on its connection, in the order in which it was seen."""
    streams: dict[str, bytes] = {}
    with suppress(FileNotFoundError):
        for line in path.read_text().splitlines():
            with suppress(ValueError):  # its last line may be half written
                caller, *called, data = json.loads(line)
                if tuple(called) == target:
                    streams[caller] = streams.get(caller, b"") + bytes.fromhex(data)
    return [sent for sent in streams.values() if sent]


def capture(device: str, path: Path) -> None:
    """Write the payload of each TCP packet that passes a device, a line each, until this process is ended."""
    with (
        # All protocols: those that ask for IP alone see nothing of a bridge's port.
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap,
        open(path, "w", encoding="utf-8") as out,
    ):
        tap.bind((device, 0))
        print("ready", flush=True)
        while True:
            frame = tap.recv(1 << 17)
            packet = frame[14:]
            if frame[12:14] != ETHERTYPE_IP or packet[9] != socket.IPPROTO_TCP:
                continue
            tcp = packet[(packet[0] & 15) * 4 : struct.unpack_from("!H", packet, 2)[0]]
            sender, port = struct.unpack_from("!HH", tcp)
            data = tcp[(tcp[12] >> 4) * 4 :]
            if data and len(data) < 4096:  # requests, not the streams of measurements
                here, there = (socket.inet_ntoa(packet[at : at + 4]) for at in (12, 16))
                out.write(json.dumps([f"{here}:{sender}", there, port, data.hex()]) + "\n")
                out.flush()


def forever(attack: Callable[[], None]) -> None:
    """Again and again, whatever becomes of one try."""
    while True:
        with suppress(OSError, Exception):
            attack()
        time.sleep(PAUSE_S)


def main(roster: str, gate: str, captured: str, said: str, key: str = "") -> None:
    """Attack every node of the roster until ended."""
    os.nice(5)  # it would have a machine of its own; with 19 it does nothing beside other work
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    while not Path(roster).exists():
        time.sleep(0.01)
    members = json.loads(Path(roster).read_bytes())["members"]
    names = [member["name"] for member in members]
    held = bytes.fromhex(key) if key else secrets.token_bytes(32)
    addresses = [(member["address"], member["probe_port"]) for member in members]
    outsiders = [Outsider(address, names, gate, Path(captured), held) for address in addresses]
    for outsider in outsiders:
        for attack in outsider.attacks():
            threading.Thread(target=forever, args=(attack,), daemon=True).start()
    while True:
        done = sum((outsider.done for outsider in outsiders), Counter[str]())
        told = [one for outsider in outsiders for one in outsider.told[:20]]
        write_whole(Path(said), json.dumps({"done": done, "told": told}).encode())
        time.sleep(0.2)


if __name__ == "__main__":
    capture(sys.argv[2], Path(sys.argv[3])) if sys.argv[1] == "capture" else main(*sys.argv[1:])
