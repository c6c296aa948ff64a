"""Rates and times between parts as heat maps: of the decoder's matrices, and of the bandwidth of network.pairs (pure).

A decoder's matrix is shown as nodes x nodes, by the worst rail of each pair, and as the ranks of one node. A map has the worst parts
alone, the bad ones together at the top left. There are six steps from nothing to the best value (or to the usual one), dark for bad;
each is a shade of one hue, so that every kind of colour vision puts them in the same order, and every cell contains its number.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.culprit.matrix import Better, Kind, Part, Span
from checks.documents.columns import by_check
from checks.judge.reachability import PAIRS
from checks.model import CLUSTER, Outcome, Report, Verdict
from tasks.render.views.nodes import places
from tasks.render.views.suspects import DecodedMatrix

# A map has so many parts; the sentence above one of network.pairs is about more of them.
TABLE, MEASURED = 24, 160
STEPS = 6
# So many maps have room on a page, and so many nodes of one matrix of the insides of nodes.
MAPS, INSIDES = 6, 4


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
class HeatMap:
    """`rows` are (name, cells) of the worst parts, `hidden` more have no room; `key` has the values of each step, `said` the whole in
    a sentence. `decoded` maps come from the decoder: their crosses are bad tests; others' are what findings name.
    """

    title: str
    unit: str
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    key: tuple[str, ...]
    hidden: int
    said: str
    condemned: frozenset[str]
    of: str
    decoded: bool

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
    parts, matrix = shown.matrix.parts, shown.matrix
    cells: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for (source, target), value in settled(shown).items():
        if kept(parts[source], parts[target]):
            cells[name(parts[source]), name(parts[target])].append(value)
    if not cells:
        return None
    ends = {end for pair in cells for end in pair}
    names = tuple(dict.fromkeys(name(part) for part in parts if name(part) in ends))
    bad = {(name(parts[matrix.sources[k]]), name(parts[matrix.targets[k]])) for k in shown.decoded.bad}
    blamed = {s.subject for s in shown.decoded.suspects if s.kind in (Kind.NODE, Kind.RANK)}
    return heat_map(Matrix(
        title[:1].upper() + title[1:], matrix.unit, names,
        {pair: _worst(values, matrix.better) for pair, values in cells.items()},
        frozenset(bad & cells.keys()), frozenset(name(part) for part in parts if blamed & {part.name, part.node}),
        lower=matrix.better is Better.LOWER, usual=shown.decoded.noise.usual or None, of=of, sparse=True,
        said=_tested(shown, cells, len(names), of),
    ))  # fmt: skip


def _tested(
    shown: DecodedMatrix, cells: Mapping[tuple[str, str], list[float | None]], names: int, of: str
) -> str:
    rails = len({part.rail for part in shown.matrix.parts})
    said = f"{len(cells)} of {names * (names - 1)} directions tested"
    if of == "nodes" and rails > 1:
        said += f", the worst of {rails} rails"
    nothing = sum(value is None for values in cells.values() for value in values)
    return f"{said}; {nothing} tests gave nothing" if nothing else said


def heat_map(matrix: Matrix) -> HeatMap:
    """The map of a matrix."""
    names = _worst_together(matrix)
    known = [v for (a, b), v in matrix.values.items() if v is not None and a != b]
    full = matrix.usual or (min if matrix.lower else max)(known, default=0.0)
    rows = tuple((a, tuple(_cell(matrix, a, b, full) for b in names[:TABLE])) for a in names[:TABLE])
    said = matrix.said or _measured(min(MEASURED, len(names)), known, matrix.unit)
    return HeatMap(
        matrix.title, matrix.unit, rows, _key(matrix, full), max(0, len(names) - TABLE), said, matrix.condemned,
        matrix.of, matrix.sparse,
    )  # fmt: skip


def _key(matrix: Matrix, full: float) -> tuple[str, ...]:
    if matrix.lower:
        bounds = [full * STEPS / (i + 1) for i in range(STEPS)]
        texts = [f"above {bounds[0]:.3g}", *(f"{b:.3g} to {a:.3g}" for a, b in itertools.pairwise(bounds))]
        texts[-1] = f"up to {bounds[-2]:.3g}"
        return tuple(texts)
    bounds = [full * i / STEPS for i in range(STEPS + 1)]
    texts = [f"{a:.3g} to {b:.3g}" for a, b in itertools.pairwise(bounds)]
    if matrix.usual is not None:
        texts[-1] = f"{bounds[-2]:.3g} or more"
    return tuple(texts)


def _worst_together(matrix: Matrix) -> tuple[str, ...]:
    """Those condemned as a whole, then those with the most bad cells; who is bad towards the same ones stands together."""
    place = {name: i for i, name in enumerate(matrix.names)}
    partners: dict[str, set[int]] = defaultdict(set)
    for a, b in matrix.bad:
        if a in place and b in place:
            partners[a].add(place[b])
            partners[b].add(place[a])

    def rank(name: str) -> tuple[object, ...]:
        return name not in matrix.condemned, -len(partners[name]), sorted(partners[name]), place[name]

    return tuple(sorted(matrix.names, key=rank))


def _cell(matrix: Matrix, a: str, b: str, full: float) -> Cell:
    if a == b or (matrix.sparse and (a, b) not in matrix.values):
        return Cell("", None, False)
    value = matrix.values.get((a, b))
    if value is None:
        return Cell("none", None, (a, b) in matrix.bad)
    share = (full / value if value > 0 else 0.0) if matrix.lower else (value / full if full > 0 else 0.0)
    return Cell(f"{value:.3g}", min(STEPS - 1, max(0, math.floor(STEPS * share))), (a, b) in matrix.bad)


def _measured(names: int, known: list[float], unit: str) -> str:
    wanted = names * (names - 1)
    if not known:
        return f"none of {wanted} directions was measured"
    ends = " to ".join(dict.fromkeys((f"{min(known):.3g}", f"{max(known):.3g}")))
    said = f"{len(known)} of {wanted} directions measured, {ends} {unit}"
    return f"{said}; {wanted - len(known)} not measured" if wanted > len(known) else said


def pair_map(report: Report, verdict: Verdict) -> HeatMap | None:
    """The heat map of network.pairs; None if it was not measured."""
    matrix = pair_matrix(report, verdict)
    return None if matrix is None else heat_map(matrix)


def pair_matrix(report: Report, verdict: Verdict) -> Matrix | None:
    """10^9 bytes/s over TCP from host to host; None if nothing was measured. Those that findings name are never cut."""
    rows = by_check(report.observations).get(PAIRS, ())
    measured = {row.subject: row.metrics for row in rows if row.outcome is Outcome.MEASURED}
    blamed = {places(f.subject) for f in verdict.findings if f.check == PAIRS and f.subject != CLUSTER}
    named = {place for subject in blamed for place in subject}
    ranks = {node.name: node.rank for node in report.nodes}
    # Only what is a node of this report gets a row: peers' names are text that a node wrote.
    first = sorted(ranks, key=lambda name: (name not in named, ranks[name], name))
    kept = set(first[:MEASURED])
    values: dict[tuple[str, str], float | None] = {}
    for name in kept & set(measured):
        peers, speeds = measured[name].get("peers"), measured[name].get("bandwidth_gbps")
        if isinstance(peers, tuple) and isinstance(speeds, tuple):
            cells = zip(map(str, peers), speeds, strict=False)
            values.update({(name, peer): _number(speed) for peer, speed in cells if peer in kept})
    if not values:
        return None
    names = tuple(sorted(ranks, key=lambda name: (name not in kept, ranks[name], name)))
    ends = [(subject[0], subject[1]) for subject in blamed if len(subject) == 2]
    links = frozenset([*ends, *((b, a) for a, b in ends)])
    alone = frozenset(subject[0] for subject in blamed if len(subject) == 1)
    return Matrix("Bandwidth between hosts", "GB/s", names, values, links, alone)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= 1e18 else None
