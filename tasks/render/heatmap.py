"""A matrix of rates between parts as a heat map: who is bad stands together at the top left (pure).

Six steps from 0 to the best value, dark for slow; each step is a shade of one hue, so that every kind of colour sight
puts them in the same order, and every cell that can be read bears its number.
"""

from __future__ import annotations

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
    their own order (of ranks).
    """

    title: str
    unit: str
    names: tuple[str, ...]
    values: Mapping[tuple[str, str], float | None]
    bad: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    condemned: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Cell:
    """Text is the number, "none" where nothing was measured, "" on the diagonal. `step` is 0 (slow) to 5, None for none."""

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
    the middles of bad cells. `steps` are the same cells as numbers, None on the diagonal.
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
    steps: tuple[tuple[int | None, ...], ...]


def heat_map(matrix: Matrix) -> HeatMap:
    """The map of a matrix."""
    ordered = _worst_together(matrix)
    names, shown = ordered[:MAP], ordered[:TABLE]
    known = [v for (a, b), v in matrix.values.items() if v is not None and a != b]
    top = max(known, default=0.0)
    grid = [[_cell(matrix, a, b, top) for b in names] for a in names]
    rows = tuple((name, tuple(grid[i][: len(shown)])) for i, name in enumerate(shown))
    paths = _paths(grid) if len(names) > len(shown) else ()
    marks = _marks(grid) if paths else ""
    key = tuple(Step(i, f"{top * i / STEPS:.3g} to {top * (i + 1) / STEPS:.3g}") for i in range(STEPS))
    return HeatMap(
        matrix.title, matrix.unit, names, shown, rows, paths, marks, key, len(ordered) - len(names),
        _said(len(names), known, matrix.unit), matrix.condemned,
        tuple(tuple(_shade(cell, x == y) for x, cell in enumerate(row)) for y, row in enumerate(grid)),
    )  # fmt: skip


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


def _cell(matrix: Matrix, a: str, b: str, top: float) -> Cell:
    if a == b:
        return Cell("", None, False)
    value = matrix.values.get((a, b))
    if value is None:
        return Cell("none", None, (a, b) in matrix.bad)
    step = min(STEPS - 1, max(0, math.floor(STEPS * value / top))) if top > 0 else 0
    return Cell(f"{value:.3g}", step, (a, b) in matrix.bad)


def _paths(grid: list[list[Cell]]) -> tuple[tuple[int, str], ...]:
    """Neighbours of one shade are one bar: a fleet's map is a few kilobytes."""
    parts: dict[int, list[str]] = defaultdict(list)
    for y, row in enumerate(grid):
        start = 0
        for x in range(1, len(row) + 1):
            if x == len(row) or _shade(row[x], x == y) != _shade(row[start], start == y):
                shade = _shade(row[start], start == y)
                if shade is not None:
                    parts[shade].append(f"M{start} {y}h{x - start}v1h-{x - start}z")
                start = x
    return tuple((shade, "".join(parts[shade])) for shade in sorted(parts))


def _shade(cell: Cell, is_diagonal: bool) -> int | None:
    return None if is_diagonal else -1 if cell.step is None else cell.step


def _marks(grid: list[list[Cell]]) -> str:
    places = ((x, y) for y, row in enumerate(grid) for x, cell in enumerate(row) if cell.bad and x != y)
    return "".join(f"M{x + 0.2:.1f} {y + 0.2:.1f}l.6 .6m0-.6l-.6 .6" for x, y in places)


def _said(names: int, known: list[float], unit: str) -> str:
    wanted = names * (names - 1)
    if not known:
        return f"none of {wanted} directions was measured"
    said = f"{len(known)} of {wanted} directions measured, {min(known):.3g} to {max(known):.3g} {unit}"
    return f"{said}; {wanted - len(known)} not measured" if wanted > len(known) else said
