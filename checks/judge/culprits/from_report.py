"""The rows of collective.pairs and nccl.pairs as matrices. Pure.

A row is one rank's, with one entry per test in which it took part. A test with a rank that has no row of its own is in no matrix:
that rank is silent, which is a matter of evidence and says nothing about a link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import compress, pairwise
from operator import itemgetter

from checks.culprit.matrix import Better, Endpoint, Matrix, Span
from checks.culprit.test_rows import FINE, NOTHING_LOST, TCP_METRICS, lost_percent
from checks.judge.reachability import list_of
from checks.judge.rules import prefilter
from checks.model import Observation, Report, node_of
from checks.model_details import PairOutcome
from checks.policy import RANKS_IN_PAIRS

COLLECTIVE, NCCL = CHECKS = RANKS_IN_PAIRS
NUMBERS = ("bandwidth_gbps", "latency_us", "slowest_us", "wrong_elements")  # the numbers of a test that is ok

Meeting = tuple[int, object, int]


class MatrixSubject(str, Enum):
    """What the values of a matrix are, the most serious first: what an earlier matrix explains is not reported again for a later one.
    The words are shown to people.
    """

    DATA = "correct data"
    BANDWIDTH = "bandwidth"
    PAUSE = "slowest answer"
    LOST = "segments lost"
    RESENT = "segments sent again"
    LATENCY = "latency"


ORDER = tuple(MatrixSubject)
COLUMNS: Mapping[MatrixSubject, tuple[str, str, Better]] = {
    MatrixSubject.DATA: ("wrong_elements", "", Better.HIGHER),
    MatrixSubject.BANDWIDTH: ("bandwidth_gbps", "GB/s", Better.HIGHER),
    MatrixSubject.PAUSE: ("slowest_us", "us", Better.LOWER),
    MatrixSubject.LOST: ("retransmits", "%", Better.LOWER),
    MatrixSubject.RESENT: ("retransmits", "segments + 1", Better.LOWER),
    MatrixSubject.LATENCY: ("latency_us", "us", Better.LOWER),
}


NEVER_RAN = tuple(outcome for outcome in PairOutcome if outcome.never_ran)
SILENCE = tuple(outcome for outcome in PairOutcome if outcome.is_silence)
# What a message can take: from a nanosecond, in which light travels 0.3 m, to a day.
LEAST_US, MOST_US = 1e-3, 86_400e6
# From one element to more than any host has memory.
LEAST_BYTES, MOST_BYTES = 4, 1 << 40
# What other work on the hosts' CPUs may cause. Such work changes no data, and drops no segments.
SLOWED = (MatrixSubject.BANDWIDTH, MatrixSubject.PAUSE, MatrixSubject.LATENCY)
# Judgement: a test that waited for a CPU for half of its time takes twice as long because of that.
WAITED = 0.5
# More rounds than any sweep has: a larger number is damaged.
MOST_ROUNDS = 1 << 20


@dataclass(frozen=True)
class PairTable:
    """The tests of all ranks that have a row, by columns.

    `parts` are those ranks; `mine` and `peers` are indices into them; `left_out` is the number of rounds for which each had no time.
    `excused` are the tests that waited for a CPU.
    `silent` maps a global rank without a row to the ranks that waited for it and the reason that they gave. `faults` maps a subject
    to what is wrong with its lists. `rounds` and `moments` say when each test was made, `sizes` the bytes of the message that gave its
    bandwidth.
    """

    endpoints: tuple[Endpoint, ...]
    ranks: tuple[int, ...]
    mine: list[int] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    outcomes: list[PairOutcome] = field(default_factory=list)
    columns: dict[MatrixSubject, list[object]] = field(default_factory=dict)
    silent: dict[int, list[str]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    left_out: list[int] = field(default_factory=list)
    rounds: list[object] = field(default_factory=list)
    moments: list[object] = field(default_factory=list)
    sizes: list[object] = field(default_factory=list)
    waits: list[object] = field(default_factory=list)
    excused: frozenset[int] = frozenset()


def rank_of(subject: str) -> int | None:
    """The global rank of "node-0/rank-3"."""
    digits = subject.rpartition("/rank-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def table(
    report: Report, records: Sequence[Observation], switches: Mapping[str, tuple[str, ...]]
) -> PairTable:
    """The tests of the rows. A row whose lists do not match is left out and named in `faults`."""
    fit: dict[int, Observation] = {}
    outcomes: dict[int, Sequence[PairOutcome]] = {}
    faults: dict[str, str] = {}
    for record in records:
        ended = _outcomes(record)
        rank, fault = rank_of(record.subject), _fault(record, ended, report.declared.ranks)
        if fault or rank is None:
            faults[record.subject] = fault or "its subject is not a rank"
        else:
            fit[rank], outcomes[rank] = record, ended
    ranks = tuple(sorted(fit))
    is_alone, per = report.declared.ranks_per_node == 1, report.declared.ranks_per_node
    endpoints = tuple(_endpoint(fit[rank].subject, rank, per, is_alone, switches) for rank in ranks)
    tests = PairTable(endpoints, ranks, columns={metric: [] for metric in MatrixSubject}, faults=faults)
    positions = {rank: index for index, rank in enumerate(ranks)}
    never = {meeting for rank in ranks for meeting in _meetings(fit[rank], rank, outcomes[rank], NEVER_RAN)}
    for rank in ranks:
        _add(tests, fit[rank], outcomes[rank], positions[rank], positions, never)
        left = fit[rank].metrics.get("rounds_left_out")
        tests.left_out.append(left if type(left) is int else 0)
    return replace(tests, excused=_excused(tests))


def _excused(tests: PairTable) -> frozenset[int]:
    """The tests that are ok and of which an end waited for a CPU for WAITED of the time, where the same two were also measured
    without that.
    """
    waits = {
        (end, at)
        for end, at, wait in zip(tests.mine, tests.rounds, tests.waits, strict=True)
        if isinstance(wait, float) and wait >= WAITED
    }
    if not waits:
        return frozenset()
    ends = [*zip(tests.mine, tests.peers, strict=True)]
    fine = [k for k, outcome in enumerate(tests.outcomes) if outcome is PairOutcome.OK]
    late = {k for k in fine if any((end, tests.rounds[k]) in waits for end in ends[k])}
    calm = {ends[k] for k in fine if k not in late}
    return frozenset(k for k in late if ends[k] in calm)


def _endpoint(
    subject: str, rank: int, per: int, is_alone: bool, switches: Mapping[str, tuple[str, ...]]
) -> Endpoint:
    node = node_of(subject)
    return Endpoint(node if is_alone else subject, node, rank % per, switches.get(node, ()))


def _outcomes(record: Observation) -> Sequence[PairOutcome]:
    """How each test ended; () if a result is none of PairOutcome."""
    results = record.metrics.get("results")
    by_value = {outcome.value: outcome for outcome in PairOutcome}
    if not isinstance(results, tuple) or not by_value.keys() >= set(results):
        return ()
    return tuple(by_value[str(result)] for result in results)


def _fault(record: Observation, outcomes: Sequence[PairOutcome], ranks: int) -> str:
    peers, failures = record.metrics.get("peers"), record.metrics.get("failures")
    if not isinstance(peers, tuple) or not isinstance(failures, tuple):
        return "it has no list of peers"
    numbers = [record.metrics.get(column) for column in NUMBERS]
    resent = record.metrics.get(COLUMNS[MatrixSubject.RESENT][0], failures)
    if any(
        not isinstance(values, tuple) or len(values) != len(peers) for values in (failures, resent, *numbers)
    ):
        return "its lists do not have one entry per test"
    if len(outcomes) != len(peers):
        return "its list of results does not say of each test how it ended"
    fine = [outcome is PairOutcome.OK for outcome in outcomes]
    if fine != [failure == FINE.message for failure in failures]:
        return "its results and its failures contradict each other"
    if any(None in compress(values, fine) for values in numbers if isinstance(values, tuple)):
        return "a test with result ok lacks a number"
    for metric in (MatrixSubject.LATENCY, MatrixSubject.PAUSE):
        column = COLUMNS[metric][0]
        extent = prefilter.span([*compress(list_of(record, column), fine)])
        if any(fine) and not (extent and LEAST_US <= extent[0] and extent[1] <= MOST_US):
            return f"{column} of a test with result ok is an impossible time"
    if any(type(peer) is not int or not 0 <= peer < ranks for peer in peers):
        return "a peer is not a rank of this job"
    return "" if rank_of(record.subject) not in peers else "it lists itself as a peer"


def _meetings(
    record: Observation, rank: int, outcomes: Sequence[PairOutcome], wanted: Collection[PairOutcome]
) -> Mapping[Meeting, int]:
    """The tests that ended in such a way, as (this rank, the peer, how many tests of the two came before), with their entry."""
    peers = list_of(record, "peers")
    if not any(outcome in outcomes for outcome in wanted):
        return {}
    times: Counter[object] = Counter()
    meetings: dict[Meeting, int] = {}
    for entry, peer in enumerate(peers):
        if outcomes[entry] in wanted:
            meetings[rank, peer, times[peer]] = entry
        times[peer] += 1
    return meetings


def _add(
    tests: PairTable,
    record: Observation,
    outcomes: Sequence[PairOutcome],
    mine: int,
    positions: Mapping[int, int],
    never: Collection[Meeting],
) -> None:
    """Adds a test. If a rank got no answer from a peer that says itself that it did not come to this test, nothing was measured."""
    peers, failures, rank = list_of(record, "peers"), list_of(record, "failures"), tests.ranks[mine]
    vain = {
        entry
        for (_, peer, time), entry in (_meetings(record, rank, outcomes, SILENCE).items() if never else ())
        if (peer, rank, time) in never
    }
    others = [positions.get(peer) for peer in peers if type(peer) is int]
    for peer, other, failure in zip(peers, others, failures, strict=True) if None in others else ():
        if type(peer) is int and other is None:
            tests.silent.setdefault(peer, []).append(f"{record.subject}: {failure}")
    is_valid = [
        other is not None and entry not in vain and outcomes[entry] not in NEVER_RAN
        for entry, other in enumerate(others)
    ]
    count = sum(is_valid)
    tests.mine.extend([mine] * count)
    tests.peers.extend(other for other in compress(others, is_valid) if other is not None)
    tests.failures.extend(map(str, compress(failures, is_valid)))
    tests.outcomes.extend(compress(outcomes, is_valid))
    lists = {metric: list_of(record, column) for metric, (column, _, _) in COLUMNS.items()}
    lists[MatrixSubject.LOST] = _losses(record)
    columns = (
        ("in_round", tests.rounds),
        ("began_s", tests.moments),
        ("message_bytes", tests.sizes),
        ("cpu_wait", tests.waits),
    )
    series = [(values, tests.columns[metric]) for metric, values in lists.items()]
    for values, column in (*series, *((list_of(record, name), column) for name, column in columns)):
        column.extend(compress(values, is_valid) if len(values) == len(peers) else [None] * count)
    rates, wrong = tests.columns[MatrixSubject.BANDWIDTH], tests.columns[MatrixSubject.DATA]
    for test in range(len(rates) - count, len(rates)):
        # The test broke off, so its rate does not count.
        if tests.outcomes[test] is not PairOutcome.OK and wrong[test] in (0, None):
            rates[test] = None


def _losses(record: Observation) -> tuple[float | None, ...]:
    """The percentage of lost segments of each test; () if the row does not have the counters."""
    counters = [list_of(record, name) for name in TCP_METRICS]
    if any(len(counter) != len(list_of(record, "peers")) for counter in counters):
        return ()
    return tuple(lost_percent(*values) for values in zip(*counters, strict=True))


def matrices(tests: PairTable) -> dict[tuple[MatrixSubject, Span], Matrix]:
    """The matrices that have a test. The matrix of bandwidths has every test that is not excused, None for those that failed; the
    others have the tests with a number. Segments that were sent again count only where it is unknown whether they had been lost.
    """
    nodes = [endpoint.node for endpoint in tests.endpoints]
    result: dict[tuple[MatrixSubject, Span], Matrix] = {}
    inside = [nodes[a] == nodes[b] for a, b in zip(tests.mine, tests.peers, strict=True)]
    every = {span: [k for k, within in enumerate(inside) if within is (span is Span.INSIDE)] for span in Span}
    timed = {span: _timed(tests, entries) for span, entries in every.items()}
    for metric, (_, unit, better) in COLUMNS.items():
        column, lost = tests.columns[metric], tests.columns[MatrixSubject.LOST]
        for span, entries in every.items():
            if metric is MatrixSubject.RESENT:
                entries = [k for k in entries if lost[k] is None]
            if metric is not MatrixSubject.BANDWIDTH:
                entries = [k for k in entries if column[k] is not None]
            if metric in SLOWED and tests.excused:
                entries = [k for k in entries if k not in tests.excused]
            if not entries:
                continue
            # Most metrics have a value of each test, so that their matrices share the lists.
            is_whole = len(entries) == len(every[span])
            mine, peers, rounds, moments = timed[span] if is_whole else _timed(tests, entries)
            if metric is MatrixSubject.DATA:  # the wrong data came from the peer, and is wrong at any time
                mine, peers = peers, mine
                rounds, moments = [], []
            sizes = [_size(tests.sizes[k]) for k in entries] if metric is MatrixSubject.BANDWIDTH else []
            ends, values = (tests.endpoints, mine, peers), _values(metric, [column[k] for k in entries])
            result[metric, span] = Matrix(
                metric.value, unit, better, span, *ends, values, rounds, moments, sizes
            )
    return result


def _size(value: object) -> int | None:
    """The bytes of a message, None if it is no size that a message can have."""
    return value if type(value) is int and LEAST_BYTES <= value <= MOST_BYTES else None


def _timed(tests: PairTable, entries: list[int]) -> tuple[list[int], list[int], list[int], list[float]]:
    """The two ends of these tests, their rounds and their moments; the last two are empty if not all of them are known, the moments
    also if they contradict the rounds.
    """
    mine, peers = [tests.mine[k] for k in entries], [tests.peers[k] for k in entries]
    rounds = [value for k in entries if type(value := tests.rounds[k]) is int and 0 <= value < MOST_ROUNDS]
    moments = [
        float(value) for k in entries if isinstance(value := tests.moments[k], (int, float)) and value >= 0
    ]
    if not len(rounds) == len(moments) == len(entries):
        return mine, peers, [], []
    return mine, peers, rounds, moments if _agree(mine, rounds, moments) else []


def _agree(mine: Sequence[int], rounds: Sequence[int], moments: Sequence[float]) -> bool:
    """Whether each rank's moments grow with its rounds, and are not the same in all of them: a clock that stands or goes back cannot
    tell when something was bad.
    """
    of_rank: dict[int, list[tuple[int, float]]] = {}
    for rank, at, moment in zip(mine, rounds, moments, strict=True):
        of_rank.setdefault(rank, []).append((at, moment))
    for points in of_rank.values():
        points.sort(key=itemgetter(0))
        if points[0][0] < points[-1][0] and points[0][1] == points[-1][1]:
            return False
        if any(later[1] < before[1] and before[0] < later[0] for before, later in pairwise(points)):
            return False
    return True


def _values(metric: MatrixSubject, column: Sequence[object]) -> list[float | None]:
    """What the tests gave; None for what is no such number."""
    values = [float(value) if type(value) in (int, float) and 0 <= value < 1e15 else None for value in column]  # type: ignore[arg-type,operator]
    if metric is MatrixSubject.DATA:
        return [1.0 if value == 0 else None for value in values]
    if metric is MatrixSubject.RESENT:  # so that there can be a ratio to none
        return [None if value is None else value + 1.0 for value in values]
    if metric is MatrixSubject.LOST:
        return [None if value is None else max(NOTHING_LOST, value) for value in values]
    return [value or None for value in values] if 0.0 in values else values  # zero was not measured
