"""Made-up metrics with as much in them as a plan demands. It imports little, because fake nodes start in their own processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from checks.model import Planned, Report, Value
from checks.model_details import Contents

# Metrics that count work; all others that the plan says the contents of are lists.
COUNTS = frozenset(("names", "products", "repeats", "rounds", "steps"))


def with_contents(made: Mapping[str, Value], planned: Planned) -> dict[str, Value]:
    """The metrics with lists as long as the plan wants them, and so much work."""
    sizes, result = dict[str, int](), dict(made)
    for held in planned.holds:
        name, value, size = held.metric, made.get(held.metric), len(held.labels) + held.count
        if name in COUNTS and type(value) is int:
            result[name] = max(held.count, value)
        elif name in planned.metrics or value is not None:
            sizes[name] = size = max(size, 1)
            result[name] = _elements(held, value, size)
    for name, value in made.items():
        owner = next((held.metric for held in planned.holds if name in held.along), None)
        owner = owner or (planned.holds[0].metric if planned.holds else None)
        if isinstance(value, tuple) and name not in sizes and owner in sizes:
            result[name] = value[:1] * sizes[owner]
    return result


def _elements(held: Contents, value: Value | None, size: int) -> Value:
    """So many of the list, as its rules want them, or else labels."""
    if held.metric.startswith("sizes_"):
        return tuple(2 ** (31 - size + index) for index in range(size))
    counted = isinstance(value, tuple) and isinstance(value[0], (str, int)) and value[0] != 0
    if held.labels or value == 1 or counted:
        word = "GPU" if held.metric == "gpus" else held.metric
        return (*(f"{word} {index}" for index in range(size - len(held.labels))), *held.labels)
    one = value[:1] if isinstance(value, tuple) else (value,)
    return one * size  # type: ignore[return-value]


def with_later_checks(report: Report, plan: Iterable[Planned]) -> Report:
    """A recorded report with the checks of today's plan that came later and that its machines have no part for."""
    names = {planned.check for planned in report.plan}
    return replace(report, plan=(*report.plan, *(one for one in plan if one.skip and one.check not in names)))
