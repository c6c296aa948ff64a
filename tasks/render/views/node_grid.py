"""Node x check for a page of any size: one line for each of the worst nodes, one tile for each other node, none left out (pure).

Checks that passed on every node that reported share one column once there are more of them than a screen is wide.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from checks.model import Report, Scope, Verdict
from tasks.render.views.nodes import CheckLine, Line, State, check_lines, node_lines

LINES = 60
# As many healthy nodes as this have lines of their own; of more the tiles tell the same.
FEW = 12
COLUMNS = 12
TILES = 5000


@dataclass(frozen=True)
class Grid:
    """`columns` are the worst check first; `merged` were passed by every node, and are the last column together.

    `lines` have a state per column. `unwell` and `well` are the nodes without a line, of which each has a tile. `counts` are (state,
    nodes), worst first. `hidden` nodes have no tile either.
    """

    columns: tuple[CheckLine, ...]
    merged: tuple[CheckLine, ...]
    lines: tuple[Line, ...]
    unwell: tuple[Line, ...]
    well: tuple[Line, ...]
    counts: tuple[tuple[State, int], ...]
    hidden: int

    @property
    def width(self) -> int:
        """How many columns of states there are."""
        return len(self.columns) + bool(self.merged)


def grid(report: Report, verdict: Verdict) -> Grid:
    """All nodes of the report, declared or reported."""
    lines, checks = node_lines(report, verdict), check_lines(report, verdict)
    cluster = [line for line in lines if line.is_cluster]
    nodes = [line for line in lines if not line.is_cluster]
    places = [place for place, check in enumerate(checks) if _of_nodes(check)]
    places.sort(key=lambda place: -checks[place].state)
    merged = _merged(places, [*cluster, *nodes])
    own = [place for place in places if place not in merged]
    many = _lines(nodes)
    shown = [_grid_line(line, own, merged) for line in (*cluster, *nodes[:many])]
    rest = nodes[many:]
    counts = Counter(line.state for line in nodes)
    return Grid(
        tuple(checks[place] for place in own),
        tuple(checks[place] for place in places if place in merged),
        tuple(shown),
        tuple(line for line in rest[:TILES] if line.state > State.PASS),
        tuple(line for line in rest[:TILES] if line.state <= State.PASS),
        tuple((state, counts[state]) for state in sorted(counts, reverse=True)),
        max(0, len(rest) - TILES),
    )


def _lines(nodes: list[Line]) -> int:
    """How many nodes have a line: those that are not well, up to LINES, and at least a few."""
    unwell = sum(line.state > State.PASS for line in nodes)
    return len(nodes) if len(nodes) <= FEW else max(FEW, min(unwell, LINES))


def _merged(places: list[int], lines: list[Line]) -> frozenset[int]:
    if len(places) <= COLUMNS:
        return frozenset()
    # A node that never reported lacks every check: its line says so, and no single check does.
    lines = [line for line in lines if line.rank is not None or line.is_cluster]
    unwell = {place for line in lines for place, cell in enumerate(line.cells) if cell > State.PASS}
    return frozenset(place for place in places if place not in unwell)


def _grid_line(line: Line, own: list[int], merged: frozenset[int]) -> Line:
    cells = [line.cells[place] for place in own]
    if merged:
        cells.append(max(line.cells[place] for place in merged))
    return replace(line, cells=tuple(cells))


def _of_nodes(line: CheckLine) -> bool:
    """Whether a node has a cell of this check."""
    return line.planned.skip is None and line.planned.scope is not Scope.CLUSTER
