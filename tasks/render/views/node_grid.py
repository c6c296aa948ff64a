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
    places = [index for index, check in enumerate(checks) if _of_nodes(check)]
    places.sort(key=lambda index: -checks[index].state)
    merged = _merged(places, lines)
    own = [index for index in places if index not in merged]
    counts = Counter(line.state for line in lines if not line.is_cluster)
    return Grid(
        tuple(checks[index] for index in own),
        tuple(checks[index] for index in places if index in merged),
        tuple(_grid_line(line, own, merged) for line in lines),
        tuple((state, counts[state]) for state in sorted(counts, reverse=True)),
    )


def _merged(places: Sequence[int], lines: Sequence[NodeLine]) -> frozenset[int]:
    if len(places) <= COLUMNS:
        return frozenset()
    # A node that never reported lacks every check: its line says so, and no single check does.
    reported = [line for line in lines if line.rank is not None or line.is_cluster]
    unwell = {index for line in reported for index, cell in enumerate(line.cells) if cell > State.PASS}
    return frozenset(index for index in places if index not in unwell)


def _grid_line(line: NodeLine, own: list[int], merged: frozenset[int]) -> NodeLine:
    cells = [line.cells[index] for index in own]
    if merged:
        cells.append(max(line.cells[index] for index in merged))
    return replace(line, cells=tuple(cells))


def _of_nodes(line: CheckLine) -> bool:
    """Whether a node has a cell of this check."""
    return line.planned.skip is None and line.planned.scope is not Scope.CLUSTER
