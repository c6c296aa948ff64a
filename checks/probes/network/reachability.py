"""network.reachability and network.pairs: checks between hosts over TCP that run before any collective could hang.

network.reachability finds out whether every peer answers. network.pairs measures latency and bandwidth from this host to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

from checks.check import Body, Check, CheckError, Context, Measurement, check
from checks.exchange.authentication import Op
from checks.exchange.exchange import CHUNK_BYTES, PING_BYTES, ExchangeError, ask, connection
from checks.exchange.secret_key import Access
from checks.model import FIRST, Scope
from checks.roster import Member, neighbours

WARM_BYTES = 1 << 20
STREAMS = 3
AGAIN_SHARE = 0.4  # of the deadline: after more than this nothing is measured again
RETRY_S = 0.1
ATTEMPT_S = 3.0


def peers_check(name: str, metrics: tuple[str, ...], **more: Any) -> Callable[[Body], Check]:
    """Makes a function a check of a node's paths to its peers."""
    needs = "the peers' responders"
    return check(name, Scope.NODE, metrics=metrics, needs=needs, min_nodes=2, serial=True, **more)


@peers_check(
    "network.pairs", ("peers", "failures", "latency_us", "bandwidth_gbps"), timeout_s=60, cost="seconds"
)
def pairs(context: Context) -> Measurement:
    """Measures latency and bandwidth from this host to its peers over TCP: to all of a few, to a spread of many.

    Which ones, checks.roster says. One entry a peer, null where it failed:
    `latency_us` is half the median round trip of a 64-byte message,
    `bandwidth_gbps` is 10^9 bytes/s as the receiver timed them. What is slow is measured again once all were; then
    `first_bandwidth_gbps` has the values before that. Node i starts with its successor, so that the
    hosts do not all probe the same one; a receiver takes one stream at a time.
    """
    members = context.roster.members
    order = [members[rank] for rank in neighbours(context.node_rank, len(members))]
    share = context.timeout_s * 0.9 / max(1, len(order))
    begun = time.monotonic()
    first = {peer.name: _probe(peer, context, share) for peer in order}
    slow = _slow(first, context.options) if time.monotonic() - begun < AGAIN_SHARE * context.timeout_s else ()
    results = {**first, **{peer.name: _probe(peer, context, share) for peer in order if peer.name in slow}}
    peers = [member.name for member in members if member.name in results]
    in_order = [results[name] for name in peers]
    if all(result.bandwidth_gbps is None for result in in_order):
        raise CheckError(f"no peer could be probed: {in_order[0].failure}")
    again = {f"{FIRST}bandwidth_gbps": tuple(first[name].bandwidth_gbps for name in peers)} if slow else {}
    return Measurement(
        {
            **again,
            "peers": tuple(peers),
            "failures": tuple(result.failure for result in in_order),
            "latency_us": tuple(result.latency_us for result in in_order),
            "bandwidth_gbps": tuple(result.bandwidth_gbps for result in in_order),
        }
    )


def _slow(results: Mapping[str, _PairResult], options: Mapping[str, float]) -> tuple[str, ...]:
    """The peers that the policy's judge may call slow: below its floor, or a share of the fastest one's."""
    rates = {
        name: result.bandwidth_gbps for name, result in results.items() if result.bandwidth_gbps is not None
    }
    usual = options.get("slow_ratio", 0.25) * max(rates.values(), default=0.0)
    return tuple(name for name, rate in rates.items() if rate < max(options.get("floor_gbps", 0.0), usual))


@dataclass(frozen=True)
class _PairResult:
    failure: str
    latency_us: float | None
    bandwidth_gbps: float | None


def _probe(peer: Member, context: Context, timeout_s: float) -> _PairResult:
    try:
        latency = _latency_us(peer, context, timeout_s / 2)
        return _PairResult("ok", latency, _bandwidth_gbps(peer, context, timeout_s / 2))
    except ExchangeError as error:
        return _PairResult(str(error), None, None)


def _latency_us(peer: Member, context: Context, timeout_s: float) -> float:
    times: list[float] = []
    message = bytes(PING_BYTES)
    with connection(peer, context.access, Op.PING, timeout_s) as line:
        line.answer()
        for _ in range(int(context.options.get("pings", 20))):
            begun = time.perf_counter()
            line.link.sendall(message)
            if line.file.read(PING_BYTES) != message:
                raise ExchangeError("the echo was truncated or changed")
            times.append(time.perf_counter() - begun)
    return median(times) / 2 * 1e6


def _bandwidth_gbps(peer: Member, context: Context, timeout_s: float) -> float:
    """The best of a few streams: a busy host slows some of them, a slow link all.

    A short stream tells how long the others may last; the receiver times them.
    """
    seconds, most = context.options.get("seconds", 0.05), context.options.get("max_bytes", 8 << 20)
    first = _stream(peer, context.access, WARM_BYTES, timeout_s)
    size = int(min(most, max(WARM_BYTES, first * 1e9 * seconds)))
    return max(_stream(peer, context.access, size, timeout_s) for _ in range(STREAMS))


def _stream(peer: Member, access: Access, size: int, timeout_s: float) -> float:
    """GB/s (10^9 bytes) of `size` bytes. Raises ExchangeError if not all of them arrived."""
    chunk = memoryview(bytes(CHUNK_BYTES))
    with connection(peer, access, Op.SINK, timeout_s, bytes=size) as line:
        line.answer()
        sent = 0
        while sent < size:
            piece = chunk[: min(CHUNK_BYTES, size - sent)]
            line.link.sendall(piece)
            sent += len(piece)
        reply = line.answer()
    received, timed, seconds = reply.get("received"), reply.get("timed"), reply.get("seconds")
    if (
        received != size
        or not isinstance(timed, int)
        or not isinstance(seconds, float)
        or not timed
        or seconds <= 0
    ):
        raise ExchangeError(f"the peer received {received} of {size} bytes in {seconds} s")
    return timed / seconds / 1e9


@peers_check(
    "network.reachability",
    ("peers", "failures", "refused", "connect_ms", "other_catalogues", "rendezvous"),
    timeout_s=30,
    cost="seconds",
)
def reachability(context: Context) -> Measurement:
    """Reaches every peer on a high port, and the first node on the rendezvous port.

    One entry a peer: `failures` is "ok" or the reason, `refused` 1 where nothing listens on the peer's port, `connect_ms`
    the round trip (null on failure).
    `rendezvous` is "ok" or the reason; `other_catalogues` counts peers that hold other checks than this node.
    """
    deadline = time.monotonic() + context.options.get("deadline_s", context.timeout_s * 0.8)
    roster = context.roster
    peers = [member for member in roster.members if member.name != context.node]
    with ThreadPoolExecutor(max_workers=min(64, len(peers) + 1)) as pool:
        meeting = pool.submit(_reach, roster.members[0], context.access, deadline, roster.rendezvous_port)
        results = list(pool.map(lambda peer: _reach(peer, context.access, deadline, 0), peers))
        met = meeting.result()
    return Measurement(
        {
            "peers": tuple(peer.name for peer in peers),
            "failures": tuple(reply.failure for reply in results),
            "refused": tuple(int(reply.refused) for reply in results),
            "connect_ms": tuple(reply.ms for reply in results),
            "other_catalogues": sum(reply.catalogue not in ("", context.catalogue) for reply in results),
            "rendezvous": met.failure,
        },
        "\n".join(
            f"{p.name} {p.address}:{p.probe_port}: {r.failure}" for p, r in zip(peers, results, strict=True)
        ),
    )


@dataclass(frozen=True)
class _Reply:
    """What came back: "ok" or why not, the round trip, and the peer's catalogue ("" if unknown)."""

    failure: str
    ms: float | None
    catalogue: str
    refused: bool = False


def _reach(peer: Member, access: Access, deadline: float, port: int) -> _Reply:
    """Ask until the deadline: a peer may still be starting."""
    while True:
        begun = time.monotonic()
        left = deadline - begun
        try:
            reply = ask(peer, access, Op.HELLO, max(0.1, min(ATTEMPT_S, left)), port)
        except ExchangeError as error:
            if time.monotonic() + RETRY_S >= deadline:
                return _Reply(str(error), None, "", error.refused)
            time.sleep(RETRY_S)
            continue
        return _Reply("ok", (time.monotonic() - begun) * 1000, str(reply.get("catalogue")))
