"""One port of a responder. A connection that proves the key is served, every other one is closed.

A connection without proof is kept for a short time, and few of them are open at a time: if there are too many, the oldest one of the
address with the most connections is closed. A node proves the key within milliseconds, so its connection is never among the oldest
for long. It is read no further than an opening is long.
"""

from __future__ import annotations

import ipaddress
import resource
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from checks.exchange.authentication import (
    NONCE_BYTES,
    OPENING_BYTES,
    AuthenticationError,
    ExchangeSession,
    greeting,
    open_opening,
)

# Judgement. A node opens a few connections at a time, and up to 240 nodes of a local job share 127.0.0.1. A process
# of a busy host may wait seconds for a CPU between connecting and proving the key.
OPENING_S = 5.0
STRANGERS, STRANGERS_OF_ADDRESS = 512, 64
PEERS = 4096
BACKLOG = 1024
LOOK_S = 0.5
CLOSE_S = 5.0
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a refused connection is not left half closed (socket(7))

Serve = Callable[[socket.socket, ExchangeSession], None]


class Peers:
    """The number of proven connections that a responder serves, over all its ports."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0

    def enter(self) -> bool:
        """Whether there is room for one more connection."""
        with self._lock:
            free = self._number < self._most()
            self._number += free
            return free

    def is_half_full(self) -> bool:
        """Whether a connection that only waits takes the place of one that has something to say."""
        return 2 * self._number > self._most()

    @staticmethod
    def _most() -> int:
        return min(PEERS, _descriptors() // 2)

    def leave(self) -> None:
        """One of the connections has ended."""
        with self._lock:
            self._number -= 1


class ListeningPort:
    """Listens until it is closed. Raises OSError if it cannot. `serve` gets the connection and does not close it."""

    def __init__(self, address: str, port: int, key: bytes, peers: Peers, serve: Serve) -> None:
        self._key, self._peers, self._serve = key, peers, serve
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=BACKLOG)
        self._listener.settimeout(LOOK_S)
        self._lock = threading.Lock()
        self._closing = False
        self._strangers: dict[socket.socket, str] = {}  # with their addresses, the oldest first
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening: the port is free when this returns. Connections that are being served continue."""
        self._closing = True
        with suppress(OSError):  # wakes the thread that waits for a connection
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        with self._listener:
            while not self._closing:
                try:
                    link, address = self._listener.accept()
                except TimeoutError:
                    continue
                except OSError:  # no descriptor is left: a connection without proof is closed
                    self._cut_most() if self._strangers else time.sleep(LOOK_S / 10)
                    continue
                self._admit(link, network_of(str(address[0])))
        while self._strangers:
            self._cut_most()

    def _admit(self, link: socket.socket, address: str) -> None:
        """Starts a thread for the connection, and makes room for it."""
        with self._lock:
            self._strangers[link] = address
            count = list(self._strangers.values()).count(address)
        if count > STRANGERS_OF_ADDRESS:
            self._cut(address)
        elif len(self._strangers) > min(STRANGERS, _descriptors() // 4):
            self._cut_most()
        try:
            threading.Thread(target=self._served, args=(link, address), daemon=True).start()
        except RuntimeError:  # no thread is available
            self._forget(link)
            _reset(link)

    def _served(self, link: socket.socket, address: str) -> None:
        try:
            session = self._opened(link)
        except (OSError, AuthenticationError):
            session = None
        was_listed = self._forget(link)
        if session is None or not was_listed or not self._peers.enter():
            return _reset(link)
        try:
            with link:
                self._serve(link, session)
        finally:
            self._peers.leave()

    def _opened(self, link: socket.socket) -> ExchangeSession:
        """The session, if the caller proves the key in time. Raises OSError, AuthenticationError."""
        until, nonce, opening = time.monotonic() + OPENING_S, secrets.token_bytes(NONCE_BYTES), b""
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.settimeout(OPENING_S)
        link.sendall(greeting(nonce))
        while len(opening) < OPENING_BYTES:
            link.settimeout(max(until - time.monotonic(), 0.001))
            data = link.recv(OPENING_BYTES - len(opening))
            if not data:
                raise ConnectionError("the caller has left")
            opening += data
        return open_opening(self._key, nonce, opening)

    def _forget(self, link: socket.socket) -> bool:
        """Whether it was still a connection without proof."""
        with self._lock:
            return self._strangers.pop(link, None) is not None

    def _cut_most(self) -> None:
        """Closes the oldest connection of the address with the most connections."""
        with self._lock:
            addresses = list(self._strangers.values())
        if addresses:
            self._cut(max(addresses, key=addresses.count))

    def _cut(self, address: str) -> None:
        with self._lock:
            link = next((link for link, stranger in self._strangers.items() if stranger == address), None)
            if link is None:
                return
            del self._strangers[link]
            with suppress(OSError):  # its thread wakes, and closes it
                link.shutdown(socket.SHUT_RDWR)


def network_of(address: str) -> str:
    """What counts as one address: for IPv6 its first 64 bits, because a host may use every address of these (RFC 4862)."""
    if ":" not in address:
        return address
    ip_address = ipaddress.IPv6Address(address.partition("%")[0])
    if ip_address.ipv4_mapped is not None:
        return str(ip_address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(ip_address) >> 64 << 64, 64)))


def _reset(link: socket.socket) -> None:
    with suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    link.close()


@lru_cache(maxsize=1)
def _descriptors() -> int:
    """How many file descriptors this module may use: the others belong to the checks."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft if soft != resource.RLIM_INFINITY else 4 * PEERS
