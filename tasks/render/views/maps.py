"""The decoder's matrices as heat maps: nodes x nodes by the worst rail of each pair, and the ranks of one node (pure).

A map has the worst parts alone, the bad ones together at the top left. There are six steps from nothing to the usual value, dark for
bad; each is a shade of one hue, so that every kind of colour vision puts them in the same order, and every cell contains its number.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better, Kind, Part, Span
from tasks.render.views.suspects import DecodedMatrix

# A map has so many parts.
TABLE = 24
STEPS = 6
# So many maps have room on a page, and so many nodes of one matrix of the insides of nodes.
MAPS, INSIDES = 6, 4
Values = Mapping[tuple[str, str], float | None]


@dataclass(frozen=True)
class Cell:
    """Text is the number, "none" where a test gave nothing, "" where none was to be made. `step` is 0 (bad) to 5, None for none."""

    text: str
    step: int | None
    bad: bool


@dataclass(frozen=True)
class HeatMap:
    """`rows` are (name, cells) of the worst parts, `hidden` more have no room; `key` has the values of each step, `said` the whole in
    a sentence.
    """

    title: str
    unit: str
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    key: tuple[str, ...]
    hidden: int
    said: str
    condemned: frozenset[str]
    of: str

    @property
    def names(self) -> tuple[str, ...]:
        """The parts, which the columns are, too."""
        return tuple(name for name, _ in self.rows)


def maps_of(shown: Sequence[DecodedMatrix]) -> tuple[tuple[HeatMap, ...], int]:
    """The maps of the matrices with suspects first, then those with bad tests, then rates without any; and how many more had no room,
    none of them worse.
    """
    worth = (
        one for one in shown if one.decoded.bad or (one.matrix.better is Better.HIGHER and one.matrix.unit)
    )
    ordered = sorted(worth, key=lambda one: (not _suspected(one), not one.decoded.bad))
    maps = [made for one in ordered for made in _maps_of(one)]
    return tuple(maps[:MAPS]), max(0, len(maps) - MAPS)


def _maps_of(one: DecodedMatrix) -> Iterator[HeatMap]:
    if one.matrix.span is Span.BETWEEN:
        found = [node_map(one)]
    else:
        nodes = _nodes_of(one)
        found = [inside_map(one, node) for node in (nodes if len(nodes) == 1 else _suspected(one)[:INSIDES])]
    return (made for made in found if made is not None)


def node_map(shown: DecodedMatrix) -> HeatMap | None:
    """Nodes x nodes; of several rails the worst of each pair. None without a test between nodes."""
    return _map(shown, shown.title, lambda part: part.node, "nodes", lambda a, b: a.node != b.node)


def inside_map(shown: DecodedMatrix, node: str) -> HeatMap | None:
    """The ranks of one node, each towards each other; None without a test of them."""
    title = f"{shown.title}, {node}" if len(_nodes_of(shown)) > 1 else shown.title
    # Without the node's name, which the title has.
    return _map(
        shown, title, lambda part: part.name.removeprefix(f"{part.node}/") or part.name, "ranks",
        lambda a, b: a.node == b.node == node,
    )  # fmt: skip


def _nodes_of(shown: DecodedMatrix) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.node for part in shown.matrix.parts))


def _suspected(shown: DecodedMatrix) -> tuple[str, ...]:
    """The nodes that suspects lie on, the likeliest first."""
    return tuple(dict.fromkeys(node for suspect in shown.decoded.suspects for node in suspect.nodes))


def settled(shown: DecodedMatrix) -> dict[tuple[int, int], float | None]:
    """What each two parts came to: the median where they were tested again, None where most tests gave nothing."""
    found: dict[tuple[int, int], list[float | None]] = defaultdict(list)
    matrix = shown.matrix
    for source, target, value in zip(matrix.sources, matrix.targets, matrix.values, strict=True):
        found[source, target].append(value)
    return {pair: _settled(values) for pair, values in found.items()}


def _settled(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and 2 * len(known) >= len(values) else None


def _worst(values: Iterable[float | None], better: Better) -> float | None:
    """The worst of some; nothing at all is worse than any."""
    numbers = list[float]()
    for value in values:
        if value is None:
            return None
        numbers.append(value)
    return min(numbers) if better is Better.HIGHER else max(numbers)


def _map(
    shown: DecodedMatrix, title: str, name: Callable[[Part], str], of: str, kept: Callable[[Part, Part], bool]
) -> HeatMap | None:
    parts, matrix, decoded = shown.matrix.parts, shown.matrix, shown.decoded
    tests: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for (source, target), value in settled(shown).items():
        if kept(parts[source], parts[target]):
            tests[name(parts[source]), name(parts[target])].append(value)
    if not tests:
        return None
    values = {pair: _worst(some, matrix.better) for pair, some in tests.items()}
    bad = {
        (name(parts[matrix.sources[k]]), name(parts[matrix.targets[k]])) for k in decoded.bad
    } & tests.keys()
    blamed = {s.subject for s in decoded.suspects if s.kind in (Kind.NODE, Kind.RANK)}
    condemned = frozenset(name(part) for part in parts if blamed & {part.name, part.node})
    ends = {end for pair in tests for end in pair}
    names = [name(part) for part in parts if name(part) in ends]
    ordered = _worst_together(tuple(dict.fromkeys(names)), bad, condemned)
    lower = matrix.better is Better.LOWER
    known = [value for value in values.values() if value is not None]
    usual = decoded.noise.usual or (min if lower else max)(known, default=0.0)
    first = ordered[:TABLE]
    rows = tuple((a, tuple(_cell(values, bad, (a, b), lower, usual) for b in first)) for a in first)
    nothing = sum(value is None for some in tests.values() for value in some)
    return HeatMap(
        title[:1].upper() + title[1:], matrix.unit, rows, _key(lower, usual), len(ordered) - len(first),
        _tested(shown, len(tests), nothing, len(ordered), of), condemned, of,
    )  # fmt: skip


def _tested(shown: DecodedMatrix, tests: int, nothing: int, names: int, of: str) -> str:
    rails = len({part.rail for part in shown.matrix.parts})
    said = f"{tests} of {names * (names - 1)} directions tested"
    if of == "nodes" and rails > 1:
        said += f", the worst of {rails} rails"
    return f"{said}; {nothing} tests gave nothing" if nothing else said


def _key(lower: bool, usual: float) -> tuple[str, ...]:
    if lower:
        bounds = [usual * STEPS / (i + 1) for i in range(STEPS)]
        between = [f"{b:.3g} to {a:.3g}" for a, b in itertools.pairwise(bounds)]
        return (f"above {bounds[0]:.3g}", *between[:-1], f"up to {bounds[-2]:.3g}")
    bounds = [usual * i / STEPS for i in range(STEPS)]
    return (*(f"{a:.3g} to {b:.3g}" for a, b in itertools.pairwise(bounds)), f"{bounds[-1]:.3g} or more")


def _worst_together(
    names: Sequence[str], bad: Collection[tuple[str, str]], condemned: Collection[str]
) -> tuple[str, ...]:
    """Those condemned as a whole, then those with the most bad cells; who is bad towards the same ones stands together."""
    place = {name: i for i, name in enumerate(names)}
    partners: dict[str, set[int]] = defaultdict(set)
    for a, b in bad:
        partners[a].add(place[b])
        partners[b].add(place[a])

    def rank(name: str) -> tuple[object, ...]:
        return name not in condemned, -len(partners[name]), sorted(partners[name]), place[name]

    return tuple(sorted(names, key=rank))


def _cell(
    values: Values, bad: Collection[tuple[str, str]], pair: tuple[str, str], lower: bool, usual: float
) -> Cell:
    if pair not in values:
        return Cell("", None, False)
    value = values[pair]
    if value is None:
        return Cell("none", None, pair in bad)
    share = (usual / value if value > 0 else 0.0) if lower else (value / usual if usual > 0 else 0.0)
    return Cell(f"{value:.3g}", min(STEPS - 1, max(0, math.floor(STEPS * share))), pair in bad)
