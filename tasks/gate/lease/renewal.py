"""Renews a gate's lock from a thread of its own, and tells from the renewals whether the process of a flow run is alive.

A busy event loop cannot delay the renewal. Missing renewals alone do not prove that a process is dead. Because the clocks of two
machines differ, a lock that looks old is observed for as long as a living process would need to renew it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from enum import Enum
from typing import Any

from tasks.gate.blocking_calls import run_to_end
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import RENEW_S, HeldLease, Lease, LeaseLost
from tasks.gate.lease.owner import is_dead, machine_id
from tasks.store.base import Store, StoreError

LOG = logging.getLogger("prelaunch")
# A lock that was renewed within the last minute has an owner that lives, unless it is seen not to be renewed again.
FRESH_S = 60.0
LOOK_S = 5.0
SLACK_S = 5.0


class LeaseRenewal:
    """One lock that this gate holds; every change to it goes through here. `lost` is set once it is lost, and `loss` says how."""

    def __init__(self, store: Store, held: HeldLease) -> None:
        self._store, self._held = store, held
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.lost, self.loss = threading.Event(), ""
        self._thread = threading.Thread(target=self._renew_on, name="lease", daemon=True)

    @property
    def lease(self) -> Lease:
        """The lock as it is now."""
        return self._held.lease

    def start(self) -> None:
        """Begin to renew the lock."""
        self._thread.start()

    def change(self, **changes: Any) -> Lease:
        """Keep other values in the lock: names of jobs, an open question. Raises LeaseLost, StoreError."""
        with self._lock:
            self._held = leases.changed(self._store, self._held, **changes)
            return self._held.lease

    def park(self) -> None:
        """Stop renewing and leave the lock as it is, because the run continues with it in another process."""
        self._stop.set()

    def ours(self) -> bool:
        """Whether the lock is still ours. Only then may we touch its jobs. Raises StoreError."""
        with self._lock:
            try:
                self._held = leases.renew(self._store, self._held, time.time())
            except LeaseLost as error:
                self.loss = str(error)
                self.lost.set()
        return not self.lost.is_set()

    def release(self) -> None:
        """Stop renewing and release the lock. Raises StoreError."""
        self._stop.set()
        with self._lock:
            leases.release(self._store, self._held)

    def _renew_on(self) -> None:
        while not self._stop.wait(leases.RENEW_S):
            try:
                if not self.ours():
                    return
            except StoreError as error:
                LOG.warning("the cluster's lock could not be renewed, it is tried again: %s", error)


class RunLiveness(Enum):
    """LIVES: the process is there, or renews its lock. GONE: it does not. PARKED: the run waits for a person, and comes
    back in another process. FREE: it holds no lock, so that nothing is known from one.
    """

    LIVES = "lives"
    GONE = "gone"
    PARKED = "parked"
    FREE = "free"


async def liveness_of(store: Store, flow_run_id: str) -> RunLiveness:
    """Poll until it is known, for a minute at most. Raises StoreError, LeaseError."""
    begun = time.monotonic()
    first = await run_to_end(leases.lease_of_run, store, flow_run_id)
    held = first
    while held is not None and first is not None:
        if liveness := _known_liveness(held, first):
            return liveness
        if time.monotonic() - begun > patience_s(first.lease.renewed_at, time.time()):
            return RunLiveness.GONE
        await asyncio.sleep(LOOK_S)
        held = await run_to_end(leases.lease_of_run, store, flow_run_id)
    return RunLiveness.FREE


def patience_s(renewed_at: float, now: float) -> float:
    """How long a lock may stay unchanged before its owner counts as dead: one more renewal, or a minute if it looks fresh."""
    return FRESH_S if now - renewed_at < FRESH_S else RENEW_S + SLACK_S


def _known_liveness(held: HeldLease, first: HeldLease) -> RunLiveness | None:
    """What one look at the lock proves at once; None if only waiting can."""
    lease = held.lease
    if lease.owner.machine == machine_id():
        return RunLiveness.GONE if is_dead(lease.owner, lease.expires_at, time.time()) else RunLiveness.LIVES
    return None if held.data == first.data else RunLiveness.LIVES
