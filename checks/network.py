"""network.reachability: is every peer there, before any collective can hang on it?"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from checks.authentication import Op
from checks.check import Context, Measurement, check
from checks.exchange import ExchangeError, ask
from checks.exchangekey import Access
from checks.model import Scope
from checks.roster import Member

RETRY_S = 0.1
ATTEMPT_S = 3.0


@check(
    "network.reachability",
    Scope.NODE,
    timeout_s=30,
    metrics=("peers", "failures", "connect_ms", "other_catalogues", "rendezvous"),
    needs="the peers' responders",
    cost="seconds",
    min_nodes=2,
    serial=True,
)
def reachability(context: Context) -> Measurement:
    """Reaches every peer on a high port, and the first node on the rendezvous port.

    One entry a peer: `failures` is "ok" or the reason, `connect_ms` the round trip (null on failure).
    `rendezvous` is "ok" or the reason; `other_catalogues` counts peers that hold other checks than this node.
    """
    deadline = time.monotonic() + context.options.get("deadline_s", context.timeout_s * 0.8)
    roster = context.roster
    peers = [member for member in roster.members if member.name != context.node]
    with ThreadPoolExecutor(max_workers=min(64, len(peers) + 1)) as pool:
        meeting = pool.submit(_reach, roster.members[0], context.access, deadline, roster.rendezvous_port)
        found = list(pool.map(lambda peer: _reach(peer, context.access, deadline, 0), peers))
        met = meeting.result()
    return Measurement(
        {
            "peers": tuple(peer.name for peer in peers),
            "failures": tuple(reply.failure for reply in found),
            "connect_ms": tuple(reply.ms for reply in found),
            "other_catalogues": sum(reply.catalogue not in ("", context.catalogue) for reply in found),
            "rendezvous": met.failure,
        },
        "\n".join(
            f"{p.name} {p.address}:{p.probe_port}: {r.failure}" for p, r in zip(peers, found, strict=True)
        ),
    )


@dataclass(frozen=True)
class _Reply:
    """What came back: "ok" or why not, the round trip, and the peer's catalogue ("" if unknown)."""

    failure: str
    ms: float | None
    catalogue: str


def _reach(peer: Member, access: Access, deadline: float, port: int) -> _Reply:
    """Ask until the deadline: a peer may still be starting."""
    while True:
        begun = time.monotonic()
        left = deadline - begun
        try:
            said = ask(peer, access, Op.HELLO, max(0.1, min(ATTEMPT_S, left)), port)
        except ExchangeError as error:
            if time.monotonic() + RETRY_S >= deadline:
                return _Reply(str(error), None, "")
            time.sleep(RETRY_S)
            continue
        return _Reply("ok", (time.monotonic() - begun) * 1000, str(said.get("catalogue")))
