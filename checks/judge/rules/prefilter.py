"""Finds the rows that a rule has to examine, from whole columns and by a few fast passes. Pure.

`suspects` may return too many rows, never too few: the rule would have no finding about the rows that it leaves out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from checks.documents.columns import CheckTable
from checks.judge.rules.values import RuleContext, edges
from checks.model import Observation, node_of
from checks.policy import Over, Rule

CHUNK = 256
LIMIT = 1e300  # as for single values: beyond it nothing can be compared
NUMBERS = frozenset({int, float})
Fits = Callable[[Sequence[Any]], bool]


def suspects(rule: Rule, records: Sequence[Observation], context: RuleContext) -> Sequence[Observation]:
    """The rows about which the rule may have a finding; all rows if the columns cannot tell."""
    if not isinstance(records, CheckTable):
        return records
    column, objects = records.column(rule.metric), records.objects(rule.metric)
    if (limits := _limits(rule, context)) is not None:
        extent = records.once(f"span of {rule.metric}", lambda: span(_flat(objects) or ()))
        if extent is not None and limits[0] <= extent[0] and extent[1] <= limits[1]:
            return ()
    if rule.same:
        kinds = set(map(type, _flat(objects) or ()))
        return () if kinds in ({str}, {int}) and len(set(objects)) == 1 else records
    fits = _fits(rule, context)
    if fits is None and rule.over is Over.NODE:
        key = f"alike: {rule.metric}, {rule.each}, {edges(rule)}, {rule.min_peers}"
        return records.once(key, lambda: _unless_alike(rule, records, column))
    if fits is None:
        return records
    if fits(objects):
        return ()
    return records if rule.over is Over.CLUSTER else records.take(_odd(column, fits))


def complete(records: Sequence[Observation], metric: str) -> bool:
    """Whether the metric certainly has a value everywhere."""
    if not isinstance(records, CheckTable):
        return False
    flat = _flat(records.objects(metric))
    return flat is not None and None not in flat


def _fits(rule: Rule, context: RuleContext) -> Fits | None:
    """Whether no value of this part of the column can have a finding; None if that depends on more than this part."""
    if rule.equals is not None:
        return _all_equal(rule.equals)
    if rule.uniform:
        return _each_uniform
    limits = _limits(rule, context)
    return None if limits is None else _all_between(*limits)


def _limits(rule: Rule, context: RuleContext) -> tuple[float, float] | None:
    """The smallest and the greatest value without a finding; None for a rule that does not set a range for each value."""
    if rule.equals is not None or rule.uniform or rule.same or rule.min_version:
        return None
    if rule.fact:
        expected = getattr(context.instance, rule.fact, None)
        if type(expected) is not int:
            return None
        return expected * (1 - rule.tolerance), expected * (1 + rule.tolerance)
    return edges(rule) if rule.over in (Over.SUBJECT, Over.CLUSTER) else None


def _odd(column: Sequence[Any], fits: Fits) -> Sequence[int]:
    """The indices of the values that may have a finding. Parts of the column that are fine as a whole are not examined one by one."""
    return [
        index
        for start in range(0, len(column), CHUNK)
        if not fits(stretch := column[start : start + CHUNK])
        for index, value in enumerate(stretch, start)
        if not fits((value,))
    ]


def _flat(column: Sequence[Any]) -> Sequence[Any] | None:
    """All elements; None if arrays and scalars are mixed, or an array is empty."""
    kinds = set(map(type, column))
    if tuple not in kinds:
        return column
    return None if len(kinds) > 1 or () in column else list(chain.from_iterable(column))


def span(flat: Sequence[Any]) -> tuple[float, float] | None:
    """The smallest and the greatest value, if all are numbers that can be compared."""
    if not flat or not set(map(type, flat)) <= NUMBERS:
        return None
    try:
        finite = math.isfinite(sum(flat))  # a single infinite value or NaN makes the sum infinite or NaN
    except OverflowError:
        return None
    least, most = min(flat), max(flat)
    return (least, most) if finite and least > -LIMIT and most < LIMIT else None


def _all_between(low: float, high: float) -> Fits:
    def fits(column: Sequence[Any]) -> bool:
        extent = span(_flat(column) or ())
        return extent is not None and low <= extent[0] and extent[1] <= high

    return fits


def _all_equal(value: object) -> Fits:
    def fits(column: Sequence[Any]) -> bool:
        flat = _flat(column) or ()
        return set(map(type, flat)) == {type(value)} and flat.count(value) == len(flat)

    return fits


def _each_uniform(column: Sequence[Any]) -> bool:
    if set(map(type, column)) != {tuple}:
        return False
    # Equal texts and equal numbers of one type have the same text; 0.0 and -0.0 are equal and do not.
    kinds = set(map(type, chain.from_iterable(column)))
    if kinds not in ({str}, {int}, {float}) or (kinds == {float} and 0.0 in chain.from_iterable(column)):
        return False
    return set(map(len, map(set, column))) == {1}


def _unless_alike(rule: Rule, records: CheckTable, column: Sequence[Any]) -> Sequence[Observation]:
    """All rows if the values of a node differ, since the noise of all nodes says whether that is much; otherwise none."""
    subjects, nodes = records.columns.subjects, nodes_of(records)
    kinds = set(map(type, column))
    if kinds == {tuple} and len(set(nodes)) == len(nodes) and "/" not in "".join(subjects):
        return () if all(_alike(rule, values) for values in column) else records
    if kinds == {tuple} and not all("/" in subject for subject in subjects):
        return records
    columns = parts_of(column)
    if columns is None or (kinds == {tuple} and elements_of(rule, records, len(columns)) is None):
        return records
    enough = min(Counter(nodes).values()) >= rule.min_peers
    far = [values for values in columns if not (enough and are_near(rule, span(values)))]
    places: dict[str, list[int]] = {}
    for index, node in enumerate(nodes if far else ()):
        places.setdefault(node, []).append(index)
    if all(_alike(rule, [values[i] for i in mine]) for values in far for mine in places.values()):
        return ()
    return records


def nodes_of(records: CheckTable) -> Sequence[str]:
    """The node of each subject."""
    return records.once("nodes", lambda: tuple(map(node_of, records.columns.subjects)))


def parts_of(column: Sequence[Any]) -> list[Sequence[Any]] | None:
    """The elements, one column for each, if all arrays have the same length; the column itself if no value is an array."""
    kinds = set(map(type, column))
    if tuple not in kinds:
        return [column] if column else None
    if len(kinds) > 1 or len(set(map(len, column))) > 1:
        return None
    return [list(map(itemgetter(index), column)) for index in range(len(column[0]))] or None


def elements_of(rule: Rule, records: CheckTable, length: int) -> list[str] | None:
    """The labels of the elements, if all rows have the same ones."""
    if not rule.each:
        return [f"[{index}]" for index in range(length)]
    column = records.column(rule.each)
    names = column[0]
    if type(names) is not tuple or len(set(names)) != length or column.count(names) != len(column):
        return None
    return None if set(map(type, names)) != {str} or len(names) != length else list(map(str, names))


def are_near(rule: Rule, extent: tuple[float, float] | None) -> bool:
    """Whether values of this span are so close together that none crosses a threshold relative to the median of any of them."""
    low, high = edges(rule)
    if extent is None or extent[0] <= 0:
        return False
    return low <= float(extent[0]) / float(extent[1]) and float(extent[1]) / float(extent[0]) <= high


def _alike(rule: Rule, values: Sequence[Any]) -> bool:
    """Whether a node's values are enough for a comparison, and none is beyond a threshold. `deviations` only excuses more."""
    if len(values) < rule.min_peers or span(values) is None:
        return False
    ordered = sorted(map(float, values))
    half = len(ordered) // 2
    middle = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    low, high = edges(rule)
    return bool(middle > 0 and low <= ordered[0] / middle and ordered[-1] / middle <= high)
