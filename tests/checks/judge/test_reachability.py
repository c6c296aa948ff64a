"""From pairs to a culprit: a host, a link, the fabric, or nobody; and never health from silence."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.judge.reachability import PAIRS, REACHABILITY, judge
from checks.judge.rules.wording import spoken
from checks.model import CLUSTER, EVIDENCE_BYTES, Action, Cause, Finding, Level, Observation, Report, Value
from checks.policy import CheckPolicy, Policy
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric

FAST, SLOW = 4.0, 0.01


def _report(nodes: int, slow: Iterable[tuple[int, int]] = (), down: Iterable[tuple[int, int]] = ()) -> Report:
    """A healthy report but for these directed pairs of nodes."""
    report, slow, down = healthy(nodes, 1), set(slow), set(down)
    rows = [
        _row(row, slow, down) if row.check in (PAIRS, REACHABILITY) else row for row in report.observations
    ]
    return replace(report, observations=tuple(rows))


def _row(row: Observation, slow: set[tuple[int, int]], down: set[tuple[int, int]]) -> Observation:
    me, peers = int(row.subject.removeprefix("node-")), row.metrics["peers"]
    assert isinstance(peers, tuple)
    others = [int(str(peer).removeprefix("node-")) for peer in peers]
    if row.check == PAIRS:
        speeds = tuple(SLOW if (me, other) in slow else FAST for other in others)
        return replace(row, metrics={**row.metrics, "bandwidth_gbps": speeds})
    failures = tuple("timed out" if (me, other) in down else "ok" for other in others)
    return replace(row, metrics={**row.metrics, "failures": failures})


def _findings(report: Report, policy: Policy = POLICY) -> list[Finding]:
    rows = {check: [r for r in report.observations if r.check == check] for check in (PAIRS, REACHABILITY)}
    return list(judge(report, rows, policy))


def _blamed(report: Report) -> set[tuple[str, str]]:
    return {(finding.check, finding.subject) for finding in _findings(report)}


def _of(host: int, nodes: int) -> set[tuple[int, int]]:
    return {pair for other in range(nodes) if other != host for pair in ((host, other), (other, host))}


@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
def test_a_healthy_network_blames_nobody(nodes: int) -> None:
    """All fast, all reached."""
    assert set() == _blamed(_report(nodes))


@given(st.integers(3, 9), st.integers(0, 8))
def test_a_slow_or_unreachable_host_is_named_alone_among_three_or_more(nodes: int, host: int) -> None:
    """From three hosts on, its peers are acquitted."""
    host %= nodes
    pairs = _of(host, nodes)

    assert {(PAIRS, f"node-{host}")} == _blamed(_report(nodes, slow=pairs))
    assert {(REACHABILITY, f"node-{host}")} == _blamed(_report(nodes, down=pairs))


@given(st.integers(3, 9), st.integers(0, 8), st.booleans())
def test_a_host_that_is_bad_in_one_direction_is_named_alone(nodes: int, host: int, sends: bool) -> None:
    """Its peers are innocent. What nobody can reach while it reaches all is filtered, not broken."""
    host %= nodes
    cells = {cell for cell in _of(host, nodes) if (cell[0] == host) == sends}
    (slow,), (unreached,) = _findings(_report(nodes, slow=cells)), _findings(_report(nodes, down=cells))

    assert (f"node-{host}", Cause.HARDWARE) == (slow.subject, slow.cause)
    assert (f"node-{host}", Cause.CONFIGURATION) == (unreached.subject, unreached.cause)
    assert slow.message.startswith(f"is slow {'towards' if sends else 'from'} every peer")
    assert unreached.message.startswith(f"has no connections {'towards' if sends else 'from'} its peers")


@pytest.mark.parametrize(
    ("how", "action"), [({"slow": _of(3, 8)}, Action.INSPECT), ({"down": _of(3, 8)}, Action.NONE)]
)
def test_only_a_part_that_failed_is_to_be_inspected(
    how: dict[str, set[tuple[int, int]]], action: Action
) -> None:
    """No rule says what to do with a host that is slow to all; of one that nobody reaches nothing was measured."""
    findings = verdict_of(_report(8, **how)).findings

    assert {action} == {finding.action for finding in findings}
    assert {action is Action.INSPECT} == {finding.cause is Cause.HARDWARE for finding in findings}


def test_link_is_named_between_two_hosts_and_neither_is_condemned() -> None:
    """Either end may be the cause, so neither is condemned."""
    slow, down = _report(2, slow=_of(0, 2)), _report(2, down=_of(0, 2))

    assert {(PAIRS, "node-0<->node-1")} == _blamed(slow)
    assert {(REACHABILITY, "node-0<->node-1")} == _blamed(down)
    assert ((), ()) == (verdict_of(slow).condemned, verdict_of(down).condemned)


@pytest.mark.parametrize(
    ("nodes", "answering", "blamed"),
    [
        (4, {(0, 1)}, (CLUSTER, Cause.CONFIGURATION)),
        (2, {(0, 1)}, ("node-0<->node-1", Cause.CONFIGURATION)),
        (2, set(), ("node-0<->node-1", Cause.HARDWARE)),
    ],
)
def test_reachability_in_one_direction_is_no_broken_cable(
    nodes: int, answering: set[tuple[int, int]], blamed: tuple[str, Cause]
) -> None:
    """A filter, also one between nearly all hosts, condemns none; a link that is down both ways is hardware."""
    down = {(a, b) for a in range(nodes) for b in range(nodes) if a != b} - answering
    found = [one for one in _findings(_report(nodes, down=down)) if one.check == REACHABILITY]

    assert [blamed] == [(one.subject, one.cause) for one in found]


def test_slow_link_and_slow_host_with_one_good_pair_are_named() -> None:
    """In either direction; eight of ten cells bad are enough for a host."""
    assert {(PAIRS, "node-1<->node-2")} == _blamed(_report(6, slow=[(2, 1)]))
    assert {(PAIRS, "node-1<->node-2")} == _blamed(_report(6, slow=[(1, 2), (2, 1)]))
    assert {(PAIRS, "node-3")} == _blamed(_report(8, slow=_of(3, 8) - {(3, 0), (0, 3)}))


def test_when_nearly_everything_is_slow_the_fabric_is_to_blame() -> None:
    """More hosts than the policy allows: configuration, and nobody is condemned."""
    (found,) = _findings(_report(8, slow=_of(0, 8) | _of(1, 8) | _of(2, 8)))

    assert (CLUSTER, Cause.CONFIGURATION) == (found.subject, found.cause)


@pytest.mark.parametrize("check", [PAIRS, REACHABILITY])
@pytest.mark.parametrize(
    "peers",
    [
        pytest.param((), id="none"),
        pytest.param(("node-1", "node-2"), id="one left out"),
        pytest.param(("node-1", "node-2", "node-2"), id="one twice"),
        pytest.param(("node-1", "node-2", "ghost"), id="a stranger instead"),
        pytest.param(("node-0", "node-1", "node-2"), id="itself instead"),
    ],
)
def test_a_peer_of_whom_nothing_is_said_is_not_healthy(check: str, peers: tuple[str, ...]) -> None:
    """A row has to speak of each of its peers once."""
    findings = _findings(with_metric(healthy(4, 1), check, "node-0", "peers", peers))

    assert (check, "node-0", Cause.EVIDENCE) in {(f.check, f.subject, f.cause) for f in findings}


@pytest.mark.parametrize(
    ("check", "metric"), [(PAIRS, "bandwidth_gbps"), (PAIRS, "latency_us"), (REACHABILITY, "failures")]
)
def test_lists_that_are_too_short_leave_peers_out(check: str, metric: str) -> None:
    """Nothing is made of what is missing at the end."""
    value: Value = ("ok", "ok") if metric == "failures" else (FAST, FAST)

    assert _findings(with_metric(healthy(4, 1), check, "node-0", metric, value))


def test_a_pair_without_a_number_is_missing_evidence() -> None:
    """A null is no speed."""
    report = with_metric(healthy(4, 1), PAIRS, "node-0", "bandwidth_gbps", (FAST, None, FAST))
    (found,) = _findings(report)

    assert ("node-0<->node-2", Level.FAIL, Cause.EVIDENCE) == (found.subject, found.level, found.cause)


def test_no_floor_and_too_few_pairs_hold_nothing_and_say_so() -> None:
    """Two hosts at zero bandwidth are not well because nobody set a line."""
    policy = replace(POLICY, checks={**POLICY.checks, PAIRS: CheckPolicy(min_nodes=2)})
    report = _report(2)
    for node in ("node-0", "node-1"):
        report = with_metric(report, PAIRS, node, "bandwidth_gbps", (0.0,))

    assert [(Level.WARN, Cause.EVIDENCE)] == [(f.level, f.cause) for f in _findings(report, policy)]


def test_a_closed_rendezvous_port_is_configuration() -> None:
    """The first node is reached, that one port is not."""
    report = with_metric(healthy(3, 1), REACHABILITY, "node-2", "rendezvous", "timed out")

    (found,) = _findings(report)

    assert ("node-2", Cause.CONFIGURATION) == (found.subject, found.cause)
    assert "reaches node-0, but not its rendezvous port: timed out" == found.message


def test_a_refused_connection_condemns_nobody() -> None:
    """The host is there and answers; its responder is not: evidence is missing."""
    report = healthy(3, 1)
    for node in ("node-1", "node-2"):
        report = with_metric(report, REACHABILITY, node, "failures", ("refused", "ok"))
        report = with_metric(report, REACHABILITY, node, "refused", (1, 0))

    assert {(Cause.EVIDENCE, "node-0")} == {(f.cause, f.subject) for f in _findings(report)}


def test_a_peer_that_never_reported_is_missing_not_cut_off() -> None:
    """Nothing says that its network is at fault."""
    report = _report(4, down={(a, 3) for a in range(3)})
    rows = tuple(row for row in report.observations if row.subject.partition("/")[0] != "node-3")
    gone = replace(report, nodes=report.nodes[:3], observations=rows)
    verdict = verdict_of(gone)

    assert () == verdict.condemned
    assert {Cause.EVIDENCE} == {finding.cause for finding in verdict.findings}


@pytest.mark.parametrize("left", ["a row but no node", "a node but no row", "neither"])
def test_a_peer_that_nobody_reaches_is_named_whatever_it_left(left: str) -> None:
    """A host whose measurements came, and whose own account did not, is missing as one is that left nothing."""
    report = _report(4, down={(a, 3) for a in range(3)})
    nodes = report.nodes if left == "a node but no row" else report.nodes[:3]
    rows = tuple(row for row in report.observations if left == "a row but no node" or row.subject != "node-3")
    found = _findings(replace(report, nodes=nodes, observations=rows))
    reached = [(one.cause, one.subject) for one in found if one.check == REACHABILITY]

    assert (Cause.EVIDENCE, "node-3") in reached
    assert {"node-3"} == {subject for _, subject in reached}
    assert all(spoken(one).startswith("node-3 did not answer") for one in found if one.check == REACHABILITY)


def test_hostile_rows_do_not_crash() -> None:
    """Any type in any list."""
    report = healthy(3, 1)
    values: tuple[Value, ...] = ("text", 1, True, (1.0, 2.0), ("<b>", "\x1b[31m"), (None, 1e300))
    for check in (PAIRS, REACHABILITY):
        for metric in next(row for row in report.observations if row.check == check).metrics:
            for value in values:
                _findings(with_metric(report, check, "node-0", metric, value))


@pytest.mark.parametrize("how", ["slow", "down"])
def test_thousands_of_bad_links_are_one_finding_and_take_no_minutes(how: str) -> None:
    """Blame is linear in pairs: it once looked at every bad one for every other one."""
    # A fifth of all pairs, spread so that no host has more than its share.
    many = {(a, b) for a in range(120) for b in range(120) if a != b and (a + b) % 5 == 0}
    report = _report(120, **{how: many})
    begun = time.process_time()

    (found,) = [f for f in _findings(report) if f.level is Level.FAIL]

    assert time.process_time() - begun < 1.0
    assert (CLUSTER, Cause.CONFIGURATION) == (found.subject, found.cause)
    assert "no single node explains it" in found.message and len(found.evidence.encode()) <= EVIDENCE_BYTES


def test_a_speed_that_is_a_truth_value_is_no_speed() -> None:
    """JSON's true is no bandwidth of 1 GB/s."""
    report = with_metric(healthy(2), PAIRS, "node-0", "bandwidth_gbps", (True,))

    assert any(f.message == "gave no bandwidth when node-0 measured it" for f in _findings(report))
