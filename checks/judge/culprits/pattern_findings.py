"""Findings about a matrix as a whole: congestion, slow paths, nodes that are a little slow, what nothing explains. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.culprit.doubt import never_good
from checks.culprit.matrix import Decoded, Entity, Matrix, MatrixAnswer, Span, Suspect
from checks.culprit.patterns.paths import MANY
from checks.judge.culprits import wording
from checks.judge.culprits.from_report import MatrixSubject, PairTable
from checks.model import CLUSTER, Cause, Finding, Level

# If these are bad everywhere it is a fault; with the other matrices it is a busy network.
FABRIC = {
    MatrixSubject.DATA: Level.FAIL,
    MatrixSubject.BANDWIDTH: Level.FAIL,
    MatrixSubject.PAUSE: Level.FAIL,
}
# Bad tests that no part explains. A host may pause once, on any network segments are sent again, and on a busy one answers are late.
UNEXPLAINED = {
    MatrixSubject.DATA: Level.FAIL,
    MatrixSubject.BANDWIDTH: Level.FAIL,
    MatrixSubject.PAUSE: Level.WARN,
    MatrixSubject.LOST: Level.WARN,
    MatrixSubject.RESENT: Level.WARN,
}
# Judgement: on an idle cluster one test in a hundred is bad, and good when it is measured again.
HICCUPS = 0.05
# Judgement: above this much more time for an exchange of all with all, what no part explains is not passed over.
MOST_COST = 0.2
# Judgement: a fabric that is declared as oversubscribed twice has to reach nearly half of the bandwidth.
AS_DECLARED = 0.8
# So many standard deviations to both sides hold 95 % of a normal distribution.
Z = 1.96


@dataclass(frozen=True)
class MatrixReading:
    """One matrix of a check, and what was decoded from it."""

    check: str
    metric: MatrixSubject
    matrix: Matrix
    decoded: Decoded


def unexplained_level(reading: MatrixReading, most_cost: float, tests: Sequence[int]) -> Level:
    """The level of these bad tests. Pairs that were not good yet are missing evidence, also where the decoder had explained them by a
    part that it does not name after all. Others are judged by what the bad tests cost.
    """
    never = never_good(reading.matrix, tests, reading.decoded.bad)
    if reading.metric is not MatrixSubject.BANDWIDTH or never or reading.decoded.cost > most_cost:
        return UNEXPLAINED[reading.metric]
    return Level.WARN


def costs_too_much(reading: MatrixReading, most_cost: float) -> bool:
    """Whether the pairs that are slow for good, as where flows share a path, make an exchange of all with all longer than allowed.

    Where many pairs are slow, chance spreads the training's flows over the paths anew. What was measured is a sample of that, so
    that the lower end of its 95 % interval counts: six slow pairs of 28 are surely a tenth of the next ones. A few pairs are no
    sample.
    """
    links = [suspect.cost for suspect in reading.decoded.suspects if suspect.cost is not None]
    paths = reading.decoded.paths
    pairs = len(links) + (paths.pairs if paths else 0)
    total = sum(links) + (paths.cost if paths else 0.0)
    every = len(
        {frozenset(ends) for ends in zip(reading.matrix.sources, reading.matrix.targets, strict=True)}
    )
    surely = least_share(pairs, every) * every / pairs if pairs >= MANY else 1.0
    return total * surely > most_cost


def least_share(some: int, whole: int) -> float:
    """The lower end of the 95 % interval of a share (Wilson's score)."""
    p, square = some / whole, Z * Z
    half = Z * math.sqrt(p * (1 - p) / whole + square / (4 * whole * whole))
    return max(0.0, (p + square / (2 * whole) - half) / (1 + square / whole))


def of_time_and_fabric(
    reading: MatrixReading, tests: PairTable, most_cost: float, oversubscribed: float = 0.0
) -> Iterator[Finding]:
    """Congestion of a while, and pairs that are slow for good: no part is to blame for them. `oversubscribed`: how many times the
    bandwidth between switches may be less than below one of them (0: the policy does not say).
    """
    metric, result, matrix = reading.metric, reading.decoded, reading.matrix
    if metric is MatrixSubject.DATA or result.answer is MatrixAnswer.FABRIC:
        return
    for period in result.congestion:
        yield Finding(
            Level.WARN, Cause.CONFIGURATION, reading.check, CLUSTER, wording.congestion(matrix, period),
            wording.cells(matrix, period.tests, tests, result.noise), wording.CONGESTION_REMEDY,
        )  # fmt: skip
    if result.groups is not None and result.groups.share * oversubscribed < AS_DECLARED:
        level = Level.FAIL if metric in FABRIC and oversubscribed else Level.WARN
        yield Finding(
            level, Cause.CONFIGURATION, reading.check, CLUSTER, wording.groups(matrix, result.groups, oversubscribed), "",
            wording.GROUPS_REMEDY,
        )  # fmt: skip
    if result.paths is not None:
        level = Level.FAIL if metric in FABRIC and costs_too_much(reading, most_cost) else Level.WARN
        yield Finding(
            level, Cause.CONFIGURATION, reading.check, CLUSTER, wording.slow_paths(matrix, result.paths),
            wording.cells(matrix, result.paths.bad, tests, result.noise), wording.PATHS_REMEDY,
        )  # fmt: skip


def of_slow_parts(
    reading: MatrixReading, tests: PairTable, wanted: float
) -> Iterator[tuple[Finding, Suspect]]:
    """Nodes, ranks and rails whose tests are good and slower than those of the others, each with its finding."""
    if reading.metric is not MatrixSubject.BANDWIDTH or reading.matrix.span is not Span.BETWEEN:
        return
    for item in reading.decoded.slow:
        level = Level.FAIL if wanted and item.ratio is not None and 1 - item.ratio >= wanted else Level.WARN
        message, is_rail = wording.slow_part(reading.matrix, reading.decoded, item), item.kind is Entity.RAIL
        yield (
            Finding(
                level, Cause.HARDWARE, reading.check, CLUSTER if is_rail else item.subject,
                f"{item.subject} {message}" if is_rail else message,
                wording.cells(reading.matrix, item.cells, tests, reading.decoded.noise, bad=False),
                wording.REMEDIES[item.kind], is_predicate=not is_rail,
            ),
            item,
        )  # fmt: skip


def of_sensitivity(reading: MatrixReading, wanted: float) -> Iterator[Finding]:
    """Whether the sweep would have shown a node as slow as the policy asks for (0: the policy does not ask)."""
    if reading.metric is not MatrixSubject.BANDWIDTH or reading.matrix.span is not Span.BETWEEN or not wanted:
        return
    if reading.decoded.seen_from is None or reading.decoded.seen_from > wanted:
        text = wording.blind(reading.matrix, reading.decoded, wanted)
        yield Finding(Level.FAIL, Cause.EVIDENCE, reading.check, CLUSTER, text, "", wording.AGAIN)
    many = reading.decoded.many_slower
    if many is not None and many >= wanted:
        text = wording.no_majority(reading.matrix, many, wanted)
        yield Finding(Level.FAIL, Cause.EVIDENCE, reading.check, CLUSTER, text, "", wording.MAJORITY_REMEDY)


def many_hiccups(matrix: Matrix, result: Decoded) -> bool:
    """Whether so many tests were bad once that somebody should investigate."""
    ends = list(zip(matrix.sources, matrix.targets, strict=True))
    return len({ends[test] for test in unaccounted(result)}) > HICCUPS * len(set(ends))


def unaccounted(result: Decoded) -> list[int]:
    """The bad tests without those of slow paths, and without those of congestion that were good again. If a part is named, hiccups are
    left out, too.
    """
    if result.answer is MatrixAnswer.BLAMED:
        return list(result.unexplained)
    explained = set(result.paths.bad) if result.paths else set()
    explained |= {test for period in result.congestion for test in period.tests} - set(result.unexplained)
    return [test for test in result.bad if test not in explained]
