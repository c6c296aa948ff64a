"""Observations stored in columns: one list per field and metric. An Observation is only made if one is asked for. Pure.

A report of a fleet has a million observations. An iteration gives Observations; code that judges a fleet uses `column`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice
from operator import is_, itemgetter, le
from typing import Any, TypeVar, overload

from checks.model import ErrorKind, Observation, Outcome, Skip, Value
from checks.value_types import Seconds

Result = TypeVar("Result")


@dataclass(frozen=True)
class Columns:
    """All observations of one check. Every list has one entry per subject, null if there is no value."""

    subjects: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    seconds: tuple[Seconds, ...]
    started_s: tuple[Seconds, ...]
    skips: tuple[Skip | None, ...]
    reasons: tuple[str, ...]
    evidence: tuple[str, ...]
    evidence_truncated: tuple[bool, ...]
    evidence_sha256: tuple[str, ...]
    error_kinds: tuple[ErrorKind | None, ...]
    metrics: Mapping[str, tuple[Value | None, ...]]

    @property
    def even(self) -> bool:
        """Whether every list has one entry per subject."""
        length = len(self.subjects)
        plain = (getattr(self, name) for name in PLAIN)
        return all(len(column) == length for column in chain(plain, self.metrics.values()))


PLAIN = tuple(field.name for field in fields(Columns) if field.name != "metrics")
# What an Observation calls the value of a column.
SINGULAR = {
    "subjects": "subject",
    "outcomes": "outcome",
    "skips": "skip",
    "reasons": "reason",
    "error_kinds": "error_kind",
}
OWN_NAMES = {name: SINGULAR.get(name, name) for name in PLAIN}


class _ObservationTable(Sequence[Observation]):
    """Equal to any sequence of the same observations, and not hashable."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class CheckTable(_ObservationTable):
    """The observations of one check. All lists of `columns` must have the same length."""

    def __init__(self, check: str, columns: Columns) -> None:
        self.check, self.columns = check, columns
        self._known: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], Result]) -> Result:
        """What `make` finds in these rows, which never change. It is called once for each name."""
        if name not in self._known:
            self._known[name] = make()
        result: Result = self._known[name]
        return result

    def kinds(self, metric: str) -> frozenset[type]:
        """The types of the metric's values; NoneType if a subject has none."""
        return self.once(f"kinds of {metric}", lambda: frozenset(map(type, self.objects(metric))))

    def objects(self, metric: str) -> Sequence[Value | None]:
        """The metric's values, each object once. In most columns of a fleet all subjects have one and the same."""
        return self.once(f"objects of {metric}", lambda: _objects(self.column(metric)))

    @staticmethod
    def collect(check: str, entries: Sequence[Observation]) -> CheckTable:
        """The rows are returned in columns, in their order."""
        if isinstance(entries, CheckTable):
            return entries
        names = dict.fromkeys(name for entry in entries for name in entry.metrics)
        plain: Any = {name: tuple(getattr(each, own) for each in entries) for name, own in OWN_NAMES.items()}
        columns = Columns(
            **plain, metrics={name: tuple(entry.metrics.get(name) for entry in entries) for name in names}
        )
        return CheckTable(check, columns)

    def column(self, metric: str) -> Sequence[Value | None]:
        """The metric's value for each subject, None if there is none."""
        return self.columns.metrics.get(metric) or (None,) * len(self)

    def take(self, places: Sequence[int]) -> CheckTable:
        """The result holds the rows at these places only, in this order."""
        pick = _picker(places)
        plain: Any = {name: pick(getattr(self.columns, name)) for name in PLAIN}
        metrics = {name: pick(column) for name, column in self.columns.metrics.items()}
        return CheckTable(self.check, Columns(**plain, metrics=metrics))

    def measured(self) -> CheckTable:
        """The rows that measured."""
        places = [i for i, outcome in enumerate(self.columns.outcomes) if outcome is Outcome.MEASURED]
        return self if len(places) == len(self) else self.take(places)

    def by_subject(self) -> CheckTable:
        """The rows in the order of their subjects' names."""
        subjects = self.columns.subjects
        if all(map(le, subjects, subjects[1:])):
            return self
        return self.take(sorted(range(len(self)), key=subjects.__getitem__))

    def __len__(self) -> int:
        return len(self.columns.subjects)

    @overload
    def __getitem__(self, position: int) -> Observation: ...
    @overload
    def __getitem__(self, position: slice) -> CheckTable: ...
    def __getitem__(self, position: int | slice) -> Observation | CheckTable:
        if isinstance(position, slice):
            return self.take(range(len(self))[position])
        c = self.columns
        values = ((name, column[position]) for name, column in c.metrics.items())
        plain: Any = {own: getattr(c, name)[position] for name, own in OWN_NAMES.items()}
        return Observation(
            self.check, metrics={name: value for name, value in values if value is not None}, **plain
        )

    def __iter__(self) -> Iterator[Observation]:
        return map(self.__getitem__, range(len(self)))


class Observations(_ObservationTable):
    """The observations of a whole report, check by check."""

    def __init__(self, tables: Iterable[CheckTable]) -> None:
        self.parts = tuple(tables)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @overload
    def __getitem__(self, position: int) -> Observation: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Observation, ...]: ...
    def __getitem__(self, position: int | slice) -> Observation | tuple[Observation, ...]:
        if isinstance(position, slice):
            return tuple(self)[position]
        left = range(len(self))[position]
        for table in self.parts:
            if left < len(table):
                return table[left]
            left -= len(table)
        raise IndexError(position)

    def __iter__(self) -> Iterator[Observation]:
        return chain.from_iterable(self.parts)


def by_check(observations: Sequence[Observation]) -> dict[str, CheckTable]:
    """Check -> its rows, in the order in which the checks first appear."""
    if isinstance(observations, Observations) and len({table.check for table in observations.parts}) == len(
        observations.parts
    ):
        return {table.check: table for table in observations.parts}
    grouped: dict[str, list[Observation]] = {}
    for observation in observations:
        grouped.setdefault(observation.check, []).append(observation)
    return {check: CheckTable.collect(check, group) for check, group in grouped.items()}


def measured_by_check(observations: Sequence[Observation]) -> dict[str, CheckTable]:
    """Check -> its rows that measured, if there are any."""
    tables = {check: table.measured() for check, table in by_check(observations).items()}
    return {check: table for check, table in tables.items() if len(table)}


def _objects(column: Sequence[Value | None]) -> Sequence[Value | None]:
    if all(map(is_, column, islice(column, 1, None))):
        return column[:1]
    return tuple(dict(zip(map(id, column), column, strict=True)).values())


def _picker(places: Sequence[int]) -> Any:
    if len(places) == 1:
        return lambda column: (column[places[0]],)
    return itemgetter(*places) if places else lambda column: ()
