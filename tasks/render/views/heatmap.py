"""A matrix of rates or times between parts as a heat map, with the bad parts together at the top left (pure).

There are six steps from nothing to the best value (or to the usual one), dark for bad. Each step is a shade of one hue, so that
every kind of colour vision puts them in the same order, and every cell that is large enough contains its number.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

TABLE, MAP = 24, 160
STEPS = 6


@dataclass(frozen=True)
class Matrix:
    """Rates from each of `names` towards each other one; what was not measured is absent or None.

    `bad` names (from, to) cells that a finding is about, `condemned` names that one is about as a whole. `names` are in
    their own order (of ranks), and are `of` one sort. Of times (`lower`) less is better. `usual` is the value that has
    the lightest shade (None: the best). Where a matrix is `sparse`, an absent cell was never to be measured.
    """

    title: str
    unit: str
    names: tuple[str, ...]
    values: Mapping[tuple[str, str], float | None]
    bad: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    condemned: frozenset[str] = field(default_factory=frozenset)
    lower: bool = False
    usual: float | None = None
    of: str = "hosts"
    sparse: bool = False
    said: str = ""


@dataclass(frozen=True)
class Cell:
    """Text is the number, "none" where nothing was measured, "" on the diagonal and where nothing was to be. `step` is 0
    (bad) to 5, None for none.
    """

    text: str
    step: int | None
    bad: bool


@dataclass(frozen=True)
class Step:
    """One shade of the key."""

    step: int
    text: str


@dataclass(frozen=True)
class HeatMap:
    """`rows` are (name, cells) of as many names as a table can show; `paths` draw all of `names`, a path a step.

    In a path one cell is one unit, and step -1 is what was not measured. `hidden` names fit into neither. `marks` are
    the middles of bad cells. `decoded` maps come from the decoder: their crosses are bad tests; others' are what findings name.
    """

    title: str
    unit: str
    names: tuple[str, ...]
    shown: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    paths: tuple[tuple[int, str], ...]
    marks: str
    key: tuple[Step, ...]
    hidden: int
    said: str
    condemned: frozenset[str]
    of: str
    decoded: bool


def heat_map(matrix: Matrix) -> HeatMap:
    """The map of a matrix."""
    ordered = _worst_together(matrix)
    names, shown = ordered[:MAP], ordered[:TABLE]
    known = [v for (a, b), v in matrix.values.items() if v is not None and a != b]
    full = _full(matrix, known)
    grid = [[_cell(matrix, a, b, full) for b in names] for a in names]
    rows = tuple((name, tuple(grid[i][: len(shown)])) for i, name in enumerate(shown))
    paths = _paths(grid) if len(names) > len(shown) else ()
    marks = _marks(grid) if paths else ""
    return HeatMap(
        matrix.title, matrix.unit, names, shown, rows, paths, marks, _key(matrix, full), len(ordered) - len(names),
        matrix.said or _said(len(names), known, matrix.unit), matrix.condemned,
        matrix.of, matrix.sparse,
    )  # fmt: skip


def _full(matrix: Matrix, known: list[float]) -> float:
    """The value that counts as a whole."""
    if matrix.usual is not None:
        return matrix.usual
    return min(known, default=0.0) if matrix.lower else max(known, default=0.0)


def _key(matrix: Matrix, full: float) -> tuple[Step, ...]:
    if matrix.lower:
        bounds = [full * STEPS / (i + 1) for i in range(STEPS)]
        ranges = [f"above {bounds[0]:.3g}", *(f"{b:.3g} to {a:.3g}" for a, b in itertools.pairwise(bounds))]
        ranges[-1] = f"up to {bounds[-2]:.3g}"
        return tuple(Step(i, text) for i, text in enumerate(ranges))
    bounds = [full * i / STEPS for i in range(STEPS + 1)]
    texts = [f"{a:.3g} to {b:.3g}" for a, b in itertools.pairwise(bounds)]
    if matrix.usual is not None:
        texts[-1] = f"{bounds[-2]:.3g} or more"
    return tuple(Step(i, text) for i, text in enumerate(texts))


def _worst_together(matrix: Matrix) -> tuple[str, ...]:
    """Those condemned as a whole, then those with the most bad cells; who is bad towards the same ones stands together."""
    place = {name: i for i, name in enumerate(matrix.names)}
    partners: dict[str, set[int]] = defaultdict(set)
    for a, b in matrix.bad:
        if a in place and b in place:
            partners[a].add(place[b])
            partners[b].add(place[a])
    return tuple(
        sorted(
            matrix.names,
            key=lambda name: (
                name not in matrix.condemned,
                -len(partners[name]),
                sorted(partners[name]),
                place[name],
            ),
        )
    )


def _cell(matrix: Matrix, a: str, b: str, full: float) -> Cell:
    if a == b or (matrix.sparse and (a, b) not in matrix.values):
        return Cell("", None, False)
    value = matrix.values.get((a, b))
    if value is None:
        return Cell("none", None, (a, b) in matrix.bad)
    share = (full / value if value > 0 else 0.0) if matrix.lower else (value / full if full > 0 else 0.0)
    return Cell(f"{value:.3g}", min(STEPS - 1, max(0, math.floor(STEPS * share))), (a, b) in matrix.bad)


def _paths(grid: list[list[Cell]]) -> tuple[tuple[int, str], ...]:
    """Neighbours of one shade are one bar: a fleet's map is a few kilobytes."""
    parts: dict[int, list[str]] = defaultdict(list)
    for y, row in enumerate(grid):
        start = 0
        for x in range(1, len(row) + 1):
            if x == len(row) or _shade(row[x]) != _shade(row[start]):
                shade = _shade(row[start])
                if shade is not None:
                    parts[shade].append(f"M{start} {y}h{x - start}v1h-{x - start}z")
                start = x
    return tuple((shade, "".join(parts[shade])) for shade in sorted(parts))


def _shade(cell: Cell) -> int | None:
    return None if not cell.text else -1 if cell.step is None else cell.step


def _marks(grid: list[list[Cell]]) -> str:
    places = ((x, y) for y, row in enumerate(grid) for x, cell in enumerate(row) if cell.bad and x != y)
    return "".join(f"M{x + 0.2:.1f} {y + 0.2:.1f}l.6 .6m0-.6l-.6 .6" for x, y in places)


def _said(names: int, known: list[float], unit: str) -> str:
    wanted = names * (names - 1)
    if not known:
        return f"none of {wanted} directions was measured"
    ends = " to ".join(dict.fromkeys((f"{min(known):.3g}", f"{max(known):.3g}")))
    said = f"{len(known)} of {wanted} directions measured, {ends} {unit}"
    return f"{said}; {wanted - len(known)} not measured" if wanted > len(known) else said
