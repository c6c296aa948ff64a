"""Notes that ranks leave for each other in torch's store, with a deadline on every call. They need no collective.

One agent of torchrun runs the store. If that host is cut off or frozen, so is the store: then every read returns None, and the pair
tests continue with their deadlines alone. Calls to the store cannot be interrupted, so a thread makes them, over another connection
than the group's, and is abandoned if it hangs.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")
ANSWER_S = 2.0
LEAST_S = 0.1


class NoteStore:
    """The notes under `prefix` in torch's `store`. Once a call is not answered in time, the store counts as lost, and every call
    returns None. No call is waited for beyond `end` (time.monotonic).
    """

    def __init__(self, store: Any, prefix: str, answer_s: float = ANSWER_S, end: float = math.inf) -> None:
        self.lost = ""
        self._store = store
        self._seen: dict[str, str] = {}
        self._asked_at: float | None = None
        self._prefix, self.answer_s, self._end = prefix, answer_s, end
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="notes of pair tests", daemon=True).start()

    def post(self, key: str, note: str) -> None:
        """Writes a note without waiting."""
        if not self.lost:
            self._calls.put(lambda: self._store.set(self._prefix + key, note))

    def read(self, key: str) -> str | None:
        """The note, None if there is none."""
        notes = self.read_all([key])
        return None if notes is None else notes[0]

    def last_seen(self, key: str) -> str:
        """The note as it was last read, "" if there was none. It never waits: it requests the next read."""
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._calls.put(lambda: self._fetch(self._prefix + key, key))
        elif now - self._asked_at > self.answer_s:
            self._lose(self.answer_s)
        return self._seen.get(key, "")

    @property
    def is_slow_to_answer(self) -> bool:
        """Whether the store is lost, or has not answered the last read yet: then a missing note means nothing."""
        asked_at = self._asked_at
        return bool(self.lost) or (asked_at is not None and time.monotonic() - asked_at > self.answer_s / 4)

    def read_all(self, keys: Sequence[str]) -> tuple[str, ...] | None:
        """The notes of these keys are returned. The result is None while one of them is missing."""
        full = [self._prefix + key for key in keys]

        def read_notes() -> tuple[str, ...] | None:
            if not self._store.check(full):
                return None
            return tuple(note.decode() for note in self._store.multi_get(full))

        return self._ask(read_notes, self.answer_s)

    def await_note(self, key: str, seconds: float) -> str | None:
        """The note as soon as it is there; None if it is not there within this many seconds."""

        def wait() -> str | None:
            try:
                self._store.wait([self._prefix + key], timedelta(seconds=max(seconds, 0.01)))
            except RuntimeError:
                # torch raises this if it waited in vain; if the connection is lost, the next call raises again
                if not self._store.check([self._prefix + key]):
                    return None
            return str(self._store.get(self._prefix + key).decode())

        return self._ask(wait, seconds + self.answer_s)

    def agree(self, key: str, opinion: str) -> str | None:
        """The first value that any rank wrote under this key: the same for all ranks, without waiting for others."""
        return self._ask(
            lambda: str(self._store.compare_set(self._prefix + key, "", opinion).decode()), self.answer_s
        )

    def add(self, key: str, number: int) -> int | None:
        """Adds to a sum that all ranks share. Returns the sum so far."""
        return self._ask(lambda: int(self._store.add(self._prefix + key, number)), self.answer_s)

    def close(self) -> None:
        """Ends the thread, after everything that was posted."""
        self._calls.put(None)

    def _ask(self, call: Callable[[], T], seconds: float) -> T | None:
        if self.lost:
            return None
        seconds = max(min(seconds, self._end - time.monotonic()), LEAST_S)
        answer: queue.SimpleQueue[T | None] = queue.SimpleQueue()

        def answer_call() -> None:
            try:
                answer.put(call())
            except Exception:
                answer.put(None)
                raise

        self._calls.put(answer_call)
        try:
            return answer.get(timeout=seconds)
        except queue.Empty:
            self._lose(seconds)
            return None

    def _lose(self, seconds: float) -> None:
        self.lost = self.lost or f"the store gave no answer within {seconds:.1f} s"

    def _fetch(self, full: str, key: str) -> None:
        if self._store.check([full]):
            self._seen[key] = self._store.get(full).decode()
        self._asked_at = None

    def _serve(self) -> None:
        """Makes the calls, one after another. If the store raises an exception it is lost."""
        while not self.lost and (call := self._calls.get()) is not None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - whatever torch raises, the store is gone
                self.lost = f"the store failed: {error}"
