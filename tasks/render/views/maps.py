"""The matrices that have a bad test as heat maps: nodes x nodes by the worst rail of each pair, or the ranks of one node (pure).

A map has the worst parts alone, those with the most bad tests first. Six steps lead from nothing to the usual value, dark for bad;
each is a shade of one hue, so that every kind of colour vision puts them in the same order, and every cell contains its number.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better, Span
from tasks.render.views.suspects import DecodedMatrix

# A map has so many parts, and a page so many maps.
TABLE, MAPS, STEPS = 24, 6, 6
Pair = tuple[str, str]


@dataclass(frozen=True)
class MapCell:
    """Text is the number, "none" where a test gave nothing, "" where none was to be made. `step` is 0 (bad) to 5, None for none."""

    text: str = ""
    step: int | None = None
    bad: bool = False


@dataclass(frozen=True)
class HeatMap:
    """`rows` are (name, cells) of the worst parts, which the columns are, too; `hidden` more have no room."""

    title: str
    unit: str
    lines: tuple[tuple[str, tuple[MapCell, ...]], ...]
    hidden: int


def maps_of(matrices: Sequence[DecodedMatrix]) -> tuple[HeatMap, ...]:
    """One map of each matrix with a bad test, those that name a suspect first."""
    bad = [matrix for matrix in matrices if matrix.decoded.bad]
    return tuple(map(heat_map, sorted(bad, key=lambda matrix: not matrix.decoded.suspects)[:MAPS]))


def heat_map(tested: DecodedMatrix) -> HeatMap:
    """The nodes towards each other; of a matrix inside nodes the ranks of the likeliest suspect's node, or of the first bad test's."""
    matrix, ends, title = tested.matrix, tested.matrix.endpoints, tested.title
    names = [end.node for end in ends]
    if matrix.span is not Span.BETWEEN:
        suspected = [node for suspect in tested.decoded.suspects for node in suspect.nodes]
        node = suspected[0] if suspected else ends[matrix.sources[min(tested.decoded.bad)]].node
        names = [end.name.removeprefix(f"{node}/") if end.node == node else "" for end in ends]
        title = f"{title}, {node}"
    tests: dict[Pair, list[float | None]] = defaultdict(list)
    for (source, target), value in settled(tested).items():
        if names[source] and names[target]:
            tests[names[source], names[target]].append(value)
    bad = {(names[matrix.sources[k]], names[matrix.targets[k]]) for k in tested.decoded.bad}
    many = Counter(end for pair in bad for end in pair)
    ordered = sorted(dict.fromkeys(end for pair in tests for end in pair), key=lambda name: -many[name])
    first = ordered[:TABLE]
    lines = tuple((a, tuple(_cell(tested, tests.get((a, b)), (a, b) in bad) for b in first)) for a in first)
    return HeatMap(title[:1].upper() + title[1:], matrix.unit, lines, len(ordered) - len(first))


def settled(tested: DecodedMatrix) -> dict[tuple[int, int], float | None]:
    """What each two parts came to: the median where they were tested again, None where most tests gave nothing."""
    medians: dict[tuple[int, int], list[float | None]] = defaultdict(list)
    matrix = tested.matrix
    for source, target, value in zip(matrix.sources, matrix.targets, matrix.values, strict=True):
        medians[source, target].append(value)
    return {pair: _settled(values) for pair, values in medians.items()}


def _settled(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.median(numbers) if numbers and 2 * len(numbers) >= len(values) else None


def _cell(matrix: DecodedMatrix, tests: Sequence[float | None] | None, bad: bool) -> MapCell:
    """The worst of the tests of two parts; nothing at all is worse than any number."""
    if tests is None:
        return MapCell()
    values = [value for value in tests if value is not None]
    if len(values) < len(tests):
        return MapCell("none", None, bad)
    lower = matrix.matrix.better is Better.LOWER
    value, usual = (max if lower else min)(values), matrix.decoded.noise.usual
    over, under = (usual, value) if lower else (value, usual)
    step = int(STEPS * over / under) if under > 0 else 0
    return MapCell(f"{value:.3g}", min(STEPS - 1, max(0, step)), bad)
