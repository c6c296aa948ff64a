"""Rules that compare subjects with each other, without an absolute number. Pure.

With fewer subjects than a rule's `min_peers` there is no comparison: if fewer are declared the rule does not apply, and if fewer
were measured than are declared it says so.

The numbers that a rule compares form one series per label; an object for a single value is made only for values that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.documents.columns import Rows
from checks.judge.not_measured import not_measured
from checks.judge.robust_statistics import median_of, scaled_mad
from checks.judge.rules.prefilter import are_near, labels_of, parts_of, span
from checks.judge.rules.values import Cell, RuleContext, cells_of, edges, held
from checks.model import CLUSTER, Cause, Finding, Level, Observation, Unmeasured, node_of
from checks.policy import Over, Rule


@dataclass(frozen=True)
class Series:
    """Numbers that are compared, each with its subject and evidence. `labels` is set if each number has a label of its own."""

    label: str
    subjects: Sequence[str]
    values: Sequence[float]
    evidence: Sequence[str]
    labels: Sequence[str] = ()

    def cell(self, place: int) -> Cell:
        """One number."""
        label = self.labels[place] if self.labels else self.label
        return Cell(self.subjects[place], label, float(self.values[place]), self.evidence[place])


Faults = Sequence[tuple[Observation, Unmeasured]]


def series_of(rule: Rule, rows: Sequence[Observation]) -> tuple[list[Series], Faults]:
    """One series per label, in the labels' order, and the rows that lack a number, with the reason."""
    if isinstance(rows, Rows):
        found = _whole(rule, rows)
        if found is not None:
            return sorted(found, key=lambda one: one.label), ()
    return _one_by_one(rule, rows)


def of_cells(label: str, cells: Sequence[Cell]) -> Series:
    """A series of values with the same label."""
    return Series(
        label,
        [cell.subject for cell in cells],
        [cell.value for cell in cells],
        [cell.evidence for cell in cells],
        [cell.label for cell in cells],
    )


def of_nodes(series: Series) -> Series:
    """One number per node: the median of its ranks."""
    nodes = list(map(node_of, series.subjects))
    if len(set(nodes)) == len(nodes):
        return Series(series.label, nodes, series.values, series.evidence)
    places: dict[str, list[int]] = {}
    for place, node in enumerate(nodes):
        places.setdefault(node, []).append(place)
    values = [median_of([series.values[place] for place in mine]) for mine in places.values()]
    evidence = [series.evidence[mine[0]] for mine in places.values()]
    return Series(series.label, list(places), values, evidence)


def _whole(rule: Rule, rows: Rows) -> list[Series] | None:
    """The series by columns, if every row has the same elements with the same names; None otherwise."""
    column, columns = rows.column(rule.metric), rows.columns
    parts = parts_of(column)
    if parts is None or any(span(part) is None for part in parts):
        return None
    labels = [rule.metric] if type(column[0]) is not tuple else labels_of(rule, rows, len(parts))
    if labels is None:
        return None
    return [
        Series(label, columns.subjects, part, columns.evidence)
        for label, part in zip(labels, parts, strict=True)
    ]


def _one_by_one(rule: Rule, rows: Sequence[Observation]) -> tuple[list[Series], Faults]:
    alike: dict[str, list[Cell]] = {}
    faults: list[tuple[Observation, Unmeasured]] = []
    for row in rows:
        cells, fault = cells_of(rule, row)
        if fault:
            faults.append((row, fault))
        for cell in cells:
            alike.setdefault(cell.label, []).append(cell)
    return [of_cells(label, alike[label]) for label in sorted(alike)], faults


# For durations a smaller value is better; everything else that is compared is a rate ("tokens_per_s").
TIMES = ("_s", "_ms", "_us")
# As in checks.judge.baseline.learn: a larger share are not outliers but a second kind of machine.
MOST_OUTLIERS = 0.25


def is_time(metric: str) -> bool:
    """Whether the metric is a duration, by the unit at the end of its name."""
    return metric.endswith(TIMES) and "_per_" not in metric


def judge(
    check: str, rule: Rule, rows: Sequence[Observation], blind: Level, subjects: int, known: RuleContext
) -> Iterator[Finding]:
    """The findings of a rule over peers, node, fleet or slowest. `subjects`: how many are declared."""
    if rule.over is Over.NODE:
        cells: list[Cell] = []
        for row in rows:
            mine, fault = cells_of(rule, row)
            cells += mine
            if fault:
                yield not_measured(check, row.subject, fault, blind, row.evidence)
        yield from _within_nodes(check, rule, cells, known)
        return
    found, faults = series_of(rule, rows)
    for row, fault in faults:
        yield not_measured(check, row.subject, fault, blind, row.evidence)
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
    """Whether there are enough nodes, and all ranks are so close together that the nodes are, too."""
    return are_near(rule, series.values) and len(set(map(node_of, series.subjects))) >= rule.min_peers


def _within_nodes(check: str, rule: Rule, cells: Sequence[Cell], known: RuleContext) -> Iterator[Finding]:
    """Compares the ranks of a node label by label, and the elements of a node's own array with each other."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        of_rank = "/" in cell.subject
        groups.setdefault((node_of(cell.subject), cell.label if of_rank else rule.metric), []).append(cell)
    for (node, label), alike in sorted(groups.items()):
        series = of_cells(label, alike)
        yield from _among(check, rule, series, _declared(alike, known), " times the median of its node", node)


def _declared(cells: Sequence[Cell], known: RuleContext) -> int:
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
        said = f"{len(excused)} of {len(values)} values are beyond the FAIL threshold, but {series.label} varies so much "
        said += f"that none of them is an outlier: {excused[0].subject}, {excused[0].message}"
        yield Finding(Level.WARN, Cause.EVIDENCE, check, subject, said, "", rule.remedy)


def _slowest(check: str, rule: Rule, series: Series, declared: int) -> Iterator[Finding]:
    """The share of time that the slowest subject costs all others: in a synchronous step every rank waits for the last one."""
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
        said = f"{series.label} is {most:g}, but must be above 0: nothing can be compared with it"
        yield Finding(Level.FAIL, Cause.EVIDENCE, check, CLUSTER, said, "", "The measurement is broken.")
        return
    lost = 1 - (middle / worst.value if timed else worst.value / middle)
    label = f"the share of the job's time lost to its {series.label}"
    share = Cell(worst.subject, label, lost, worst.evidence)
    yield from held(check, rule, share, 1.0, f" ({worst.value:.4g}, median {middle:.4g})")


def _silent(check: str, rule: Rule, series: Series, declared: int, subject: str) -> Iterator[Finding]:
    if declared >= rule.min_peers:
        said = f"{series.label}: only {len(series.values)} of {declared} values to compare, {rule.min_peers} are needed"
        yield Finding(
            Level.WARN, Cause.EVIDENCE, check, subject, said, "", "Find out why the others are missing."
        )


def comparisons(rules: Iterable[Rule], nodes: int, subjects: int) -> Mapping[str, str]:
    """Metric -> why too few subjects leave it uncompared; for the list of what a verdict is based on."""
    silent = {}
    for rule in rules:
        peers = nodes if rule.over is Over.FLEET else subjects
        if rule.over in (Over.PEERS, Over.FLEET, Over.SLOWEST) and peers < rule.min_peers:
            silent[rule.metric] = f"{peers} to compare, {rule.min_peers} are needed"
    return silent
