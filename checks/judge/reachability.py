"""Which host or link is to blame, from which nodes reached each other and how fast. Pure.

`network.reachability` and `network.pairs` give one row per node: what it measured with each of its peers. A cell (a, b) is what a
measured towards b. A host is to blame if nearly all of its cells are bad and those of the others are not. The remaining bad cells
are blamed on links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from checks.documents.report import clip
from checks.judge.blame import MOST_LINKS, Cell, blame, by_end_and_link
from checks.judge.cpu_contention import RecordedLoads, first_of, first_rows, intermittent, machines_of
from checks.model import CLUSTER, LINK, Cause, Finding, Level, Observation, Report
from checks.policy import Policy
from checks.roster import neighbours
from checks.value_types import listed_names

REACHABILITY = "network.reachability"
PAIRS = "network.pairs"
# The arrays of each check's row, with one entry per peer.
REFUSED = "refused"
REACHED = ("failures", REFUSED, "connect_ms")


class FaultDirection(str, Enum):
    """Where the bad cells of a host lead."""

    BOTH = "to and from"
    AWAY = "towards"
    HOME = "from"


def judge(report: Report, records: Mapping[str, Sequence[Observation]], policy: Policy) -> Iterator[Finding]:
    """Findings about hosts and links from the sound rows of both network checks."""
    alive = {node.name for node in report.nodes}
    yield from _incomplete(REACHABILITY, records.get(REACHABILITY, ()), report, REACHED)
    yield from _incomplete(PAIRS, records.get(PAIRS, ()), report, ("bandwidth_gbps", "latency_us"))
    first = next((node.name for node in report.nodes if node.rank == 0), "")
    yield from judge_reachability(records.get(REACHABILITY, ()), alive, first, policy.max_unfit_fraction)
    line = policy.checks.get(PAIRS)
    if records.get(PAIRS) and line is not None:
        yield from _beside_other_work(
            records[PAIRS],
            machines_of(report.nodes),
            lambda observed: list(judge_pairs(observed, alive, line.options, policy.max_unfit_fraction)),
        )


def _beside_other_work(
    records: Sequence[Observation],
    hosts: Mapping[str, str],
    judged: Callable[[Sequence[Observation]], list[Finding]],
) -> Iterator[Finding]:
    """The findings about slow hosts and links with their causes corrected for the hosts' CPU load, and those about values that were
    slow only in the first measurement.
    """
    findings, loads = judged(records), RecordedLoads(records, hosts)
    slow = {node for finding in findings for node in finding.subject.split(LINK)}
    yield from (loads.weighed(finding, slow, metric="bandwidth_gbps") for finding in findings)
    if first_rows(records, "bandwidth_gbps"):
        before = [replace(record, metrics=first_of(record.metrics)) for record in records]
        yield from intermittent(findings, judged(before), RecordedLoads(before, hosts))


def _incomplete(
    check: str, records: Sequence[Observation], report: Report, lists: tuple[str, ...]
) -> Iterator[Finding]:
    """A row that leaves out a peer which it had to test is incomplete."""
    names = {node.rank: node.name for node in report.nodes}
    ranks, nodes = {node.name: node.rank for node in report.nodes}, report.declared.nodes
    for record in records:
        peers, rank = _peers(record), ranks.get(record.subject, 0)
        looked_at = neighbours(rank, nodes) if check == PAIRS else [*range(rank), *range(rank + 1, nodes)]
        missing = sorted({names[peer] for peer in looked_at if peer in names} - {*peers, record.subject})
        if missing:
            yield _evidence(check, record.subject, f"its observation does not cover {listed_names(missing)}")
        elif len(peers) != len(set(peers)) or not len(looked_at) <= len(peers) < max(nodes, 2):
            yield _evidence(check, record.subject, "it did not test each of its peers exactly once")
        elif any(len(list_of(record, name)) != len(peers) for name in lists):
            yield _evidence(check, record.subject, "its lists do not have one entry per peer")


def judge_reachability(
    records: Sequence[Observation], alive: set[str], first: str, max_unfit_fraction: float
) -> Iterator[Finding]:
    """Which hosts are cut off, which never answered, and which links are down. `first` is the node at which the ranks meet."""
    heard = {record.subject for record in records}
    reasons: dict[Cell, str] = {}
    for record in records:
        reasons.update({(record.subject, peer): str(reason) for peer, reason in _by_peer(record, "failures")})
    down = {cell for cell, reason in reasons.items() if reason != "ok"}
    towards: dict[str, list[Cell]] = {}
    for cell in down:
        towards.setdefault(cell[1], []).append(cell)
    for peer in sorted(towards.keys() - (heard & alive)):
        yield _evidence(REACHABILITY, peer, f"did not answer: {_reasons(reasons, towards[peer])}")
    down = {cell for cell in down if cell[1] in heard and cell[1] in alive}
    refused = {
        (r.subject, peer) for r in records for peer, is_refused in _by_peer(r, REFUSED) if is_refused
    } & down
    for peer in sorted({b for _, b in refused}):
        yield _evidence(REACHABILITY, peer, "did not start its responder in time (connection refused)")
    yield from _unreached(down - refused, set(reasons), reasons, max_unfit_fraction)
    for record in records:
        met = record.metrics.get("rendezvous")
        if met != "ok" and first in heard and reasons.get((record.subject, first), "ok") == "ok":
            message = f"reaches {first}, but not its rendezvous port: {met}"
            remedy = "Free the port, or open it in the firewall or security group."
            yield _fail(Cause.CONFIGURATION, REACHABILITY, record.subject, message, remedy, record.evidence)


def _unreached(
    down: set[Cell], cells: set[Cell], reasons: Mapping[Cell, str], max_unfit_fraction: float
) -> Iterator[Finding]:
    hosts, links = blame(down, cells)
    nodes = {a for cell in cells for a in cell}
    of_host, of_link = by_end_and_link(down)
    if len(hosts) > max(1.0, max_unfit_fraction * len(nodes)):
        note = f"{len(hosts)} of {len(nodes)} nodes are unreachable from most others: suspect the network, not a single node"
        remedy = "Check routes, firewall and security group (it must allow all traffic to and from itself)."
        yield _fail(Cause.CONFIGURATION, REACHABILITY, CLUSTER, note, remedy, _lines(down, reasons))
        return
    for host in hosts:
        mine = of_host[host]
        direction = _direction(host, mine)
        note = f"has no connections {direction.value} its peers ({_reasons(reasons, mine)}), while the other nodes reach each other"
        cause = Cause.HARDWARE if direction is FaultDirection.BOTH else Cause.CONFIGURATION
        remedy = "Check this node's cable, NIC and switch port, and its firewall or security group."
        yield _fail(cause, REACHABILITY, host, note, remedy, _lines(mine, reasons))
    if len(links) > max(MOST_LINKS, len(nodes)):
        note = f"{len(links)} pairs of {len(nodes)} nodes do not reach each other, and no single node explains it: suspect the network"
        text = _lines({cell for link in links for cell in of_link[link]}, reasons)
        remedy = "Check switches, routes, firewall and security group; the evidence names the pairs."
        yield _fail(Cause.CONFIGURATION, REACHABILITY, CLUSTER, note, remedy, text)
        return
    for link in sorted(links):
        note = f"does not work: {_reasons(reasons, of_link[link])}, although both run"
        remedy = (
            "Check the path between the two: switch, route, firewall or security group (both directions)."
        )
        # If one direction works, the cable works: the reason is a filter, or a node that started late.
        cause = Cause.HARDWARE if {link, link[::-1]} <= down else Cause.CONFIGURATION
        yield _fail(cause, REACHABILITY, LINK.join(link), note, remedy)


def judge_pairs(
    records: Sequence[Observation], alive: set[str], options: Mapping[str, float], max_unfit_fraction: float
) -> Iterator[Finding]:
    """Which host or link is slow: below `floor_gbps` (10^9 bytes/s) or below `slow_ratio` of the upper quartile."""
    speed: dict[Cell, float] = {}
    for item in records:
        for peer, value in _by_peer(item, "bandwidth_gbps"):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                speed[item.subject, peer] = float(value)
            elif peer in alive:
                yield _evidence(
                    PAIRS, f"{item.subject}{LINK}{peer}", f"gave no bandwidth when {item.subject} measured it"
                )
    if not speed:
        return
    # The upper quartile: one slow host of three makes four of six cells slow, so the median would lie among the slow ones.
    usual = sorted(speed.values())[math.ceil(0.75 * (len(speed) - 1))] if len(speed) >= 6 else 0.0
    line = max(options.get("floor_gbps", 0.0), options.get("slow_ratio", 0.25) * usual)
    if line <= 0:
        message = "bandwidth was not judged: there are too few pairs to compare, and no minimum is set"
        remedy = "Set floor_gbps in the policy's options."
        yield Finding(Level.WARN, Cause.EVIDENCE, PAIRS, CLUSTER, message, "", remedy)
    slow = {cell for cell, value in speed.items() if value < line}
    hosts, links = blame(slow, set(speed))
    nodes = {a for cell in speed for a in cell}
    of_host, of_link = by_end_and_link(slow)
    if len(hosts) > max(1.0, max_unfit_fraction * len(nodes)):
        message = f"{len(hosts)} of {len(nodes)} nodes are slow (below {line:.3g} GB/s): suspect the fabric, not a single node"
        remedy = "Check MTU, routes and switches."
        yield _fail(Cause.CONFIGURATION, PAIRS, CLUSTER, message, remedy, _speeds(slow, speed))
        return
    for host in hosts:
        mine = of_host[host]
        message = f"is slow {_direction(host, mine).value} every peer: {_range(mine, speed)}, threshold {line:.3g} GB/s"
        remedy = "Do not train on this node. Check its NIC, cable and switch port."
        yield _fail(Cause.HARDWARE, PAIRS, host, message, remedy, _speeds(mine, speed))
    if len(links) > max(MOST_LINKS, len(nodes)):
        mine = set().union(*(of_link[link] for link in links))
        message = f"{len(links)} links between {len(nodes)} nodes are slow, and no single node explains it: suspect the fabric; "
        message += f"{_range(mine, speed)}, threshold {line:.3g} GB/s"
        remedy = "Check MTU, routes and switches; the evidence names the pairs."
        yield _fail(Cause.CONFIGURATION, PAIRS, CLUSTER, message, remedy, _speeds(mine, speed))
        return
    for link in sorted(links):
        mine = of_link[link]
        message = f"is slow: {_range(mine, speed)}, threshold {line:.3g} GB/s"
        remedy = "Check the path between the two nodes. With only two nodes, either end may be the cause."
        yield _fail(Cause.HARDWARE, PAIRS, LINK.join(link), message, remedy, _speeds(mine, speed))


def _direction(host: str, cells: Collection[Cell]) -> FaultDirection:
    """Where the bad cells of the host lead: a single one in a direction is an accident."""
    sent = sum(cell[0] == host for cell in cells)
    received = len(cells) - sent
    if sent > 1 and received < 2:
        return FaultDirection.AWAY
    return FaultDirection.HOME if received > 1 and sent < 2 else FaultDirection.BOTH


def _by_peer(record: Observation, name: str) -> Iterator[tuple[str, object]]:
    return zip(_peers(record), list_of(record, name), strict=False)


def _peers(record: Observation) -> Sequence[str]:
    return [str(peer) for peer in list_of(record, "peers")]


def list_of(record: Observation, name: str) -> tuple[object, ...]:
    """A metric that is a list; empty if it is none."""
    value = record.metrics.get(name)
    return value if isinstance(value, tuple) else ()


def _reasons(reasons: Mapping[Cell, str], cells: Iterable[Cell]) -> str:
    return " and ".join(sorted({reasons[cell] for cell in cells})) or "no answer"


def _lines(cells: Iterable[Cell], texts: Mapping[Cell, str]) -> str:
    return clip("\n".join(f"{a} -> {b}: {texts[a, b]}" for a, b in sorted(cells)))[0]


def _speeds(cells: Iterable[Cell], speed: Mapping[Cell, float]) -> str:
    return _lines(cells, {cell: f"{speed[cell]:.4g} GB/s" for cell in cells})


def _range(cells: set[Cell], speed: Mapping[Cell, float]) -> str:
    values = [speed[cell] for cell in cells]
    ends = dict.fromkeys((f"{min(values):.3g}", f"{max(values):.3g}"))
    return f"{' to '.join(ends)} GB/s"


def _evidence(check: str, subject: str, message: str) -> Finding:
    return _fail(
        Cause.EVIDENCE, check, subject, message, "Check whether that node started, and read its log."
    )


def _fail(cause: Cause, check: str, subject: str, message: str, remedy: str, evidence: str = "") -> Finding:
    is_part = subject != CLUSTER
    return Finding(Level.FAIL, cause, check, subject, message, evidence, remedy, is_predicate=is_part)
