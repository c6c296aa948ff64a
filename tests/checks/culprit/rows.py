"""Rows of a tournament between ranks that were never there: constructed, for tests of judges and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from checks.culprit.rounds import planned
from checks.culprit.test_rows import METRICS, TCP_METRICS
from checks.facts import profile_options
from checks.judge.culprits.from_report import COLLECTIVE
from checks.model import Node, Observation, Outcome, Planned, Profile, Report, Scope, Value, rank_subject
from checks.model_details import PairOutcome

FAST = 2.0
AGAIN = 3
# What a test of three messages of 1 MiB sends, measured.
SEGMENTS = 2300
# (source rank, target rank) -> metrics that differ from a healthy test's
Change = Callable[[int, int], Mapping[str, float | int | str | None]]
# The beginnings of the failures of these tests. PEER_LEFT also needs the end of the text.
STARTS: Mapping[str, PairOutcome] = {
    "not run": PairOutcome.NOT_RUN,
    "not tried": PairOutcome.NOT_RUN,
    "no answer": PairOutcome.NO_ANSWER,
    "connection closed": PairOutcome.CLOSED,
}
EVERY = (*METRICS, *TCP_METRICS)


def healthy_test(one: int, other: int, fast: float = FAST) -> dict[str, float | int | str | None]:
    """A test of a good link; the values differ a little from pair to pair."""
    off = 1.0 + ((one * 7 + other * 13) % 11 - 5) / 100
    return {
        "failures": "ok", "bandwidth_gbps": fast * off, "message_bytes": 1 << 20, "latency_us": 50.0 * off, "slowest_us": 400.0 * off,
        "wrong_elements": 0, "retransmits": 0, "data_segments": SEGMENTS, "needless_retransmits": 0,
    }  # fmt: skip


def results_of(failures: Value) -> tuple[str, ...]:
    """How the tests ended, as the field says it."""
    assert isinstance(failures, tuple)
    return tuple(_outcome_of(str(failure)).value for failure in failures)


def _outcome_of(failure: str) -> PairOutcome:
    if failure == "ok":
        return PairOutcome.OK
    if failure.startswith("not run: rank") and failure.endswith("left the tournament"):
        return PairOutcome.PEER_LEFT
    return next(
        (outcome for start, outcome in STARTS.items() if failure.startswith(start)), PairOutcome.FAILED
    )


def row(
    rank: int,
    nodes: int,
    per: int,
    change: Change,
    name: str = COLLECTIVE,
    profile: Profile = Profile.QUICK,
    fast: float = FAST,
) -> Observation:
    """One rank's row of all pairs that the profile plans; what a change says something of was measured thrice more."""
    options = profile_options.options(name, profile, {})
    plan = planned(nodes, per, int(options["all_pairs_nodes"]), int(options["matchings"]))
    peers = tuple(peer for one in plan if (peer := one.partner(rank)) is not None)
    peers += tuple(peer for peer in peers if change(rank, peer)) * AGAIN
    tests = [{**healthy_test(rank, peer, fast), **change(rank, peer)} for peer in peers]
    columns: dict[str, Value] = {
        key: tuple(test[key] for test in tests)  # type: ignore[misc]
        for key in healthy_test(rank, rank)
    }
    columns["results"] = results_of(columns["failures"])
    # Retests come after the planned rounds, each in a round of its own.
    rounds = [at for at, one in enumerate(plan) if one.partner(rank) is not None]
    rounds += range(len(plan), len(plan) + len(peers) - len(rounds))
    columns["in_round"] = tuple(rounds)
    columns["began_s"] = tuple(0.1 * at if at < len(plan) else 0.1 * at + 2.0 for at in rounds)
    metrics: dict[str, Value] = {"peers": peers, **columns, "rounds": len(plan), "rounds_left_out": 0}
    return Observation(name, rank_subject(f"node-{rank // per}", rank), Outcome.MEASURED, 1.0, metrics)


def tournament(
    nodes: int, per: int, change: Change = lambda one, other: {}, name: str = COLLECTIVE
) -> Report:
    """A report of nothing but a tournament."""
    # What plays a node imports this file, and has no use for the rest.
    from tests.sample_reports import healthy

    base = healthy(nodes, per)
    rows = tuple(row(rank, nodes, per, change, name) for rank in range(nodes * per))
    found = tuple(Node(f"node-{n}", n, base.attempt, base.catalogue, True, {}) for n in range(nodes))
    plan = (Planned(name, Scope.RANK, EVERY),)
    return replace(base, observations=rows, nodes=found, plan=plan, profile=Profile.QUICK)


def slow_ranks(*ranks: int, to: float = 0.1) -> Change:
    """Whatever these ranks take part in is slow."""
    return lambda one, other: {"bandwidth_gbps": FAST * to} if {one, other} & set(ranks) else {}


def slow_link(*ends: int, to: float = 0.1) -> Change:
    """Both ways between these two."""
    return lambda one, other: {"bandwidth_gbps": FAST * to} if {one, other} == set(ends) else {}
