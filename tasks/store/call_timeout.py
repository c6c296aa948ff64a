"""Any store, with a time limit for every call, so that a mount that hangs or a service that never answers delays nobody for longer.

A call that does not end is left behind in a daemon thread; it may still take effect. While it hangs, later calls do not wait
either, so that the time limit is spent only once; while MOST_HUNG of them hang, none is begun.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from checks.runner.deadline import limited
from tasks.store.base import Store, StoreUnreachable

R = TypeVar("R")
_hung: dict[str, int] = {}  # by place: how many calls of this process still wait for that store
_lock = threading.Lock()
LIMIT_S = 120.0  # longer than the deadlines of the stores themselves
LEAST_S, HUNG_S = 1.0, 0.2
MOST_HUNG = 32


class PatientStore:
    """A store whose every call ends: after LIMIT_S, and before `answer_by` (time.monotonic()) if that is set."""

    def __init__(self, store: Store, limit_s: float = LIMIT_S) -> None:
        self.store, self.limit_s = store, limit_s
        self.answer_by: float | None = None
        self._key = store.location("store")

    def location(self, key: str) -> str:
        return self.store.location(key)

    def put(self, key: str, data: bytes) -> None:
        self._limited(f"{key} was not written", lambda: self.store.put(key, data))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._limited(f"{key} was not written", lambda: self.store.put_if_absent(key, data))

    def replace_if(self, key: str, old: bytes, new: bytes) -> bool:
        return self._limited(f"{key} was not written", lambda: self.store.replace_if(key, old, new))

    def delete_if(self, key: str, old: bytes) -> bool:
        return self._limited(f"{key} was not removed", lambda: self.store.delete_if(key, old))

    def get(self, key: str) -> bytes | None:
        return self._limited(f"{key} was not read", lambda: self.store.get(key))

    def list(self, prefix: str) -> tuple[str, ...]:
        return self._limited(f"{prefix or 'it'} was not listed", lambda: self.store.list(prefix))

    def delete(self, key: str) -> None:
        self._limited(f"{key} was not removed", lambda: self.store.delete(key))

    def probe(self) -> None:
        self._limited("nothing was stored", self.store.probe)

    def _limited(self, action: str, call: Callable[[], R]) -> R:
        if _hung.get(self._key, 0) >= MOST_HUNG:
            raise StoreUnreachable(f"the store does not answer: {action}; {MOST_HUNG} calls hang already.")
        seconds, ended = self._patience_s(), threading.Event()

        def counted() -> R:
            try:
                return call()
            finally:
                with _lock:
                    ended.set()
                    _hung[self._key] = _hung.get(self._key, 0) - late[0]

        late = [0]
        try:
            return limited(seconds, counted)
        except TimeoutError as error:
            with _lock:
                if not ended.is_set():
                    late[0] = 1
                    _hung[self._key] = _hung.get(self._key, 0) + 1
            message = f"the store does not answer: {action} within {seconds:.1f} s. Check whether its mount or service hangs."
            raise StoreUnreachable(message) from error

    def _patience_s(self) -> float:
        if _hung.get(self._key):
            return HUNG_S
        if self.answer_by is None:
            return self.limit_s
        return min(self.limit_s, max(self.answer_by - time.monotonic(), LEAST_S))
