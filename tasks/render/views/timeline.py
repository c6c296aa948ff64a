"""When each check ran on one node, as text and as bars for a chart (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from checks.documents.columns import by_check
from checks.model import Report, node_of
from checks.runner.schedule import NodeTimes, node_times
from tasks.render.views.nodes import CheckLine

BARS = 80


@dataclass(frozen=True)
class Bar:
    """One check on the node; `left` and `width` are percent of the node's time, of a rank check over all its ranks."""

    check: str
    left: float
    width: float
    text: str


@dataclass(frozen=True)
class Timeline:
    """The slowest node's checks in the order of their start."""

    node: str
    said: str
    bars: tuple[Bar, ...]
    hidden: int


def schedule_text(report: Report) -> str:
    """How long the slowest node's checks took, and how long in a row; "" without an observation."""
    slowest = _slowest(report)
    if slowest is None:
        return ""
    return (
        f"Duration: on the slowest node ({slowest.node}) the checks took {slowest.wall_s:.1f} s; "
        f"many ran at the same time, or it would have been {slowest.in_a_row_s:.1f} s"
    )


def timeline(report: Report) -> Timeline | None:
    """The chart of the slowest node; None if nothing was timed."""
    slowest = _slowest(report)
    if slowest is None:
        return None
    spans: dict[str, tuple[float, float]] = {}
    for check, rows in by_check(report.observations).items():
        c = rows.columns
        for subject, started_s, seconds in zip(c.subjects, c.started_s, c.seconds, strict=True):
            if seconds > 0 and subject.startswith(slowest.node) and node_of(subject) == slowest.node:
                start, end = spans.get(check, (started_s, 0.0))
                spans[check] = min(start, started_s), max(end, started_s + seconds)
    whole = max((end for _, end in spans.values()), default=0.0) or 1.0
    ordered = sorted(spans.items(), key=lambda item: (item[1], item[0]))
    bars = tuple(
        Bar(
            check, 100 * min(start / whole, 1.0), max(0.4, 100 * (end - start) / whole),
            f"from {start:.1f} s, for {end - start:.1f} s",
        )
        for check, (start, end) in ordered[:BARS]
    )  # fmt: skip
    return Timeline(slowest.node, schedule_text(report), bars, len(ordered) - len(bars))


def left_out(lines: tuple[CheckLine, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What does not apply to what is declared: the reason, and the checks' names."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        if line.planned.skip is not None:
            reasons.setdefault(line.planned.skip.value, []).append(line.planned.check)
    return tuple((reason, tuple(names)) for reason, names in reasons.items())


def _slowest(report: Report) -> NodeTimes | None:
    return max(node_times(report.observations), key=lambda one: (one.wall_s, one.node), default=None)
