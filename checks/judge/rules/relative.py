"""Rules that compare subjects with each other, without an absolute number. Pure.

With fewer subjects than a rule's `min_peers` there is no comparison: if fewer are declared the rule does not apply, and if fewer
were measured than are declared it says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from checks.judge.not_measured import not_measured
from checks.judge.rules import noise as statistics
from checks.judge.rules.prefilter import are_near
from checks.judge.rules.series import Series, of_cells, of_nodes, series_of
from checks.judge.rules.values import Cell, RuleContext, cells_of, crossing, edges, held, label_text
from checks.judge.rules.wording import MEDIANS, figure, percent, quantity, spoken, stated, unit_of
from checks.model import CLUSTER, Cause, Finding, FindingKind, Level, Observation, node_of
from checks.model_details import Comparison
from checks.policy import Over, Rule
from checks.value_types import listed_names

# A finding that names nobody lists at most so many candidates.
CANDIDATES = 8

# For durations a smaller value is better; everything else that is compared is a rate ("tokens_per_s").
TIMES = ("_s", "_ms", "_us")


def is_time(metric: str) -> bool:
    """Whether the metric is a duration, by the unit at the end of its name."""
    return metric.endswith(TIMES) and "_per_" not in metric


def judge(
    check: str, rule: Rule, records: Sequence[Observation], blind: Level, subjects: int, context: RuleContext
) -> Iterator[Finding]:
    """The findings of a rule over peers, node, fleet or slowest. `subjects`: how many are declared."""
    if rule.over is Over.NODE:
        cells: list[Cell] = []
        for record in records:
            mine, fault = cells_of(rule, record)
            cells += mine
            if fault:
                yield not_measured(check, record.subject, fault, blind, record.evidence)
        yield from _within_nodes(check, rule, cells, context)
        return
    all_series, faults = series_of(rule, records)
    for record, fault in faults:
        yield not_measured(check, record.subject, fault, blind, record.evidence)
    for series in all_series or [Series(rule.metric, (), (), ())]:
        if rule.over is Over.SLOWEST:
            yield from _slowest(check, rule, series, subjects, context)
        elif rule.over is Over.PEERS:
            yield from _together(check, rule, series, subjects, context)
        elif not _nodes_are_near(rule, series):
            nodes = context.declared.nodes if context.declared else subjects
            yield from _together(check, rule, of_nodes(series), nodes, context)


def _nodes_are_near(rule: Rule, series: Series) -> bool:
    """Whether there are enough nodes, and all ranks are so close together that the nodes are, too."""
    nodes: set[str] = set()
    for subject in series.subjects if are_near(rule, series.span) else ():
        nodes.add(node_of(subject))
        if len(nodes) >= rule.min_peers:
            return True
    return False


def _within_nodes(check: str, rule: Rule, cells: Sequence[Cell], context: RuleContext) -> Iterator[Finding]:
    """Compares the ranks of a node label by label, and the elements of a node's own array with each other."""
    groups: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        element = cell.element if "/" in cell.subject else ""
        groups.setdefault(element, {}).setdefault(node_of(cell.subject), []).append(cell)
    for element, nodes in sorted(groups.items()):
        series = {node: of_cells(rule.metric, element, alike) for node, alike in sorted(nodes.items())}
        ratios = [
            ratio
            for numbers in series.values()
            for ratio in statistics.of_small_group(ratios_of(numbers, rule.min_peers), len(numbers.values))
        ]
        # Each is compared with its own node alone.
        noise = _noise(rule, ratios, max(statistics.LEAST_NODES, len(ratios)), context)
        excused: list[_Excused] = []
        for node, numbers in series.items():
            declared = _declared(rule, nodes[node], context)
            yield from _among(check, rule, numbers, declared, noise, excused, node)
        yield from _about_excused(
            check, rule, label_text(rule.metric, element), len(ratios), noise, excused, context
        )


def ratios_of(series: Series, least: int) -> list[float]:
    """The values as shares of their median; none if they are fewer than `least`, or the median is not above 0."""
    if len(series.values) < least or series.middle <= 0:
        return []
    return [value / series.middle for value in series.values]


def better_side(rule: Rule) -> int:
    """1 if greater values are better, -1 if smaller ones are, 0 if the rule has thresholds on both sides."""
    low, high = edges(rule)
    return (low > 0) - (high < math.inf)


def _noise(
    rule: Rule, ratios: Sequence[float], nodes: int, context: RuleContext, within: Sequence[float] = ()
) -> statistics.Noise:
    shared = context.shared.get(rule, statistics.NOTHING_SHARED)
    if nodes < statistics.LEAST_NODES:
        pooled = statistics.of_small_group(shared.ratios, nodes) if nodes >= statistics.LEAST_COMPARED else ()
        shared = replace(shared, ratios=within or pooled)
    return statistics.noise_of(
        ratios, nodes, context.chances.value, rule.deviations, better=better_side(rule), shared=shared
    )


def by_node(series: Series) -> dict[str, list[float]]:
    """The values of each node."""
    groups: dict[str, list[float]] = {}
    for subject, value in zip(series.subjects, series.values, strict=True):
        groups.setdefault(node_of(subject), []).append(value)
    return groups


def _declared(rule: Rule, cells: Sequence[Cell], context: RuleContext) -> int:
    if context.declared is None:
        return len(cells)
    if any("/" in cell.subject for cell in cells):
        return context.declared.ranks_per_node
    gpus = context.declared.gpus_per_node if rule.each == "gpus" else 0
    return gpus or len(cells)


_Excused = tuple[Finding, float]


def _together(
    check: str, rule: Rule, series: Series, declared: int, context: RuleContext
) -> Iterator[Finding]:
    """The findings about the values of one series, of which none is compared with anything else."""
    values, excused = series.values, list[_Excused]()
    if len(values) >= rule.min_peers and are_near(rule, series.span):
        return
    if len(values) >= rule.min_peers and _crosses(rule, series):
        ratios = ratios_of(series, rule.min_peers)
        nodes = len(set(map(node_of, series.subjects)))
        within = statistics.within_nodes(by_node(series).values()) if nodes < statistics.LEAST_NODES else ()
        noise = _noise(rule, ratios, nodes, context, within)
    else:
        noise = statistics.Noise()
    yield from _among(check, rule, series, declared, noise, excused)
    yield from _about_excused(check, rule, series.label, len(values), noise, excused, context)


def _crosses(rule: Rule, series: Series) -> bool:
    """Whether a value is beyond a threshold; also if there is nothing to compare with."""
    middle, (low, high) = series.middle, edges(rule)
    return middle > 0 and not (low <= min(series.values) / middle and max(series.values) / middle <= high)


def _among(
    check: str,
    rule: Rule,
    series: Series,
    declared: int,
    noise: statistics.Noise,
    excused: list[_Excused],
    subject: str = CLUSTER,
) -> Iterator[Finding]:
    """The findings about outliers of the series. What is beyond a threshold and no outlier is added to `excused`, with its ratio."""
    values = series.values
    if len(values) < rule.min_peers:
        yield from _silent(check, rule, series, declared, subject)
        return
    middle = series.middle
    if middle <= 0:
        message = f"the median of {series.label} is {figure(middle)}: nothing can be compared with it"
        yield Finding(Level.FAIL, Cause.EVIDENCE, check, subject, message, "", "The measurement is broken.")
        return
    if not _crosses(rule, series):
        return
    low, high = edges(rule)
    far = _far(rule)
    distant = sum(abs(value / middle - 1.0) >= far for value in values)
    if distant > statistics.MOST_OUTLIERS * len(values):
        noise = replace(noise, capped=False)
    for index, value in enumerate(values):
        ratio = value / middle
        if not low <= ratio <= high:
            for finding in held(check, rule, series.cell(index), middle, MEDIANS[rule.over]):
                if abs(ratio - 1.0) >= reach(rule, noise, finding.level, ratio):
                    yield finding
                else:
                    excused.append((finding, ratio))


def reach(rule: Rule, noise: statistics.Noise, level: Level, ratio: float) -> float:
    """The distance from the median from which a value beyond the threshold of this level is an outlier."""
    if level is Level.FAIL:
        line, far = (rule.fail_below if ratio < 1.0 else rule.fail_above), noise.fail
    else:
        line, far = (rule.warn_below if ratio < 1.0 else rule.warn_above), noise.warn
    if line is None or not noise.capped:
        return far
    return max(noise.least, min(far, noise.limit(_reachable(1.0 - line) if line < 1.0 else line - 1.0)))


def _reachable(distance: float) -> float:
    """How far below the median a threshold counts as being: FAR times as far is half of it, where it were less than nothing."""
    return min(distance, (1.0 + distance) / (2.0 * statistics.FAR))


def _far(rule: Rule) -> float:
    """From which distance on a value is an outlier whatever the spread."""
    distance = _distance(rule, Level.FAIL)
    return statistics.FAR * (_reachable(distance) if better_side(rule) > 0 else distance)


def _about_excused(
    check: str,
    rule: Rule,
    label: str,
    values: int,
    noise: statistics.Noise,
    excused: Sequence[_Excused],
    context: RuleContext,
) -> Iterator[Finding]:
    """A finding that blames nobody, if so many values are beyond a threshold that noise does not explain it."""
    left = [pair for pair in excused if not {pair[0].subject, node_of(pair[0].subject)} & context.slow]
    failed = [pair for pair in left if pair[0].level is Level.FAIL]
    even, farther = noise.as_good_side(), max(noise.least, _far(rule))
    far = [
        pair
        for pair in excused
        if _is_candidate(pair, context) and noise.capped and abs(pair[1] - 1.0) >= farther
    ]
    for some, level, least in ((failed, Level.FAIL, statistics.MANY * values), (left, Level.WARN, 0.0)):
        if far and level is Level.WARN:
            yield _candidates(check, rule, label, far, values, noise)
            return
        explained_by = noise if level is Level.FAIL else even
        excess = len(some) > least and explained_by.is_excess(len(some), values, _distance(rule, level))
        many = len(some) > statistics.MOST_OUTLIERS * values and (
            level is Level.FAIL or values >= statistics.SURE_VALUES
        )
        if some and (excess or many):
            worst = max(some, key=lambda pair: abs(pair[1] - 1.0))[0]
            message = f"{len(some)} of {values} values are beyond the {level.value} threshold, but {label} varies so much "
            message += f"that none of them is an outlier: {spoken(worst)}"
            lenient = rule.over is Over.FLEET and rule.deviations > 0
            yield Finding(
                Level.WARN if lenient else level, Cause.EVIDENCE, check, CLUSTER, message, "", rule.remedy
            )
            return
    if not failed:
        return
    if rule.deviations and noise.is_known:
        return  # the rule's own distance decides
    worst, ratio = max(failed, key=lambda pair: abs(pair[1] - 1.0))
    if even.expected(values, abs(ratio - 1.0)) < statistics.REMARKABLE:
        doubt = "noise may explain that" if noise.is_known else _unknown(values)
        reason = (
            f"{len(failed)} of {values} values are beyond the FAIL threshold, and {doubt}: {spoken(worst)}"
        )
        yield Finding(Level.WARN, Cause.EVIDENCE, check, CLUSTER, reason, "", rule.remedy)


def _is_candidate(pair: _Excused, context: RuleContext) -> bool:
    """Whether nothing else refuses the part of which a value is beyond the FAIL threshold: a warning hides no failure."""
    subject = pair[0].subject
    return pair[0].level is Level.FAIL and context.refused.isdisjoint((subject, node_of(subject)))


def _unknown(values: int) -> str:
    return f"{values} values do not show how much they vary, so that this may be noise"


def _candidates(
    check: str, rule: Rule, label: str, far: Sequence[_Excused], values: int, noise: statistics.Noise
) -> Finding:
    """What is so far that a broken part may be the reason, in a group of which noise alone takes values as far."""
    farthest = sorted(far, key=lambda pair: -abs(pair[1] - 1.0))
    names = listed_names([f"{finding.subject} ({ratio:.2f})" for finding, ratio in farthest], CANDIDATES)
    reason = "the noise of healthy parts reaches as far" if noise.is_known else _unknown(values)
    message = f"{len(far)} of {values} values of {label} are so far from the median that the parts may be broken, but {reason}: "
    remedy = f"Run the gate again: a broken part stays slow. {rule.remedy}".strip()
    return Finding(Level.FAIL, Cause.EVIDENCE, check, CLUSTER, f"{message}{names}", "", remedy)


def _distance(rule: Rule, level: Level) -> float:
    """How far from the median the nearer threshold of this level is, as a share of the median."""
    if level is Level.FAIL or (rule.warn_below is None and rule.warn_above is None):
        low, high = rule.fail_below, rule.fail_above
    else:
        low, high = rule.warn_below, rule.warn_above
    return min(1.0 if low is None else 1.0 - low, 1.0 if high is None else high - 1.0)


def _slowest(
    check: str, rule: Rule, series: Series, declared: int, context: RuleContext
) -> Iterator[Finding]:
    """The share of time that the slowest subject costs all others: in a synchronous step every rank waits for the last one."""
    values = series.values
    if len(values) < rule.min_peers:
        yield from _silent(check, rule, series, declared, CLUSTER)
        return
    (low, high), ends = edges(rule), series.span
    if ends and ends[0] > 0 and low <= 0.0 and 1 - ends[0] / ends[1] <= high:
        return  # even the share that the greatest value would lose to the smallest is within the thresholds
    timed = is_time(rule.metric)
    extreme, middle = max(values) if timed else min(values), series.middle
    places = (index for index, value in enumerate(values) if value == extreme)
    worst = series.cell(min(places, key=lambda index: series.subjects[index]))
    most = worst.value if timed else middle
    if most <= 0:
        message = f"{series.label} is {figure(most)}, but must be above 0: nothing can be compared with it"
        yield Finding(Level.FAIL, Cause.EVIDENCE, check, CLUSTER, message, "", "The measurement is broken.")
        return
    lost = 1 - (middle / worst.value if timed else worst.value / middle)
    findings = _waited_for(check, rule, worst, lost, middle)
    noise = _noise_of_slowest(rule, series, context) if findings else statistics.Noise()
    if findings and not _is_outlier(noise, worst.value, middle, findings[0].level):
        reason = _unknown(len(values)) if not noise.is_known else "no single one is at fault, all vary"
        text = f"{reason}: {spoken(findings[0])}"
        excused = Finding(Level.WARN, Cause.EVIDENCE, check, CLUSTER, text, "", rule.remedy)
        findings = [excused] if findings[0].level is Level.FAIL else []
    yield from findings


def _waited_for(check: str, rule: Rule, worst: Cell, lost: float, middle: float) -> list[Finding]:
    """The finding about the slowest subject, for which the others wait for the share `lost` of the job's time."""
    crossed = crossing(rule, lost)
    if crossed is None:
        return []
    level, relation, line = crossed
    value, continues = stated(check, worst.metric, worst.element, worst.value)
    median = quantity(middle, unit_of(worst.metric))
    message = f"costs the job {percent(lost)} of its time: {'it ' if continues else ''}{value}, where the median is {median}; "
    message += f"threshold {percent(line)}"
    return [
        Finding(
            level, rule.cause, check, worst.subject, message, worst.evidence, rule.remedy,
            is_predicate=True, compared=Comparison(lost, "", relation, line),
        )
    ]  # fmt: skip


def _noise_of_slowest(rule: Rule, series: Series, context: RuleContext) -> statistics.Noise:
    nodes = len(set(map(node_of, series.subjects)))
    better = -1 if is_time(rule.metric) else 1
    within = statistics.SharedNoise(ratios=statistics.within_nodes(by_node(series).values()))
    return statistics.noise_of(
        ratios_of(series, rule.min_peers), nodes, context.chances.value, better=better,
        shared=within if nodes < statistics.LEAST_NODES else statistics.NOTHING_SHARED,
    )  # fmt: skip


def _is_outlier(noise: statistics.Noise, value: float, middle: float, level: Level) -> bool:
    return middle <= 0 or abs(value / middle - 1.0) >= (noise.fail if level is Level.FAIL else noise.warn)


def _silent(check: str, rule: Rule, series: Series, declared: int, subject: str) -> Iterator[Finding]:
    if declared >= rule.min_peers:
        message = f"{series.label}: only {len(series.values)} of {declared} values to compare, {rule.min_peers} are needed"
        remedy = "Find out why the other values are missing."
        yield Finding(
            Level.WARN, Cause.EVIDENCE, check, subject, message, "", remedy, kind=FindingKind.TOO_FEW
        )


def comparisons(rules: Iterable[Rule], nodes: int, subjects: int) -> Mapping[str, str]:
    """Metric -> why too few subjects leave it uncompared; for the list of what a verdict is based on."""
    silent = {}
    for rule in rules:
        peers = nodes if rule.over is Over.FLEET else subjects
        if rule.over in (Over.PEERS, Over.FLEET, Over.SLOWEST) and peers < rule.min_peers:
            silent[rule.metric] = f"{peers} to compare, {rule.min_peers} are needed"
    return silent
