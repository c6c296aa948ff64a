"""The numbers that a relative rule compares: one series for each element of the rule's metric. Pure.

An object for a single value is made only for values that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from checks.documents.columns import CheckTable
from checks.judge.robust_statistics import median_of
from checks.judge.rules.prefilter import elements_of, parts_of, span
from checks.judge.rules.values import Cell, cells_of, label_text
from checks.model import Observation, node_of
from checks.model_details import Unmeasured
from checks.policy import Rule


@dataclass(frozen=True)
class Series:
    """Numbers of a metric that are compared, each with its subject and evidence: those of one element, or, if `elements` is set, each
    of another element.
    """

    metric: str
    subjects: Sequence[str]
    values: Sequence[float]
    evidence: Sequence[str]
    element: str = ""
    elements: Sequence[str] = ()

    @property
    def label(self) -> str:
        """The name of what is compared, such as "GPU 3: memory_used_mib"."""
        return label_text(self.metric, self.element)

    @cached_property
    def span(self) -> tuple[float, float] | None:
        """The smallest and the greatest value, if all can be compared."""
        return span(self.values)

    @cached_property
    def middle(self) -> float:
        """The median. Raises ValueError if there are no values."""
        return median_of(self.values)

    def cell(self, index: int) -> Cell:
        """One number."""
        element = self.elements[index] if self.elements else self.element
        value = float(self.values[index])
        return Cell(self.subjects[index], self.metric, value, self.evidence[index], element=element)


Faults = Sequence[tuple[Observation, Unmeasured]]


def series_of(rule: Rule, records: Sequence[Observation]) -> tuple[list[Series], Faults]:
    """One series per label, in the labels' order, and the rows that lack a number, with the reason."""
    if isinstance(records, CheckTable):
        series = records.once(f"series: {rule.metric}, {rule.each}", lambda: _whole(rule, records))
        if series is not None:
            return sorted(series, key=lambda item: item.label), ()
    return _one_by_one(rule, records)


def of_cells(metric: str, element: str, cells: Sequence[Cell]) -> Series:
    """A series of values of one metric; `element` is "" if each has an element of its own."""
    return Series(
        metric,
        [cell.subject for cell in cells],
        [cell.value for cell in cells],
        [cell.evidence for cell in cells],
        element,
        [cell.element for cell in cells],
    )


def of_nodes(series: Series) -> Series:
    """One number per node: the median of its ranks."""
    nodes = list(map(node_of, series.subjects))
    if len(set(nodes)) == len(nodes):
        return replace(series, subjects=nodes, elements=())
    places: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        places.setdefault(node, []).append(index)
    values = [median_of([series.values[index] for index in mine]) for mine in places.values()]
    evidence = [series.evidence[mine[0]] for mine in places.values()]
    return Series(series.metric, list(places), values, evidence, series.element)


def _whole(rule: Rule, records: CheckTable) -> list[Series] | None:
    """The series by columns, if every row has the same elements with the same names; None otherwise."""
    column, columns = records.column(rule.metric), records.columns
    by_element = parts_of(column)
    if by_element is None:
        return None
    elements = [""] if type(column[0]) is not tuple else elements_of(rule, records, len(by_element))
    if elements is None:
        return None
    result = [
        Series(rule.metric, columns.subjects, values, columns.evidence, element)
        for element, values in zip(elements, by_element, strict=True)
    ]
    return result if all(series.span is not None for series in result) else None


def _one_by_one(rule: Rule, records: Sequence[Observation]) -> tuple[list[Series], Faults]:
    alike: dict[str, list[Cell]] = {}
    faults: list[tuple[Observation, Unmeasured]] = []
    for record in records:
        cells, fault = cells_of(rule, record)
        if fault:
            faults.append((record, fault))
        for cell in cells:
            alike.setdefault(cell.element, []).append(cell)
    return [of_cells(rule.metric, element, alike[element]) for element in sorted(alike)], faults
