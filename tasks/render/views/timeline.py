"""How long the checks took on the slowest node, and which were not run (pure)."""

from __future__ import annotations

from checks.model import Report
from checks.runner.schedule import node_times
from tasks.render.views.nodes import CheckLine


def schedule_text(report: Report) -> str:
    """How long the slowest node's checks took, and how long in a row; "" without an observation."""
    slowest = max(node_times(report.observations), key=lambda one: (one.wall_s, one.node), default=None)
    if slowest is None:
        return ""
    return (
        f"Duration: on the slowest node ({slowest.node}) the checks took {slowest.wall_s:.1f} s; "
        f"many ran at the same time, or it would have been {slowest.in_a_row_s:.1f} s"
    )


def left_out(lines: tuple[CheckLine, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What does not apply to what is declared: the reason, and the checks' names."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        if line.planned.skip is not None:
            reasons.setdefault(line.planned.skip.value, []).append(line.planned.check)
    return tuple((reason, tuple(names)) for reason, names in reasons.items())
