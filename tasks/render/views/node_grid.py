"""Node x check for a page of any size: one line for each node, the worst first (pure).

Checks that passed on every node that reported share one column once there are more of them than a screen is wide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from checks.model import Report, Scope, Verdict
from tasks.render.views.nodes import CheckLine, NodeLine, State, check_lines, node_lines

COLUMNS = 12


@dataclass(frozen=True)
class Grid:
    """`columns` are the worst check first; `merged` were passed by every node, and are the last column together.

    `lines` have a state per column. `counts` are (state, nodes), worst first.
    """

    columns: tuple[CheckLine, ...]
    merged: tuple[CheckLine, ...]
    lines: tuple[NodeLine, ...]
    counts: tuple[tuple[State, int], ...]


def grid(report: Report, verdict: Verdict) -> Grid:
    """All nodes of the report, declared or reported."""
    lines, checks = node_lines(report, verdict), check_lines(report, verdict)
    places = [place for place, check in enumerate(checks) if _of_nodes(check)]
    places.sort(key=lambda place: -checks[place].state)
    merged = _merged(places, lines)
    own = [place for place in places if place not in merged]
    counts = Counter(line.state for line in lines if not line.is_cluster)
    return Grid(
        tuple(checks[place] for place in own),
        tuple(checks[place] for place in places if place in merged),
        tuple(_grid_line(line, own, merged) for line in lines),
        tuple((state, counts[state]) for state in sorted(counts, reverse=True)),
    )


def _merged(places: Sequence[int], lines: Sequence[NodeLine]) -> frozenset[int]:
    if len(places) <= COLUMNS:
        return frozenset()
    # A node that never reported lacks every check: its line says so, and no single check does.
    reported = [line for line in lines if line.rank is not None or line.is_cluster]
    unwell = {place for line in reported for place, cell in enumerate(line.cells) if cell > State.PASS}
    return frozenset(place for place in places if place not in unwell)


def _grid_line(line: NodeLine, own: list[int], merged: frozenset[int]) -> NodeLine:
    cells = [line.cells[place] for place in own]
    if merged:
        cells.append(max(line.cells[place] for place in merged))
    return replace(line, cells=tuple(cells))


def _of_nodes(line: CheckLine) -> bool:
    """Whether a node has a cell of this check."""
    return line.planned.skip is None and line.planned.scope is not Scope.CLUSTER
