"""A FAKE store: keys and values that the ranks of a world share over TCP, pickled. For loopback and test networks alone."""

from __future__ import annotations

import pickle
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

CONNECT_S = 60.0


def _send(link: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    link.sendall(struct.pack(">I", len(data)) + data)


def _whole(link: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = link.recv(size - len(parts))
        if not part:
            raise ConnectionError("the store is gone")
        parts += part
    return bytes(parts)


def _receive(link: socket.socket) -> Any:
    [size] = struct.unpack(">I", _whole(link, 4))
    return pickle.loads(_whole(link, size))


class Server:
    """Keeps the keys. A thread for each connection."""

    def __init__(self, address: str, port: int) -> None:
        self._kept: dict[str, Any] = {}
        self._changed = threading.Condition()
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    while True:
                        verb, *given = _receive(self.request)
                        _send(self.request, getattr(outer, f"_{verb}")(*given))
                except (OSError, ConnectionError):
                    return

        class Listener(socketserver.ThreadingTCPServer):
            allow_reuse_address, daemon_threads, request_queue_size = True, True, 512

        self._listener = Listener((address, port), Handler)
        threading.Thread(
            target=self._listener.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True
        ).start()

    def close(self) -> None:
        """Take nobody any more."""
        self._listener.shutdown()
        self._listener.server_close()

    def _set(self, key: str, value: Any) -> bool:
        with self._changed:
            self._kept[key] = value
            self._changed.notify_all()
        return True

    def _compare_set(self, key: str, expected: Any, value: Any) -> Any:
        with self._changed:
            if key not in self._kept:
                self._kept[key] = value
                self._changed.notify_all()
            return self._kept[key]

    def _add(self, key: str, number: int) -> int:
        with self._changed:
            self._kept[key] = int(self._kept.get(key, 0)) + number
            self._changed.notify_all()
            return int(self._kept[key])

    def _check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return all(key in self._kept for key in keys)

    def _wait(self, keys: Sequence[str], seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: all(key in self._kept for key in keys), seconds)

    def _get_all(self, keys: Sequence[str], seconds: float, take: bool = False) -> Any:
        with self._changed:
            if not self._changed.wait_for(lambda: all(key in self._kept for key in keys), seconds):
                return None
            return [self._kept.pop(key) if take else self._kept[key] for key in keys]


class Store:
    """A rank's connection. Raises RuntimeError for what is not there in time, as torch's does."""

    def __init__(self, address: str, port: int) -> None:
        self._place, self._lock = (address, port), threading.Lock()
        self._link = self._connected()

    def _connected(self) -> socket.socket:
        until = time.time() + CONNECT_S
        while True:
            try:
                link = socket.create_connection(self._place, timeout=CONNECT_S)
                link.settimeout(None)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return link
            except OSError:
                if time.time() > until:
                    raise
                time.sleep(0.05)

    def ask(self, *words: Any) -> Any:
        """One question, one answer."""
        with self._lock:
            _send(self._link, words)
            return _receive(self._link)

    def clone(self) -> Store:
        """With a connection of its own."""
        return Store(*self._place)

    def set(self, key: str, value: str) -> None:
        """Keep it."""
        self.ask("set", key, value.encode() if isinstance(value, str) else value)

    def get(self, key: str) -> Any:
        """Once it is there."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> Any:
        """Once all are there."""
        found = self.ask("get_all", list(keys), 300.0)
        if found is None:
            raise RuntimeError(f"wait timeout after 300000ms, keys: {keys}")
        return found

    def wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        """Until all are there."""
        if not self.ask("wait", list(keys), timeout.total_seconds()):
            raise RuntimeError(f"wait timeout, keys: {keys}")

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all are there."""
        return bool(self.ask("check", list(keys)))

    def add(self, key: str, number: int) -> int:
        """The sum of all that was added."""
        return int(self.ask("add", key, number))

    def compare_set(self, key: str, expected: str, desired: str) -> Any:
        """The first that was set."""
        return self.ask("compare_set", key, expected.encode(), desired.encode())
