"""Keeps a lease alive from a thread of its own, so that a busy event loop never loses it."""

from __future__ import annotations

import logging
import threading
import time

from tasks import lease as leases
from tasks.lease import Asking, Held, Lease, LeaseLost
from tasks.store.base import Store, StoreError

LOG = logging.getLogger("prelaunch")


class Keeper:
    """One held lease; every change to it goes through here. `lost` is set once it is somebody else's."""

    def __init__(self, store: Store, held: Held) -> None:
        self._store, self._held = store, held
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.lost = threading.Event()
        self._thread = threading.Thread(target=self._renew_on, name="lease", daemon=True)

    @property
    def lease(self) -> Lease:
        """The lease as it is now."""
        return self._held.lease

    def start(self) -> None:
        """Begin to renew it."""
        self._thread.start()

    def next_attempt(self) -> Lease:
        """Give the jobs new names. Raises LeaseLost, StoreError."""
        with self._lock:
            self._held = leases.next_attempt(self._store, self._held)
            return self._held.lease

    def next_training(self) -> Lease:
        """Give the training a new name, and leave the checks' job as it is. Raises LeaseLost, StoreError."""
        with self._lock:
            self._held = leases.next_training(self._store, self._held)
            return self._held.lease

    def ask(self, asking: Asking | None) -> None:
        """Park the cluster for a question, or (None) no longer. Raises LeaseLost, StoreError."""
        with self._lock:
            self._held = leases.ask(self._store, self._held, asking)

    def recheck(self) -> None:
        """Count that a person had the checks run again. Raises LeaseLost, StoreError."""
        with self._lock:
            self._held = leases.recheck(self._store, self._held)

    def park(self) -> None:
        """Stop renewing and leave it as it is: the run comes back for it in another process."""
        self._stop.set()

    def ours(self) -> bool:
        """Whether it still is ours: what its jobs do is our business only then. Raises StoreError."""
        with self._lock:
            try:
                self._held = leases.renew(self._store, self._held, time.time())
            except LeaseLost:
                self.lost.set()
        return not self.lost.is_set()

    def release(self) -> None:
        """Stop renewing and give it back. Raises StoreError."""
        self._stop.set()
        with self._lock:
            leases.release(self._store, self._held)

    def _renew_on(self) -> None:
        while not self._stop.wait(leases.RENEW_S):
            try:
                if not self.ours():
                    return
            except StoreError as error:
                LOG.warning("the lease could not be renewed, trying again: %s", error)
