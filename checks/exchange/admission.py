"""One port of a responder. A connection that proves the key is served in a thread of its own, every other one is closed.

A connection without proof costs one file descriptor for a short time, and few of them are open at a time; it costs no thread, and no
more bytes than an opening has. If there are too many, the oldest one of the address with the most connections is closed: a node
proves the key within milliseconds, so its connection is never among the oldest for long.
"""

from __future__ import annotations

import ipaddress
import resource
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from checks.exchange.authentication import (
    NONCE_BYTES,
    OPENING_BYTES,
    AuthenticationError,
    Session,
    greeting,
    open_opening,
)

# Judgement. A node opens a few connections at a time, and up to 240 nodes of a local job share 127.0.0.1. A process
# of a busy host may wait seconds for a CPU between connecting and proving the key.
OPENING_S = 5.0
STRANGERS, STRANGERS_OF_ADDRESS = 512, 64
PEERS, PEERS_OF_ADDRESS = 4096, 1024
BACKLOG, ACCEPTS_AT_ONCE = 1024, 64
LOOK_S = 0.5
CLOSE_S = 5.0
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a refused connection is not left half closed (socket(7))

Serve = Callable[[socket.socket, Session], None]


@dataclass(eq=False)
class _Stranger:
    """A connection that has not proven the key yet."""

    link: socket.socket
    address: str
    nonce: bytes
    until: float
    said: bytearray = field(default_factory=bytearray)


class Peers:
    """The number of proven connections that a responder serves, over all its ports."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._of: dict[str, int] = {}

    def enter(self, address: str) -> bool:
        """Whether there is room for one more connection."""
        with self._lock:
            mine = self._of.get(address, 0)
            if self._number >= self._most() or mine >= PEERS_OF_ADDRESS:
                return False
            self._number, self._of[address] = self._number + 1, mine + 1
            return True

    def is_half_full(self) -> bool:
        """Whether a connection that only waits takes the place of one that has something to say."""
        with self._lock:
            return 2 * self._number > self._most()

    @staticmethod
    def _most() -> int:
        return min(PEERS, _descriptors() // 2)

    def leave(self, address: str) -> None:
        """One of the connections has ended."""
        with self._lock:
            self._number -= 1
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]


class Port:
    """Listens until it is closed. Raises OSError if it cannot. `serve` gets the connection and does not close it."""

    def __init__(self, address: str, port: int, key: bytes, peers: Peers, serve: Serve) -> None:
        self._key, self._peers, self._serve = key, peers, serve
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=BACKLOG)
        self._listener.setblocking(False)
        self._wake, self._woken = socket.socketpair()
        self._closing = False
        self._strangers: OrderedDict[socket.socket, _Stranger] = OrderedDict()
        self._of: dict[str, OrderedDict[socket.socket, _Stranger]] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening: the port is free when this returns. Connections that are being served continue."""
        self._closing = True
        self._wake.close()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            while not self._closing:
                for ready, _ in self._selector.select(LOOK_S):
                    if ready.fileobj is self._listener:
                        self._accept()
                    elif isinstance(found := ready.fileobj, socket.socket) and found in self._strangers:
                        self._read(self._strangers[found])
                self._cut_late()
        finally:
            for stranger in list(self._strangers.values()):
                self._cut(stranger)
            self._listener.close()
            self._woken.close()
            self._selector.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                link, found = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError:  # no descriptor is left: connections without proof are closed
                if self._strangers:
                    self._cut_most()
                else:
                    time.sleep(LOOK_S / 10)
                return
            address = network_of(str(found[0]))
            while len(self._of.get(address, ())) >= STRANGERS_OF_ADDRESS:
                self._cut(next(iter(self._of[address].values())))
            while len(self._strangers) >= min(STRANGERS, _descriptors() // 4):
                self._cut_most()
            self._greet(link, address)

    def _greet(self, link: socket.socket, address: str) -> None:
        link.setblocking(False)
        stranger = _Stranger(link, address, secrets.token_bytes(NONCE_BYTES), time.monotonic() + OPENING_S)
        self._strangers[link] = stranger
        self._of.setdefault(address, OrderedDict())[link] = stranger
        self._selector.register(link, selectors.EVENT_READ)
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.send(greeting(stranger.nonce))  # the empty buffer of a new connection has room for all of it
        except OSError:
            self._cut(stranger)

    def _read(self, stranger: _Stranger) -> None:
        try:
            data = stranger.link.recv(OPENING_BYTES - len(stranger.said))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        stranger.said += data
        if not data:
            self._cut(stranger)
        elif len(stranger.said) == OPENING_BYTES:
            self._admit(stranger)

    def _admit(self, stranger: _Stranger) -> None:
        try:
            session = open_opening(self._key, stranger.nonce, bytes(stranger.said))
        except AuthenticationError:
            return self._cut(stranger)
        if not self._peers.enter(stranger.address):
            return self._cut(stranger)
        self._forget(stranger)
        try:
            threading.Thread(target=self._served, args=(stranger, session), daemon=True).start()
        except RuntimeError:  # no thread is available
            self._peers.leave(stranger.address)
            _reset(stranger.link)

    def _served(self, stranger: _Stranger, session: Session) -> None:
        try:
            with stranger.link:
                self._serve(stranger.link, session)
        finally:
            self._peers.leave(stranger.address)

    def _cut_late(self) -> None:
        now = time.monotonic()
        while self._strangers and (oldest := next(iter(self._strangers.values()))).until <= now:
            self._cut(oldest)

    def _cut_most(self) -> None:
        """Closes the oldest connection of the address with the most connections."""
        most = max(self._of.values(), key=len)
        self._cut(next(iter(most.values())))

    def _cut(self, stranger: _Stranger) -> None:
        self._forget(stranger)
        _reset(stranger.link)

    def _forget(self, stranger: _Stranger) -> None:
        self._selector.unregister(stranger.link)
        del self._strangers[stranger.link]
        mine = self._of[stranger.address]
        del mine[stranger.link]
        if not mine:
            del self._of[stranger.address]


def network_of(address: str) -> str:
    """What counts as one address: for IPv6 its first 64 bits, because a host may use every address of these (RFC 4862)."""
    if ":" not in address:
        return address
    found = ipaddress.IPv6Address(address.partition("%")[0])
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))


def _reset(link: socket.socket) -> None:
    with suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    link.close()


@lru_cache(maxsize=1)
def _descriptors() -> int:
    """How many file descriptors this module may use: the others belong to the checks."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft if soft != resource.RLIM_INFINITY else 4 * PEERS
