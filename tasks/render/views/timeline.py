"""How long the checks took on the slowest node, and which were not run (pure)."""

from __future__ import annotations

from checks.documents.columns import by_check
from checks.model import CLUSTER, Report, node_of
from tasks.render.views.nodes import CheckLine


def schedule_text(report: Report) -> str:
    """How long the slowest node's checks took; "" without an observation."""
    slowest = _slowest(report)
    return (
        f"Duration: on the slowest node ({slowest[0]}) the checks took {slowest[1]:.1f} s" if slowest else ""
    )


def left_out(lines: tuple[CheckLine, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What does not apply to what is declared: the reason, and the checks' names."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        if line.planned.skip is not None:
            reasons.setdefault(line.planned.skip.value, []).append(line.planned.check)
    return tuple((reason, tuple(names)) for reason, names in reasons.items())


def _slowest(report: Report) -> tuple[str, float] | None:
    """The node whose checks ended last, and when, in seconds since its report was opened."""
    ends: dict[str, float] = {}
    for rows in by_check(report.observations).values():
        c = rows.columns
        for subject, started_s, seconds in zip(c.subjects, c.started_s, c.seconds, strict=True):
            if seconds > 0 and subject != CLUSTER:
                node = node_of(subject)
                ends[node] = max(ends.get(node, 0.0), started_s + seconds)
    return max(ends.items(), key=lambda found: (found[1], found[0]), default=None)
