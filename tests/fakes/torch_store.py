"""A FAKE of torch's TCPStore: as much of it as notes between ranks need, in this process and not over a network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta


class FakeStore(dict[str, bytes]):
    """The keys and their values. `fault` is called before each answer."""

    def __init__(self, fault: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.fault, self._changed = fault, threading.Condition()

    def set(self, key: str, note: str) -> None:
        """Write it."""
        self.fault()
        with self._changed:
            self[key] = note.encode()
            self._changed.notify_all()

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all are there."""
        self.fault()
        return all(key in self for key in keys)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """All of them."""
        return [self[key] for key in keys]

    def add(self, key: str, number: int) -> int:
        """The sum so far."""
        with self._changed:
            self[key] = str(int(self.get(key, b"0")) + number).encode()
            return int(self[key])

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """The first value that anybody wrote."""
        assert not expected
        with self._changed:
            self.setdefault(key, desired.encode())
            self._changed.notify_all()
            return self[key]

    def wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        """Until all are there; torch raises this error if it waited in vain."""
        with self._changed:
            if not self._changed.wait_for(lambda: all(key in self for key in keys), timeout.total_seconds()):
                raise RuntimeError("wait timeout")
