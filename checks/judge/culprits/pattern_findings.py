"""Findings about a matrix as a whole: congestion, slow paths, nodes that are a little slow, what nothing explains. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.culprit.doubt import never_good
from checks.culprit.matrix import Decoded, Entity, Matrix, MatrixAnswer, Span, Suspect
from checks.culprit.patterns.paths import MANY
from checks.judge.culprits import wording
from checks.judge.culprits.from_report import MatrixSubject, PairTable
from checks.model import CLUSTER, Cause, Finding, Level
from checks.model_details import Sensitivity

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

    @property
    def shows_slowness(self) -> bool:
        """Whether parts are compared in it that are a little slower than the others."""
        return self.metric is MatrixSubject.BANDWIDTH and self.matrix.span is Span.BETWEEN

    def sensitivities(self) -> Iterator[Sensitivity]:
        """The least slowness that would have been seen, of each kind of part."""
        entities = [Entity.NODE, Entity.RANK, Entity.LINK] if self.shows_slowness else []
        if len(self.matrix.endpoints) == len(set(self.matrix.nodes)) and entities:
            entities.remove(Entity.RANK)
        for entity in entities:
            seen_from = self.decoded.seen_from.get(entity)
            yield Sensitivity(self.check, entity.value, None if seen_from is None else round(seen_from, 3))


def unexplained_level(reading: MatrixReading, most_cost: float, tests: Sequence[int]) -> Level:
    """The level of these bad tests. Pairs that were not good yet are missing evidence, also where the decoder had explained them by a
    part that it does not name after all. Others are judged by what the bad tests cost, unless the whole network was busy at times.
    """
    never = never_good(reading.matrix, tests, reading.decoded.bad)
    if reading.metric is not MatrixSubject.BANDWIDTH or never:
        return UNEXPLAINED[reading.metric]
    costly = reading.decoded.cost > most_cost
    return (
        UNEXPLAINED[reading.metric] if costly and not wording.is_busy(reading.matrix, tests) else Level.WARN
    )


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
    if pairs < MANY:
        return total > most_cost
    every = len(set(map(frozenset, reading.matrix.cells)))
    return total * (least_share(pairs, every) * every / pairs) > most_cost


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
    reading: MatrixReading, tests: PairTable, refused: Mapping[Entity, float]
) -> Iterator[tuple[Finding, Suspect]]:
    """Nodes, ranks and rails whose tests are good and slower than those of the others, each with its finding. `refused`: from which
    slowness on they are a FAIL.
    """
    for item in reading.decoded.slow if reading.shows_slowness else ():
        level = Level.FAIL if is_slower(item, refused.get(item.kind, 0.0)) else Level.WARN
        message, is_rail = wording.slow_part(reading.matrix, reading.decoded, item), item.kind is Entity.RAIL
        yield (
            Finding(
                level, Cause.HARDWARE, reading.check, CLUSTER if is_rail else item.subject,
                f"{item.subject} {message}" if is_rail else message,
                wording.cells(reading.matrix, item.cells, tests, reading.decoded.noise, bad=False),
                wording.remedy(item.kind, reading.matrix), is_predicate=not is_rail,
            ),
            item,
        )  # fmt: skip


def is_slower(suspect: Suspect, wanted: float) -> bool:
    """Whether the part is slower than the others by this share or more (0: nobody asks)."""
    return wanted > 0 and suspect.ratio is not None and 1 - suspect.ratio >= wanted


def of_sensitivity(reading: MatrixReading, wanted: Mapping[Entity, float]) -> Iterator[Finding]:
    """Whether the sweep would have shown parts as slow as the policy asks for."""
    if not reading.shows_slowness:
        return
    for entity, least in wanted.items():
        seen_from = reading.decoded.seen_from.get(entity)
        if seen_from is None or seen_from > least:
            text = wording.blind(reading.matrix, entity, seen_from, least)
            yield Finding(Level.FAIL, Cause.EVIDENCE, reading.check, CLUSTER, text, "", wording.AGAIN)
    many, least = reading.decoded.many_slower, wanted.get(Entity.NODE, math.inf)
    if many is not None and many >= least:
        text = wording.no_majority(reading.matrix, many, least)
        yield Finding(Level.FAIL, Cause.EVIDENCE, reading.check, CLUSTER, text, "", wording.MAJORITY_REMEDY)


def many_hiccups(matrix: Matrix, result: Decoded) -> bool:
    """Whether so many tests were bad once that somebody should investigate."""
    cells = {matrix.ends[test] for test in unaccounted(result)}
    return bool(cells) and len(cells) > HICCUPS * len(matrix.cells)


def unaccounted(result: Decoded) -> list[int]:
    """The bad tests without those of slow paths, and without those of congestion that were good again. If a part is named, hiccups are
    left out, too.
    """
    if result.answer is MatrixAnswer.BLAMED:
        return list(result.unexplained)
    explained = set(result.paths.bad) if result.paths else set()
    explained |= {test for period in result.congestion for test in period.tests} - set(result.unexplained)
    return [test for test in result.bad if test not in explained]
