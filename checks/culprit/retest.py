"""Chooses the pairs to measure again from what all ranks measured. Pure.

Nothing is judged here: a pair that is measured again because of noise only costs a round. The policy decides later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from checks.culprit.decode import decode
from checks.culprit.matrix import Better, Decoded, Endpoint, Matrix, MatrixAnswer, Span, Tolerance, tallied
from checks.culprit.rounds import Pair
from checks.culprit.test_rows import NOTHING_LOST, Trial, lost_percent, short
from checks.model_details import PairOutcome

# Judgement: a value below half of the usual one is measured again.
RATIO = 0.5
# Linux waits at least 200 ms before it sends a lost segment again (TCP_RTO_MIN in include/net/tcp.h); half of it is what one
# way of such a round trip shows.
PAUSE_US = 90_000.0
# With segments of 1,448 bytes and round trips of 0.1 ms TCP carries at most 4.5 Gbit/s if it loses one segment in a thousand (Mathis
# and others, The macroscopic behavior of the TCP congestion avoidance algorithm, 1997: 1.22 segments / round trip / root of the loss).
LOST_SHARE = 0.001
# If a larger share of the nodes looks bad, the reason is the fabric or a busy host, and more tests would not tell these apart.
SUSPECT_SHARE, LEAST_SUSPECTS = 0.25, 4
GOOD_PARTNERS = 3
OUTCOMES = {outcome.value: outcome for outcome in PairOutcome}
NEVER_RAN = frozenset(outcome for outcome in PairOutcome if outcome.never_ran)
SILENCE = frozenset(outcome for outcome in PairOutcome if outcome.is_silence)
# With this ratio to the usual value, only the floor decides what is bad.
ONLY_THE_FLOOR = 1e-9


@dataclass(frozen=True)
class Bounds:
    """The thresholds of the policy: `ratio` of the usual bandwidth, floors in 10^9 bytes/s (0: none), and the share of TCP segments
    that a test may lose.
    """

    ratio: float = RATIO
    floor_gbps: float = 0.0
    floor_inside_gbps: float = 0.0
    lost_share: float = LOST_SHARE

    def tolerance(self, span: Span) -> Tolerance:
        """The thresholds for the pairs inside nodes, or for those between nodes."""
        floor = self.floor_inside_gbps if span is Span.INSIDE else self.floor_gbps
        return Tolerance(self.ratio, floor or None)

    @property
    def lost(self) -> Tolerance:
        """The thresholds for lost segments, in percent."""
        return Tolerance(ONLY_THE_FLOOR, 100 * self.lost_share, paths=False)


class RetestEntry(NamedTuple):
    """One test, as the other ranks need to know it. A large cluster has millions, which a dataclass takes longer to make."""

    source: int
    target: int
    bandwidth_gbps: float | None
    slowest_us: float | None
    outcome: PairOutcome
    in_round: int = 0
    began_s: float = 0.0
    lost_percent: float | None = None


@dataclass(frozen=True)
class Note:
    """What a rank tells the others: whether it can run more tests, whether an exchange that hangs blocks its communicator, its
    tests, and the ranks that did not answer it.
    """

    able: bool
    hung: bool
    tests: tuple[RetestEntry, ...]
    silent: tuple[int, ...]


def write(tests: Sequence[Trial], able: bool, hung: bool = False) -> str:
    """A rank's note as text."""
    records = []
    for t in tests:
        lost = lost_percent(t.retransmits, t.data_segments, t.needless_retransmits)
        numbers = (t.peer, short(t.bandwidth_gbps), short(t.slowest_us), t.ending.outcome.value)
        records.append([*numbers, t.in_round, round(t.began_s, 3), lost])
    return json.dumps([able, hung, records])


def read(rank: int, text: str) -> Note:
    """The note of a rank, without tests that never ran, because these say nothing about the pair."""
    able, hung, tests = json.loads(text)
    ran = tuple(
        RetestEntry(rank, peer, rate, slow, outcome, in_round, began_s, lost)
        for peer, rate, slow, value, in_round, began_s, lost in tests
        if (outcome := OUTCOMES[value]) not in NEVER_RAN
    )
    return Note(able, hung, ran, tuple({test.target for test in ran if test.outcome in SILENCE}))


def testable(notes: Mapping[int, Note], pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """The pairs of which both ends wrote in their notes that they can run more tests, each pair once."""
    able = {rank for rank, note in notes.items() if note.able}
    return tuple(dict.fromkeys((min(p), max(p)) for p in pairs if able.issuperset(p)))


def silent(notes: Mapping[int, Note], rank: int) -> bool:
    """Whether two ranks say that this one gave no answer: then its note is not waited for."""
    return sum(rank in note.silent for note in notes.values()) > 1


def gone(notes: Mapping[int, Note], ranks: int) -> tuple[int, ...]:
    """The ranks without which no collective of all ranks can complete: they hang, or fell silent and left no note."""
    silent_to_some = {rank for note in notes.values() for rank in note.silent}
    return tuple(r for r in range(ranks) if (notes[r].hung if r in notes else r in silent_to_some))


def suspects(
    tests: Sequence[RetestEntry], nodes: int, ranks_per_node: int, bounds: Bounds = Bounds()
) -> tuple[Pair, ...]:
    """Pairs of the nodes with bad tests: with each other, and with a few nodes that have none, on all rails.

    The nodes with the largest share of bad tests come first, a quarter of the nodes at most.
    """
    most = max(LEAST_SUSPECTS, int(SUSPECT_SHARE * nodes))
    counts = tallied(
        (node, test in wrong)
        for matrix, decoded in _decoded(tests, ranks_per_node, bounds)
        for wrong in [set(decoded.bad)]
        for test, pair in enumerate(matrix.ends)
        for node in {end // ranks_per_node for end in pair}
    )
    shares = {node: some / every for node, (some, every) in sorted(counts.items())}
    worst = sorted((node for node, share in shares.items() if share), key=lambda node: -shares[node])[:most]
    good = [node for node, share in shares.items() if not share]
    few = [good[index * len(good) // GOOD_PARTNERS] for index in range(GOOD_PARTNERS)] if good else []
    pairs = [(a, b) for index, a in enumerate(worst) for b in dict.fromkeys((*worst[index + 1 :], *few))]
    rails = range(ranks_per_node)
    return tuple((a * ranks_per_node + l_, b * ranks_per_node + l_) for a, b in pairs for l_ in rails)


def doubtful(
    tests: Sequence[RetestEntry], ranks_per_node: int, bounds: Bounds = Bounds()
) -> tuple[Pair, ...]:
    """The pairs to measure again before a part is blamed.

    If so much is bad that the decoder asks for nothing, these are all bad pairs, because a busy host may have slowed all of them.
    """
    cells = [
        (t.source, t.target)
        for t in tests
        if t.outcome is not PairOutcome.OK or (t.slowest_us or 0.0) > PAUSE_US
    ]
    for matrix, decoded in _decoded(tests, ranks_per_node, bounds):
        bad = (matrix.ends[test] for test in decoded.bad)
        all_bad = decoded.answer is MatrixAnswer.FABRIC and matrix.better is Better.HIGHER
        cells += decoded.confirm or (bad if all_bad else ())
    return tuple(cells)


def goes_on(counts: Sequence[int], sweep: int = 0) -> bool:
    """Whether there is another stage of retests, after stages that were asked for so many pairs: not if nothing is asked, and not
    if two stages cleared nothing, because a fabric that is bad as a whole stays so. A small cluster is swept again, by all of its
    `sweep` pairs, to see whether congestion ends, which clears nothing.
    """
    is_sweep = 0 < sweep <= counts[-1]
    return counts[-1] > 0 and (is_sweep or not (len(counts) > 2 and counts[-1] >= counts[-2] >= counts[-3]))


def _decoded(
    tests: Sequence[RetestEntry], ranks_per_node: int, bounds: Bounds
) -> Iterator[tuple[Matrix, Decoded]]:
    """The bandwidths between nodes and inside of them, and the lost segments between nodes."""
    ranks = 1 + max((max(test.source, test.target) for test in tests), default=-1)
    endpoints = tuple(_endpoint(rank, ranks_per_node) for rank in range(ranks))
    of_span: dict[Span, list[RetestEntry]] = {span: [] for span in Span}
    for test in tests:
        is_inside = test.source // ranks_per_node == test.target // ranks_per_node
        of_span[Span.INSIDE if is_inside else Span.BETWEEN].append(test)
    counted = [test for test in of_span[Span.BETWEEN] if test.lost_percent is not None]
    rate, loss = ("bandwidth", "GB/s", Better.HIGHER), ("segments lost", "%", Better.LOWER)
    cases = [(rate, span, cells, bounds.tolerance(span)) for span, cells in of_span.items()]
    for metric, span, cells, tolerance in (*cases, (loss, Span.BETWEEN, counted, bounds.lost)):
        sources, targets = [test.source for test in cells], [test.target for test in cells]
        rounds, moments = [test.in_round for test in cells], [test.began_s for test in cells]
        lost = [max(NOTHING_LOST, test.lost_percent or 0.0) for test in cells]
        values = lost if metric is loss else [test.bandwidth_gbps for test in cells]
        if cells:
            matrix = Matrix(*metric, span, endpoints, sources, targets, values, rounds, moments)
            yield matrix, decode(matrix, tolerance)


def _endpoint(rank: int, ranks_per_node: int) -> Endpoint:
    node, rail = divmod(rank, ranks_per_node)
    return Endpoint(f"rank {rank}", f"node {node}", rail)
