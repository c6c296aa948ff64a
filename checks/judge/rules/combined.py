"""Judges together what belongs together: the sizes and metrics of one rank, and all ranks of one node. Pure.

A node whose eight GPUs are all 8 % slower may have no value that is an outlier by itself, but the median of its values is one: it
varies less than each of them. The noise of these medians is estimated from the medians of the other nodes or ranks, so that what
values of one node have in common is part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from checks.judge.robust_statistics import median_of
from checks.judge.rules.noise import LEAST_NODES, LEAST_VALUES, noise_of, of_small_group
from checks.judge.rules.prefilter import are_near, suspects
from checks.judge.rules.relative import Series, of_nodes, reach, series_of
from checks.judge.rules.values import Cell, RuleContext, held
from checks.model import Finding, Observation, node_of
from checks.policy import Over, Rule

COMBINED = (Over.PEERS, Over.NODE, Over.FLEET)
SUFFIX = {
    Over.PEERS: " times the median of its peers",
    Over.NODE: " times the median of its node",
    Over.FLEET: " times the median of the nodes",
}
MOST_NAMED = 4

Judged = tuple[Rule, Sequence[Observation]]


class _Share(NamedTuple):
    """A value as a share of the median that it is compared with."""

    subject: str
    label: str
    ratio: float
    evidence: str


def groups(rules: Sequence[Judged]) -> list[list[Judged]]:
    """The rules with their rows that say the same of different metrics of a check: those that compare alike, with equal thresholds."""
    found: dict[object, list[Judged]] = {}
    for rule, rows in rules:
        if rule.over in COMBINED:
            key = replace(rule, metric="", source="", each="", at="", remedy="", action=None)
            found.setdefault(key, []).append((rule, rows))
    return list(found.values())


def judge(check: str, group: Sequence[Judged], known: RuleContext) -> Iterator[Finding]:
    """A finding for each node, or else each subject, whose median is an outlier. With few nodes there is none."""
    if all(_is_calm(rule, rows, known) for rule, rows in group):
        return
    rule = group[0][0]
    shares = [share for one, rows in group for share in _shares(one, rows)]
    if not shares:
        return
    named: set[str] = set()
    by_node = rule.over is Over.PEERS and any("/" in share.subject for share in shares)
    for whole in (True, False) if by_node else (False,):
        for finding in _outliers(check, rule, shares, whole, known):
            if node_of(finding.subject) not in named:
                yield finding
                named |= {finding.subject} if whole else set()


def _is_calm(rule: Rule, rows: Sequence[Observation], known: RuleContext) -> bool:
    """Whether no value can be beyond a threshold; then no median is."""
    if rule.over is Over.NODE:
        return not suspects(rule, rows, known)
    return all(are_near(rule, series.values) for series in series_of(rule, rows)[0])


def _outliers(
    check: str, rule: Rule, shares: Sequence[_Share], whole: bool, known: RuleContext
) -> Iterator[Finding]:
    """The outliers among the medians of the nodes (`whole`) or of the subjects. One value has no median of its own."""
    mine: dict[str, list[_Share]] = {}
    for share in shares:
        mine.setdefault(node_of(share.subject) if whole else share.subject, []).append(share)
    most = max(map(len, mine.values()))
    mine = {subject: found for subject, found in mine.items() if len(found) > max(1, most // 2)}
    nodes = len(set(map(node_of, mine)))
    if len(mine) < max(LEAST_VALUES, rule.min_peers) or nodes < LEAST_NODES:
        return
    medians = {subject: median_of([share.ratio for share in found]) for subject, found in mine.items()}
    middle = median_of(list(medians.values()))
    ratios = [median / middle for median in medians.values()]
    if rule.over is Over.NODE:
        ratios = of_small_group(ratios, len(ratios) // nodes)
    noise = noise_of(ratios, nodes, known.chance, rule.deviations)
    for subject, median in medians.items():
        cell = Cell(subject, _label(mine[subject]), median, mine[subject][0].evidence)
        for found in held(check, rule, cell, middle, SUFFIX[rule.over]):
            if abs(median / middle - 1.0) >= reach(rule, noise, found.level, median / middle):
                yield found


def _label(shares: Sequence[_Share]) -> str:
    labels = list(dict.fromkeys(share.label for share in shares))
    more = f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
    ranks = len({share.subject for share in shares})
    of = f" of {ranks} ranks" if ranks > 1 else ""
    return f"the median of {len(shares)} values{of} ({', '.join(labels[:MOST_NAMED])}{more})"


def _shares(rule: Rule, rows: Sequence[Observation]) -> Iterator[_Share]:
    for series in series_of(rule, rows)[0]:
        parts: Mapping[str, Series] = {"": of_nodes(series) if rule.over is Over.FLEET else series}
        if rule.over is Over.NODE:
            parts = _by_node(series)
        for part in parts.values():
            middle = median_of(part.values) if len(part.values) >= rule.min_peers else 0.0
            if middle > 0:
                labels = part.labels or [part.label] * len(part.values)
                yield from (
                    _Share(subject, label, value / middle, evidence)
                    for subject, label, value, evidence in zip(
                        part.subjects, labels, part.values, part.evidence, strict=True
                    )
                )


def _by_node(series: Series) -> dict[str, Series]:
    """The series of each node's ranks. A node's own array has one value per label, which is too few to compare."""
    places: dict[str, list[int]] = {}
    for place, subject in enumerate(series.subjects):
        places.setdefault(node_of(subject), []).append(place)
    return {
        node: Series(
            series.label,
            [series.subjects[place] for place in mine],
            [series.values[place] for place in mine],
            [series.evidence[place] for place in mine],
        )
        for node, mine in places.items()
    }
