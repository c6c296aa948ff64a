"""efa.pingpong: whether the fabric carries messages from every node to its neighbour."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from checks.check import Basis, CheckError, Context, Measurement, lists_efa_devices
from checks.exchange.exchange import ExchangeError, ask_notes, put_note
from checks.model_details import Contents
from checks.probes.efa.devices import efa_check
from checks.probes.efa.libfabric import ClientResult, Server, client, domains, late, provider, rates_of
from checks.roster import Member

ASK_S = 2.0


def holds(basis: Basis) -> tuple[Contents, ...]:
    """A pair for each of the first `devices` devices."""
    (listed,) = lists_efa_devices(basis)
    return (Contents("pairs", min(listed.count, max(1, int(basis.options.get("devices", 1))))),)


@efa_check(
    "efa.pingpong",
    ("provider", "pairs", "peers", "failures", "acks_missing", "rate_gbps", "latency_us"),
    timeout_s=90,
    needs="fi_pingpong, the neighbour's responder",
    cost="seconds",
    min_nodes=2,
    serial=True,
    holds=holds,
)
def pingpong(context: Context) -> Measurement:
    """Runs fi_pingpong from this node to the next one of the ring, with the data compared.

    Every node is a server for the one before it and a client of the one after it, so that every pair of neighbours is
    measured. A server takes one client: each of the first `devices` devices has its own, and says its port on this
    node's responder. One entry a pair and device: `peers` is the neighbour's name, `failures` "ok" or the reason, null numbers where
    it is not; `rate_gbps` is 10^9 bytes/s one way with messages of 1 MiB, `latency_us` of 256 bytes, one way, host memory.
    A neighbour that offers no server leaves this pair unmeasured.
    """
    name = provider()
    ends = time.monotonic() + context.timeout_s * 0.85
    servers: list[Server] = []
    try:
        names = chosen(domains(name, 10.0), name, context)
        servers += _serve(name, names, ends)
        _say(context, "ports", json.dumps({d: s.port for d, s in zip(names, servers, strict=True)}))
        return _measure(context, name, names, ends, servers)
    except CheckError as error:
        _say(context, "ports", json.dumps({"error": str(error)[:500]}))
        raise
    finally:
        _tell_done(context)
        for server in servers:
            server.close()


def chosen(available: Sequence[str], name: str, context: Context) -> tuple[str, ...]:
    """The domains that are measured: the first `devices` of EFA; else the one of the job's interface."""
    if name == "efa":
        return tuple(available[: max(1, int(context.options.get("devices", 1)))])
    wanted = context.roster.interface
    return (wanted,) if wanted in available else (available[0],)


def _measure(
    context: Context, name: str, names: Sequence[str], ends: float, servers: Sequence[Server]
) -> Measurement:
    members = context.roster.members
    peer = members[(context.node_rank + 1) % len(members)]
    ports = _ports(peer, context, ends)
    each_s = context.options.get("each_s", 15.0)
    ran: dict[str, ClientResult] = {}
    for domain, port in zip(names, ports, strict=False):
        left = min(each_s, ends - time.monotonic())
        ran[domain] = client(name, domain, peer.address, port, left) if left > 0 else late()
    _tell_done(context)
    _wait_for_predecessor(context, min(ends, time.monotonic() + _patience_s(context, len(names))), servers)
    if len(ran) < len(names):
        message = f"{peer.name} has servers for {len(ports)} devices, but this node has {len(names)} devices to measure"
        raise CheckError(message)
    pairs = [f"{context.node} -> {peer.name} ({d})" for d in names]
    return measurement(name, peer.name, pairs, list(ran.values()))


def measurement(name: str, peer: str, pairs: Sequence[str], runs: Sequence[ClientResult]) -> Measurement:
    """The runs as metrics. Raises CheckError if what is wrong is only that no output can be read (pure)."""
    texts = [f"{pair}: {run.failure}" for pair, run in zip(pairs, runs, strict=True)]
    failures = tuple(text if run.failure != "ok" else "ok" for text, run in zip(texts, runs, strict=True))
    return Measurement(
        {
            "provider": name,
            "pairs": tuple(pairs),
            "peers": (peer,) * len(pairs),
            "failures": failures,
            **rates_of(runs),
        },
        "\n".join(f"# {text}\n{run.account}" for text, run in zip(texts, runs, strict=True)),
    )


def _serve(name: str, names: Sequence[str], ends: float) -> list[Server]:
    """Start one listening server per device. Raises CheckError with none left running."""
    servers: list[Server] = []
    try:
        for domain in names:
            servers.append(Server(name, domain, ends - time.monotonic()))
            servers[-1].open()
    except CheckError:
        for server in servers:
            server.close()
        raise
    return servers


def _ports(peer: Member, context: Context, ends: float) -> tuple[int, ...]:
    """Where the neighbour serves. Raises CheckError if it did not publish its ports in time, or that it cannot."""
    reason = "it did not publish its ports"
    patience = min(context.options.get("wait_s", 20.0), ends - time.monotonic())
    deadline = time.monotonic() + patience
    while (left := deadline - time.monotonic()) > 0:
        wait_s = min(left, ASK_S)
        try:
            (note,) = ask_notes(peer, context.access, [_key(peer.name, "ports")], wait_s, wait_s + ASK_S)
        except ExchangeError as error:
            reason = str(error)
            time.sleep(min(0.1, left))
            continue
        if note is not None:
            return read_ports(peer.name, note)
    raise CheckError(f"{peer.name} offered no fi_pingpong server within {patience:.0f} s: {reason}")


def read_ports(peer: str, text: str) -> tuple[int, ...]:
    """The ports of a neighbour's note. Raises CheckError (pure)."""
    try:
        value: object = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, Mapping) and "error" in value:
        raise CheckError(f"{peer} could not start its fi_pingpong servers: {value['error']!s:.500}")
    ports = list(value.values()) if isinstance(value, Mapping) else []
    if not ports or not all(type(port) is int and 0 < port < 65536 for port in ports):
        raise CheckError(f"the answer of {peer} is not a list of ports: {text!r:.200}")
    return tuple(ports)


def _wait_for_predecessor(context: Context, ends: float, servers: Sequence[Server]) -> None:
    """Serve until the node before says that it is done, at most as long as it may take."""
    members = context.roster.members
    before = members[(context.node_rank - 1) % len(members)]
    me = members[context.node_rank]
    while (left := ends - time.monotonic()) > 0 and any(server.waiting() for server in servers):
        wait_s = min(left, ASK_S)
        try:
            (note,) = ask_notes(me, context.access, [_key(before.name, "done")], wait_s, wait_s + ASK_S)
        except ExchangeError:
            return
        if note is not None:
            return


def _say(context: Context, topic: str, value: str) -> None:
    """Leave a note on this node's own responder; a peer that cannot read it reports that itself."""
    _put(context.roster.members[context.node_rank], context, _key(context.node, topic), value)


def _tell_done(context: Context) -> None:
    """Tell the neighbour that its servers are no longer needed."""
    members = context.roster.members
    _put(members[(context.node_rank + 1) % len(members)], context, _key(context.node, "done"), "ok")


def _patience_s(context: Context, devices: int) -> float:
    """How long the node before may take: it may come late, and each of its runs may hang."""
    return context.options.get("wait_s", 20.0) + context.options.get("each_s", 15.0) * devices


def _put(member: Member, context: Context, key: str, value: str) -> None:
    try:
        put_note(member, context.access, key, value, ASK_S)
    except ExchangeError:
        return


def _key(node: str, topic: str) -> str:
    return f"efa.pingpong/{topic}/{node}"
