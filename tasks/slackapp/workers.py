"""A few threads that do what an envelope asks for, while the socket goes on. They never keep the process alive."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

LOG = logging.getLogger("prelaunch.slack")
WAITING = 100
Work = Callable[[], None]


class Workers:
    """`count` daemon threads behind a bounded queue."""

    def __init__(self, count: int = 4) -> None:
        self._queue: queue.Queue[Work | None] = queue.Queue(WAITING)
        self._threads = [
            threading.Thread(target=self._run, name=f"slack-work-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Work) -> bool:
        """Have it done soon; False where too much waits already."""
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            return False
        return True

    def stop(self, patience_s: float) -> bool:
        """No more work; what runs may end within `patience_s`. Whether it did."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._queue.get_nowait()  # acknowledged and not begun: whoever clicked sees no answer, and clicks again
            except queue.Empty:
                break
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - one click that fails must not end the buttons of all
                LOG.error("a click or command could not be handled: %s: %s", type(error).__name__, error)
