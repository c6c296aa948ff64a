"""Rules that compare subjects with each other, where no absolute number is known or needed (pure).

Below a rule's `min_peers` there is no comparison: where fewer are declared the rule does not apply, and where fewer were
measured than are declared it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from checks.bounds import edges, held
from checks.cells import Cell, cells_of, unread
from checks.known import Known
from checks.model import CLUSTER, Cause, Finding, Level, Observation, node_of
from checks.policy import Over, Rule
from checks.screen import are_near
from checks.series import Series, of_cells, of_nodes, series_of
from checks.statistics import median_of, scaled_mad

# What is shorter is better; everything else that is compared is a rate ("tokens_per_s").
TIMES = ("_s", "_ms", "_us")
# As in checks.learn: more than this apart are no outliers of a scatter, but two kinds of machines.
MOST_OUTLIERS = 0.25


def is_time(metric: str) -> bool:
    """Whether the metric is a duration, by the unit at its end."""
    return metric.endswith(TIMES) and "_per_" not in metric


def judge(
    check: str, rule: Rule, rows: Sequence[Observation], blind: Level, subjects: int, known: Known
) -> Iterator[Finding]:
    """Findings of a rule over peers, node, fleet or slowest. `subjects`: how many are declared."""
    if rule.over is Over.NODE:
        cells: list[Cell] = []
        for row in rows:
            mine, fault = cells_of(rule, row)
            cells += mine
            if fault:
                yield unread(check, row, fault, blind)
        yield from _within_nodes(check, rule, cells, known)
        return
    found, faults = series_of(rule, rows)
    for row, fault in faults:
        yield unread(check, row, fault, blind)
    for series in found or [Series(rule.metric, (), (), ())]:
        if rule.over is Over.FLEET:
            nodes = known.declared.nodes if known.declared else subjects
            if not _nodes_are_near(rule, series):
                yield from _among(check, rule, of_nodes(series), nodes, " times the median of the nodes")
        elif rule.over is Over.SLOWEST:
            yield from _slowest(check, rule, series, subjects)
        else:
            yield from _among(check, rule, series, subjects, " times the median of its peers")


def _nodes_are_near(rule: Rule, series: Series) -> bool:
    """Whether there are enough nodes, and no two ranks so far apart that their nodes could be."""
    return are_near(rule, series.values) and len(set(map(node_of, series.subjects))) >= rule.min_peers


def _within_nodes(check: str, rule: Rule, cells: Sequence[Cell], known: Known) -> Iterator[Finding]:
    """Ranks of a node are compared label by label; the elements of a node's own array with each other."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        of_rank = "/" in cell.subject
        groups.setdefault((node_of(cell.subject), cell.label if of_rank else rule.metric), []).append(cell)
    for (node, label), alike in sorted(groups.items()):
        series = of_cells(label, alike)
        yield from _among(check, rule, series, _declared(alike, known), " times the median of its node", node)


def _declared(cells: Sequence[Cell], known: Known) -> int:
    if known.declared is None:
        return len(cells)
    if any("/" in cell.subject for cell in cells):
        return known.declared.ranks_per_node
    return known.declared.gpus_per_node or len(cells)


def _among(
    check: str, rule: Rule, series: Series, declared: int, suffix: str, subject: str = CLUSTER
) -> Iterator[Finding]:
    values = series.values
    if len(values) < rule.min_peers:
        yield from _silent(check, rule, series, declared, subject)
        return
    middle = median_of(values)
    if middle <= 0:
        said = f"the median of {series.label} is {middle:g}: nothing can be compared with it"
        yield Finding(Level.FAIL, Cause.EVIDENCE, check, subject, said, "", "The measurement is broken.")
        return
    low, high = edges(rule)
    if low <= min(values) / middle and max(values) / middle <= high:
        return
    reach = rule.deviations * scaled_mad(values) if rule.deviations else 0.0
    excused: list[Finding] = []
    for place, value in enumerate(values):
        if not low <= value / middle <= high:
            found = held(check, rule, series.cell(place), middle, suffix)
            if abs(value - middle) >= reach:
                yield from found
            else:
                excused += [one for one in found if one.level is Level.FAIL]
    if len(excused) > MOST_OUTLIERS * len(values):
        said = f"{len(excused)} of {len(values)} values lie beyond a FAIL line, and {series.label} scatters so much "
        said += f"that nobody is an outlier: {excused[0].subject}, {excused[0].message}"
        yield Finding(Level.WARN, Cause.EVIDENCE, check, subject, said, "", rule.remedy)


def _slowest(check: str, rule: Rule, series: Series, declared: int) -> Iterator[Finding]:
    """What the slowest costs all: in a synchronous step every rank waits for the last one."""
    values = series.values
    if len(values) < rule.min_peers:
        yield from _silent(check, rule, series, declared, CLUSTER)
        return
    timed = is_time(rule.metric)
    extreme, middle = max(values) if timed else min(values), median_of(values)
    places = (place for place, value in enumerate(values) if value == extreme)
    worst = series.cell(min(places, key=lambda place: series.subjects[place]))
    most = worst.value if timed else middle
    if most <= 0:
        said = f"{series.label} is {most:g} where it must be more: nothing can be compared with it"
        yield Finding(Level.FAIL, Cause.EVIDENCE, check, CLUSTER, said, "", "The measurement is broken.")
        return
    lost = 1 - (middle / worst.value if timed else worst.value / middle)
    label = f"the share of the job's time lost to it by {series.label}"
    share = Cell(worst.subject, label, lost, worst.evidence)
    yield from held(check, rule, share, 1.0, f" ({worst.value:.4g}, the median has {middle:.4g})")


def _silent(check: str, rule: Rule, series: Series, declared: int, subject: str) -> Iterator[Finding]:
    if declared >= rule.min_peers:
        said = f"{series.label}: only {len(series.values)} of {declared} values to compare, {rule.min_peers} are needed"
        yield Finding(
            Level.WARN, Cause.EVIDENCE, check, subject, said, "", "Find out why the others are missing."
        )


def comparisons(rules: Iterable[Rule], nodes: int, subjects: int) -> Mapping[str, str]:
    """Metric -> why a comparison of it does not speak for so few; for the account of what a verdict rests on."""
    silent = {}
    for rule in rules:
        peers = nodes if rule.over is Over.FLEET else subjects
        if rule.over in (Over.PEERS, Over.FLEET, Over.SLOWEST) and peers < rule.min_peers:
            silent[rule.metric] = f"{peers} to compare, {rule.min_peers} are needed"
    return silent
