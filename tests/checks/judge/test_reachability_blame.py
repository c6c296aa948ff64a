"""Whom reachability blames when much is down, or one way only."""

from __future__ import annotations

from checks.judge.reachability import judge_reachability
from checks.model import CLUSTER, Cause, Finding, Observation, Outcome, Value

HOSTS = ("a", "b", "c", "d")


def judged(hosts: tuple[str, ...], up: set[tuple[str, str]]) -> list[Finding]:
    """The findings where only these directed pairs answer; all others time out."""
    rows = []
    for host in hosts:
        peers = tuple(peer for peer in hosts if peer != host)
        failures = tuple("ok" if (host, peer) in up else "timed out" for peer in peers)
        metrics: dict[str, Value] = {"peers": peers, "failures": failures, "rendezvous": "ok"}
        rows.append(Observation("network.reachability", host, Outcome.MEASURED, 0.1, metrics))
    return list(judge_reachability(rows, set(hosts), ""))


def test_a_filter_between_nearly_all_hosts_condemns_none() -> None:
    """Several hosts cut off at once are the network's fault, not theirs."""
    found = judged(HOSTS, {("a", "b")})

    assert [(CLUSTER, Cause.CONFIGURATION)] == [(f.subject, f.cause) for f in found]


def test_a_link_that_works_one_way_is_no_broken_cable() -> None:
    """What answers in one direction is filtered in the other, or came late."""
    found = judged(("a", "b"), {("a", "b")})

    assert [("a<->b", Cause.CONFIGURATION)] == [(f.subject, f.cause) for f in found]


def test_a_link_that_is_down_both_ways_is_hardware() -> None:
    """Both hosts run and neither reaches the other."""
    found = judged(("a", "b"), set())

    assert [("a<->b", Cause.HARDWARE)] == [(f.subject, f.cause) for f in found]
