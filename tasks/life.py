"""Whether the process behind a flow run still lives, told by the lease that it renews. Silence of one kind alone kills nothing.

Clocks of two machines differ, so what looks old is looked at again, for as long as a living keeper would need to renew it.
"""

from __future__ import annotations

import asyncio
import time
from enum import Enum

from tasks import lease as leases
from tasks.lease import RENEW_S, Held
from tasks.owner import dead, machine
from tasks.store.base import Store
from tasks.threads import to_end

# A lease that was renewed within the last minute has a keeper that lives, unless it is seen not to be renewed again.
FRESH_S = 60.0
LOOK_S = 5.0
SLACK_S = 5.0


class Life(Enum):
    """LIVES: the process is there, or renews its lease. GONE: it does not. PARKED: the run waits for a person, and comes
    back in another process. FREE: it holds no lease, so that nothing is known from one.
    """

    LIVES = "lives"
    GONE = "gone"
    PARKED = "parked"
    FREE = "free"


async def life_of(store: Store, flow_run_id: str) -> Life:
    """Look until it is known: a minute at most. Raises StoreError, LeaseError."""
    begun = time.monotonic()
    first = await to_end(leases.of_run, store, flow_run_id)
    held = first
    while held is not None and first is not None:
        if known := _known(held, first):
            return known
        if time.monotonic() - begun > patience_s(first.lease.renewed_at, time.time()):
            return Life.GONE
        await asyncio.sleep(LOOK_S)
        held = await to_end(leases.of_run, store, flow_run_id)
    return Life.FREE


def patience_s(renewed_at: float, now: float) -> float:
    """How long a lease may stay as it is before its keeper is dead: a renewal more, or the minute where it looks fresh."""
    fresh = now - renewed_at < FRESH_S
    return FRESH_S if fresh else RENEW_S + SLACK_S


def _known(held: Held, first: Held) -> Life | None:
    """What a look tells at once; None where only time can."""
    lease = held.lease
    if lease.owner.machine == machine():
        return Life.GONE if dead(lease.owner, lease.expires_at, time.time()) else Life.LIVES
    return None if held.data == first.data else Life.LIVES
