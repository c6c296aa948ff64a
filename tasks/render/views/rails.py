"""Node x rail: how far each rail of each node is from the usual value, and each node's worst pair inside (pure).

The worst nodes have a row each, as numbers; all nodes are shown as bars, one column per node. The module also chooses which heat
maps a page has room for: those with bad tests, and the ones that everybody wants to see.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better, Span
from tasks.render.views.heatmap import STEPS, TABLE, Cell, HeatMap
from tasks.render.views.pairs import inside_map, node_map, nodes_of, settled, suspected
from tasks.render.views.suspects import DecodedMatrix

MOST = 4000
MAPS, INSIDES = 6, 4


@dataclass(frozen=True)
class Strip:
    """`rows` are of the worst nodes. In `paths` (a step, a path) a node is one unit wide and a column one high; step -1
    is what was not tested. `bad`: a cell lacks the lightest shade.
    """

    title: str
    columns: tuple[str, ...]
    nodes: int
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    paths: tuple[tuple[int, str], ...]
    said: str
    bad: bool


def rail_strip(between: DecodedMatrix | None, inside: DecodedMatrix | None) -> Strip | None:
    """Of what was measured on rails, and inside of nodes; None if that is one rail, or nothing."""
    shares: dict[str, dict[str, float]] = {}
    columns: list[str] = []
    for one in (between, inside):
        if one is not None and one.decoded.noise.usual > 0:
            found = _rails(one) if one.matrix.span is Span.BETWEEN else _insides(one)
            columns += sorted({name for row in found.values() for name in row}, key=_in_order)
            for node, row in found.items():
                shares.setdefault(node, {}).update(row)
    first = between or inside
    if first is None or len(columns) < 2 or len(shares) < 2:
        return None
    order = sorted(
        (name for name in nodes_of(first) if name in shares),
        key=lambda name: min((_step(share), columns.index(column)) for column, share in shares[name].items()),
    )[:MOST]
    cells = [[_cell(shares[name].get(column)) for column in columns] for name in order]
    rows = tuple((name, tuple(row)) for name, row in zip(order[:TABLE], cells, strict=False))
    worst = min((share, name, column) for name, row in shares.items() for column, share in row.items())
    said = f"{len(order)} nodes; the least is {worst[0]:.2f} of the usual ({worst[1]}, {worst[2]})"
    paths = _paths(cells) if len(order) > len(rows) else ()
    bad = worst[0] < (STEPS - 1) / STEPS
    return Strip(f"{first.matrix.what} by rail", tuple(columns), len(order), rows, paths, said, bad)


def _rails(shown: DecodedMatrix) -> dict[str, dict[str, float]]:
    """Node -> rail -> the median over the usual of all tests from and to it."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for pair, value in settled(shown).items():
        for end in pair:
            part = shown.matrix.parts[end]
            found[part.node][f"rail {part.rail}"].append(_share(shown, value))
    return {
        node: {rail: statistics.median(all_) for rail, all_ in rails.items()} for node, rails in found.items()
    }


def _insides(shown: DecodedMatrix) -> dict[str, dict[str, float]]:
    """Node -> its worst pair over the usual."""
    found: dict[str, float] = {}
    for (source, _), value in settled(shown).items():
        node = shown.matrix.parts[source].node
        found[node] = min(found.get(node, math.inf), _share(shown, value))
    return {node: {"inside, worst pair": share} for node, share in found.items()}


def _share(shown: DecodedMatrix, value: float | None) -> float:
    """1 is usual, less is worse; nothing is 0."""
    if value is None or value <= 0:
        return 0.0
    usual = shown.decoded.noise.usual
    return value / usual if shown.matrix.better is Better.HIGHER else usual / value


def _in_order(column: str) -> tuple[bool, int]:
    number = column.rpartition(" ")[2]
    return not number.isdigit(), int(number) if number.isdigit() else 0


def _step(share: float) -> int:
    return min(STEPS - 1, math.floor(STEPS * share))


def _cell(share: float | None) -> Cell:
    return Cell("", None, False) if share is None else Cell(f"{share:.2f}", _step(share), False)


def _paths(cells: Sequence[Sequence[Cell]]) -> tuple[tuple[int, str], ...]:
    """Neighbours of one shade are one bar."""
    parts: dict[int, list[str]] = defaultdict(list)
    for y in range(len(cells[0])):
        start = 0
        steps = [row[y].step for row in cells]
        for x in range(1, len(steps) + 1):
            if x == len(steps) or steps[x] != steps[start]:
                step = steps[start]
                parts[-1 if step is None else step].append(f"M{start} {y}h{x - start}v1h-{x - start}z")
                start = x
    return tuple((step, "".join(parts[step])) for step in sorted(parts))


@dataclass(frozen=True)
class Views:
    """`hidden` matrices had no room; none of them is worse than those shown."""

    maps: tuple[HeatMap, ...]
    strips: tuple[Strip, ...]
    hidden: int


def views(shown: Sequence[DecodedMatrix]) -> Views:
    """The matrices with suspects first, then those with bad tests, then rates without any."""
    maps = list(_maps(shown))
    strips = []
    for check in dict.fromkeys(one.check for one in shown):
        rates = [one for one in shown if one.check == check and _is_rate(one)]
        between = next((one for one in rates if one.matrix.span is Span.BETWEEN), None)
        inside = next((one for one in rates if one.matrix.span is Span.INSIDE), None)
        made = rail_strip(between, inside)
        strips += [made] if made else []
    return Views(tuple(maps[:MAPS]), tuple(strips), max(0, len(maps) - MAPS))


def _maps(shown: Sequence[DecodedMatrix]) -> Iterator[HeatMap]:
    wanted = sorted(
        (one for one in shown if _is_worth(one)), key=lambda one: (not suspected(one), not one.decoded.bad)
    )
    return (made for one in wanted for made in _maps_of(one))


def _maps_of(one: DecodedMatrix) -> list[HeatMap]:
    if one.matrix.span is Span.BETWEEN:
        made = node_map(one)
        return [made] if made else []
    nodes = nodes_of(one)
    chosen = nodes if len(nodes) == 1 else suspected(one)[:INSIDES]
    return [made for node in chosen if (made := inside_map(one, node))]


def _is_worth(one: DecodedMatrix) -> bool:
    return bool(one.decoded.bad) or _is_rate(one)


def _is_rate(one: DecodedMatrix) -> bool:
    """Values of which more is better, in a unit: what is right or wrong has none."""
    return one.matrix.better is Better.HIGHER and bool(one.matrix.unit)
