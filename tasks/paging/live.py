"""Updates a gate's messages while it runs, from a thread that shows the newest progress and never delays the gate.

It shows progress at once, then every 5 s at most, and every 30 s if there is no news, so that the elapsed time is right. While
updates fail it waits longer each time, and logs the failure once. It ends after the session. A run that ends without a
notification (crashed) is shown as stopped, and so is one that was cancelled until what is kept of it is shown; any other end has been
shown by then, and is not overwritten.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from tasks.gate.links import run_links
from tasks.gate.progress import BOARD, Progress
from tasks.gate.session import Session
from tasks.notifiers.base import Notifier, NotifyError, Status
from tasks.notifiers.deliver import means_of
from tasks.notifiers.registry import notifier_for
from tasks.store.base import StoreError

LOG = logging.getLogger("prelaunch")
EVERY_S, QUIET_S, LONGEST_S = 5.0, 30.0, 300.0
# A notifier blocks for 20 s at most: its thread is gone by then.
END_S = 25.0
STOPPED = (
    "This process no longer follows the gate: it was cancelled, waits for approval, or crashed. `prelaunch fleet store list` and the "
    "page of the run show which."
)


class LiveMessages:
    """Use it in a `with`, in the flow's context: `report_progress` reaches it from then on. Without notifiers it does nothing."""

    def __init__(
        self, notifiers: Sequence[Notifier], first: Status, every_s: float = EVERY_S, quiet_s: float = QUIET_S
    ) -> None:
        self._notifiers, self._status = tuple(notifiers), first
        self._every_s, self._quiet_s = every_s, quiet_s
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._said, self._stop = threading.Event(), threading.Event()
        self._failed = 0
        self._thread = threading.Thread(target=self._show_on, name="board", daemon=True)

    def __call__(self, progress: Progress) -> None:
        """Take the newest progress; returns at once."""
        newest = {name: getattr(progress, name) for name in ("stage", "detail", "done", "total")}
        with self._lock:
            answer = progress.answer or self._status.answer
            self._status = replace(self._status, **newest, answer=answer)
        self._said.set()

    def __enter__(self) -> LiveMessages:
        if self._notifiers:
            BOARD.set(self)
            self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if not self._notifiers:
            return
        BOARD.set(None)
        self(Progress("stopped", STOPPED))
        self._stop.set()
        self._said.set()
        self._thread.join(END_S)

    def _show_on(self) -> None:
        while not self._stop.is_set():
            self._said.clear()
            self._show()
            self._stop.wait(min(LONGEST_S, self._every_s * 2**self._failed))
            self._said.wait(max(0.0, self._quiet_s - self._every_s))
        self._show()

    def _show(self) -> None:
        with self._lock:
            status = replace(self._status, elapsed_s=time.monotonic() - self._begun)
        failures = []
        for notifier in self._notifiers:
            try:
                notifier.show(status)
            except (NotifyError, StoreError) as error:
                failures.append(f"{notifier.name}: {error}")
            except Exception as error:  # noqa: BLE001 - whatever a notifier does, the gate goes on
                failures.append(f"{notifier.name}: {type(error).__name__}")
        if failures and not self._failed:
            LOG.warning(
                "the progress could not be shown, it will be tried again less often: %s", "; ".join(failures)
            )
        self._failed = self._failed + 1 if failures else 0


def live_messages(session: Session) -> LiveMessages:
    """The live messages of a gate: every notifier of its file except the log. One that cannot be made is logged and skipped."""
    context = session.context
    gate, notifiers, means = context.gate, [], means_of(context.store)
    for name in (name for name in gate.notify.notifiers if name != "log"):
        try:
            notifiers.append(notifier_for(name, gate.notify, means))
        except NotifyError as error:
            LOG.warning("%s cannot show the progress: %s", name, error)
    first = Status(
        session.gate_id, gate.cluster.name, gate.name, "preflight", "", 0, 0, 0.0,
        links=run_links(session.renewal.lease.owner.flow_run_id) if notifiers else (),
    )  # fmt: skip
    return LiveMessages(notifiers, first)
