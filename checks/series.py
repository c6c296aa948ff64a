"""The numbers that a rule compares with each other: one series a label, a cell made only of what is odd (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.cells import Cell, cells_of
from checks.columns import Rows
from checks.model import Observation, node_of
from checks.policy import Rule
from checks.screen import labels_of, parts_of, span
from checks.statistics import median_of


@dataclass(frozen=True)
class Series:
    """Numbers that are compared: whose each is, and what it rests on. `labels` where each has one of its own."""

    label: str
    subjects: Sequence[str]
    values: Sequence[float]
    evidence: Sequence[str]
    labels: Sequence[str] = ()

    def cell(self, place: int) -> Cell:
        """One number."""
        label = self.labels[place] if self.labels else self.label
        return Cell(self.subjects[place], label, float(self.values[place]), self.evidence[place])


Faults = Sequence[tuple[Observation, str]]


def series_of(rule: Rule, rows: Sequence[Observation]) -> tuple[list[Series], Faults]:
    """A series a label, in the labels' order, and the rows that lack a number with the reason."""
    if isinstance(rows, Rows):
        found = _whole(rule, rows)
        if found is not None:
            return sorted(found, key=lambda one: one.label), ()
    return _one_by_one(rule, rows)


def of_cells(label: str, cells: Sequence[Cell]) -> Series:
    """A series of cells that are alike."""
    return Series(
        label,
        [cell.subject for cell in cells],
        [cell.value for cell in cells],
        [cell.evidence for cell in cells],
        [cell.label for cell in cells],
    )


def of_nodes(series: Series) -> Series:
    """One number a node: the median of its ranks'."""
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
    """By columns, where every row has the same elements under the same names; None where one does not."""
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
    faults: list[tuple[Observation, str]] = []
    for row in rows:
        cells, fault = cells_of(rule, row)
        if fault:
            faults.append((row, fault))
        for cell in cells:
            alike.setdefault(cell.label, []).append(cell)
    return [of_cells(label, alike[label]) for label in sorted(alike)], faults
