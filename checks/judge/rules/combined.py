"""Judges together what belongs together: the sizes and metrics of one rank, and all ranks of one node. Pure.

A node whose eight GPUs are all 8 % slower may have no value that is an outlier by itself, but the median of its values is one: it
varies less than each of them. The noise of these medians is estimated from the medians of the other nodes or ranks, so that what
values of one node have in common is part of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from checks.documents.columns import CheckTable
from checks.judge.robust_statistics import median_of
from checks.judge.rules.noise import (
    GROSS,
    LEAST_COMPARED,
    LEAST_NODES,
    LEAST_VALUES,
    NOTHING_SHARED,
    SURE_VALUES,
    SharedNoise,
    good_side,
    noise_of,
    of_small_group,
    spread_of,
    within_nodes,
)
from checks.judge.rules.prefilter import are_near, nodes_of, suspects
from checks.judge.rules.relative import better_side, reach
from checks.judge.rules.series import Series, of_nodes, series_of
from checks.judge.rules.tails import PooledTails, tails_of, worse_side_tails
from checks.judge.rules.values import Chances, RuleContext, crossing, label_text
from checks.judge.rules.wording import MEDIANS, REFERENCES, percent, unit_of
from checks.model import Finding, Observation, node_of
from checks.model_details import Comparison, Relation
from checks.policy import Over, Policy, Rule

COMBINED = (Over.PEERS, Over.NODE, Over.FLEET)
MOST_NAMED = 4
SAMPLE = 300  # of so many subjects the usual distance is known well enough
MOST_SHARED = 2000  # values of more are enough by themselves

Judged = tuple[Rule, Sequence[Observation]]


class _Share(NamedTuple):
    """A value as a share of the `median` that it is compared with."""

    subject: str
    label: str
    ratio: float
    evidence: str
    median: float


def groups(rules: Sequence[Judged]) -> list[list[Judged]]:
    """The rules with their rows that say the same of different metrics of a check: those that compare alike, with equal thresholds."""
    by_key: dict[object, list[Judged]] = {}
    for rule, records in rules:
        if rule.over in COMBINED:
            key = replace(rule, metric="", source="", each="", at="", remedy="", action=None)
            by_key.setdefault(key, []).append((rule, records))
    return list(by_key.values())


def examine(check: str, group: Sequence[Judged], context: RuleContext) -> tuple[list[Finding], SharedNoise]:
    """A finding for each node, or else each subject, whose median is an outlier; of two nodes none is. And what all values say of the
    noise of single ones.
    """
    rule = group[0][0]
    if all(_is_calm(member, records, context) for member, records in group):
        return [], NOTHING_SHARED
    shares = [share for member, records in group for share in _shares(member, records)]
    distances, slow = _distances(rule, shares)
    subjects = {share.subject for share in shares}
    nodes = len(subjects if rule.over is Over.NODE else set(map(node_of, subjects)))
    all_checks = context.pooled() if len(shares) <= MOST_SHARED else PooledTails()
    worse = worse_side_tails(slow, distances, nodes).heavier(all_checks.worse)
    pool = replace(all_checks, good=tails_of(distances).heavier(all_checks.good), worse=worse)
    findings: list[Finding] = []
    blamed: set[str] = set()
    by_node = rule.over is Over.PEERS and len(set(map(node_of, subjects))) < len(subjects)
    for whole in (True, False) if by_node else (False,):
        for finding in _outliers(check, rule, shares, whole, context, pool):
            if node_of(finding.subject) not in blamed:
                findings.append(finding)
                blamed |= {finding.subject} if whole else set()
    ratios = [share.ratio for share in shares] if len(shares) <= MOST_SHARED else []
    if rule.over is Over.NODE and ratios:
        sizes = Counter((share.label, node_of(share.subject)) for share in shares)
        ratios = of_small_group(ratios, len(shares) // len(sizes))
    likely = tails_of(distances, likely=True).heavier(all_checks.good)
    return findings, SharedNoise(likely.heavier(worse), ratios, likely)


def _distances(rule: Rule, shares: Sequence[_Share]) -> tuple[list[float], list[float]]:
    """How far the values on the better side, and on the worse one, are from their medians, each in spreads of its own label."""
    better, sides = better_side(rule), (list[float](), list[float]())
    alike: dict[str, list[_Share]] = {}
    for share in shares:
        alike.setdefault(share.label, []).append(share)
    for some in alike.values():
        ratios = [share.ratio for share in some]
        if len(ratios) >= LEAST_VALUES and len({node_of(share.subject) for share in some}) >= LEAST_NODES:
            spread = spread_of(ratios)
            for side, distances in zip((better, -better), sides, strict=True):
                distances += good_side(ratios, spread, side)
    return sides


def pooled(policy: Policy, records: Mapping[str, CheckTable]) -> PooledTails:
    """What the values of all checks say together of the tails: one check has too few to tell noise that is skewed from noise that is
    not. Groups of more than MOST_SHARED values say enough by themselves.
    """
    sides, medians, most = (list[float](), list[float]()), list[float](), 0
    for check, line in policy.checks.items():
        for group in groups([(rule, records[check]) for rule in line.rules if check in records]):
            rule, limit = group[0][0], sum(_size(records[check], rule) for rule, _ in group)
            members = group if limit <= MOST_SHARED else []
            shares = [share for member, table in members for share in _shares(member, table)]
            for side, more in zip(sides, _distances(rule, shares), strict=True):
                side += more
            most = max(most, len({node_of(share.subject) for share in shares}))
            own = [ratio for ratio, _ in _medians(shares, False).values()]
            if len(own) >= LEAST_VALUES and (middle := median_of(own)) > 0:
                ratios = [ratio / middle for ratio in own]
                medians += good_side(ratios, spread_of(ratios), better_side(rule))
    worse = worse_side_tails(sides[1], sides[0], most)
    return PooledTails(tails_of(sides[0]), worse, tails_of(medians))


def _medians(shares: Sequence[_Share], whole: bool) -> dict[str, tuple[float, list[_Share]]]:
    """The median of the values of each node (`whole`) or of each subject, with the values. One value has no median of its own."""
    mine: dict[str, list[_Share]] = {}
    for share in shares:
        mine.setdefault(node_of(share.subject) if whole else share.subject, []).append(share)
    most = max(map(len, mine.values()), default=0)
    enough = {subject: some for subject, some in mine.items() if len(some) > max(1, most // 2)}
    return {subject: (median_of([share.ratio for share in some]), some) for subject, some in enough.items()}


def chances(false_names: float, policy: Policy, records: Mapping[str, CheckTable]) -> Chances:
    """The budget of false names, shared among all that the rules of the report compare: a third each for single values, the medians
    of subjects and the medians of nodes.
    """
    values = subjects = nodes = 0
    for check, line in policy.checks.items():
        for group in groups([(rule, records[check]) for rule in line.rules if check in records]):
            names = records[check].columns.subjects
            hosts = len(set(nodes_of(records[check])))
            sizes = [_size(records[check], rule) for rule, _ in group]
            values += sum(sizes)
            if sum(sizes) > len(names):
                subjects += len(names)
            if group[0][0].over is Over.PEERS and sum(sizes) > hosts and hosts < len(names):
                nodes += hosts
        slowest = [rule for rule in line.rules if rule.over is Over.SLOWEST and check in records]
        values += sum(_size(records[check], rule) for rule in slowest)
    kinds = (values, subjects, nodes)
    share = false_names / max(1, sum(count > 0 for count in kinds))
    return Chances(*(share / max(1, count) for count in kinds))


def _size(records: CheckTable, rule: Rule) -> int:
    """How many values the rule reads. What is no array counts as one value."""
    column = records.column(rule.metric)
    if tuple not in records.kinds(rule.metric):
        return len(column)
    return sum(len(value) if isinstance(value, tuple) else 1 for value in column)


def _is_calm(rule: Rule, records: Sequence[Observation], context: RuleContext) -> bool:
    """Whether no value can be beyond a threshold; then no median is."""
    if rule.over is Over.NODE:
        return not suspects(rule, records, context)
    return all(are_near(rule, series.span) for series in series_of(rule, records)[0])


def _outliers(
    check: str, rule: Rule, shares: Sequence[_Share], whole: bool, context: RuleContext, pool: PooledTails
) -> Iterator[Finding]:
    """The outliers among the medians of the nodes (`whole`) or of the subjects."""
    medians = _medians(shares, whole)
    nodes = len(set(map(node_of, medians)))
    of_nodes_alone = rule.over is not Over.NODE and nodes == len(medians)
    few = of_nodes_alone and nodes < LEAST_VALUES
    if nodes < (LEAST_COMPARED if few else LEAST_NODES):
        return
    if not few and len(medians) < max(LEAST_VALUES, rule.min_peers):
        return
    middle = median_of([median for median, _ in medians.values()])
    if middle <= 0:  # each label has a median above 0, and most subjects have more zeros than numbers
        return
    ratios = [median / middle for median, _ in medians.values()]
    chance = context.chances.node if whole else context.chances.subject
    if rule.over is Over.NODE:
        ratios = of_small_group(ratios, len(ratios) // nodes)
    most = max(len(some) for _, some in medians.values())
    even = pool.good.of_medians(most).heavier(pool.medians)
    shared = SharedNoise(even.heavier(pool.worse.of_skewed_medians(most)))
    if of_nodes_alone and nodes < SURE_VALUES:
        within = within_nodes(([share.ratio for share in some] for _, some in medians.values()), most)
        shared = replace(shared, ratios=within)
    noise = noise_of(ratios, nodes, chance, rule.deviations, better=better_side(rule), shared=shared)
    usual: float | None = None
    for subject, (median, some) in medians.items():
        ratio = median / middle
        crossed = crossing(rule, ratio)
        if crossed is None or abs(ratio - 1.0) < (far := reach(rule, noise, crossed[0], ratio)):
            continue
        if usual is None:
            others = [*medians.values()][:: max(1, len(medians) // SAMPLE)]
            usual = median_of([_good_spread(rule, values, middle)[0] for _, values in others])
        if abs(ratio - 1.0) < min(GROSS, far * _widened(_good_spread(rule, some, middle), usual)):
            continue
        level, relation, line = crossed
        reference, label = MEDIANS[rule.over], _label(some)
        message = f"is at {percent(ratio)} of {REFERENCES[reference]}, by {label}, threshold {percent(line)}"
        yield Finding(
            level, rule.cause, check, subject, message, some[0].evidence, rule.remedy,
            is_predicate=True, compared=_comparison(rule, some, median, middle, relation, line),
        )  # fmt: skip


def _good_spread(rule: Rule, shares: Sequence[_Share], middle: float) -> tuple[float, int]:
    """How far the values on the good side of the others' median are from it on average, and how many they are: a fault of the subject
    makes them fewer, and not farther.
    """
    better = better_side(rule)
    distances = [share.ratio / middle - 1.0 for share in shares]
    good = [abs(distance) for distance in distances if distance * (better or distance) > 0]
    return math.fsum(good) / max(1, len(good)), len(good)


def _widened(own: tuple[float, int], usual: float) -> float:
    """How many times as far as the others' medians one may be whose values vary so much more: few values count as one usual more."""
    spread, values = own
    return max(1.0, (values * spread / usual + 1.0) / (values + 1)) if usual > 0 else 1.0


def _comparison(
    rule: Rule, shares: Sequence[_Share], median: float, middle: float, relation: Relation, line: float
) -> Comparison:
    """In the unit of the metric if all shares are of one median, otherwise as a ratio."""
    units = {share.median for share in shares}
    if len(units) > 1:
        return Comparison(median / middle, "", relation, line, MEDIANS[rule.over])
    unit = units.pop()
    return Comparison(median * unit, unit_of(rule.metric), relation, line, MEDIANS[rule.over], middle * unit)


def _label(shares: Sequence[_Share]) -> str:
    labels = list(dict.fromkeys(share.label for share in shares))
    more = f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
    ranks = len({share.subject for share in shares})
    suffix = f" of {ranks} ranks" if ranks > 1 else ""
    return f"the median of {len(shares)} values{suffix} ({', '.join(labels[:MOST_NAMED])}{more})"


def _shares(rule: Rule, records: Sequence[Observation]) -> Iterator[_Share]:
    for series in series_of(rule, records)[0]:
        compared: Mapping[str, Series] = {"": of_nodes(series) if rule.over is Over.FLEET else series}
        if rule.over is Over.NODE:
            compared = _by_node(series)
        for group in compared.values():
            middle = group.middle if len(group.values) >= rule.min_peers else 0.0
            if middle > 0:
                elements = group.elements or [group.element] * len(group.values)
                yield from (
                    _Share(subject, label_text(group.metric, element), value / middle, evidence, middle)
                    for subject, element, value, evidence in zip(
                        group.subjects, elements, group.values, group.evidence, strict=True
                    )
                )


def _by_node(series: Series) -> dict[str, Series]:
    """The series of each node's ranks. A node's own array has one value per label, which is too few to compare."""
    places: dict[str, list[int]] = {}
    for index, subject in enumerate(series.subjects):
        places.setdefault(node_of(subject), []).append(index)
    return {
        node: Series(
            series.metric,
            [series.subjects[index] for index in mine],
            [series.values[index] for index in mine],
            [series.evidence[index] for index in mine],
            series.element,
        )
        for node, mine in places.items()
    }
