"""Measurements between hosts as heat maps: a decoder's matrix, and the bandwidth of network.pairs (pure).

A decoder's matrix is shown as nodes x nodes, by the worst rail of each pair, and as the ranks of one node.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from checks.culprit.matrix import Better, Kind, Part, Span
from checks.documents.columns import by_check
from checks.judge.reachability import PAIRS
from checks.model import CLUSTER, Outcome, Report, Verdict
from tasks.render.views import heatmap
from tasks.render.views.heatmap import MAP, HeatMap, Matrix, heat_map
from tasks.render.views.nodes import places
from tasks.render.views.suspects import DecodedMatrix

Pair = tuple[int, int]
TITLE, UNIT = "Bandwidth between hosts", "GB/s"


def node_map(shown: DecodedMatrix) -> HeatMap | None:
    """Nodes x nodes; of several rails the worst of each pair. None without a test between nodes."""
    return _map(shown, shown.title, lambda part: part.node, "nodes", lambda a, b: a.node != b.node)


def inside_map(shown: DecodedMatrix, node: str) -> HeatMap | None:
    """The ranks of one node, each towards each other; None without a test of them."""
    title = f"{shown.title}, {node}" if len(nodes_of(shown)) > 1 else shown.title
    return _map(shown, title, _own_name, "ranks", lambda a, b: a.node == b.node == node)


def nodes_of(shown: DecodedMatrix) -> tuple[str, ...]:
    """The nodes that have parts, in their order."""
    return tuple(dict.fromkeys(part.node for part in shown.matrix.parts))


def suspected(shown: DecodedMatrix) -> tuple[str, ...]:
    """The nodes that suspects lie on, the likeliest first."""
    return tuple(dict.fromkeys(node for suspect in shown.decoded.suspects for node in suspect.nodes))


def settled(shown: DecodedMatrix) -> dict[Pair, float | None]:
    """What each two parts came to: the median where they were tested again, None where most tests gave nothing."""
    found: dict[Pair, list[float | None]] = defaultdict(list)
    matrix = shown.matrix
    for source, target, value in zip(matrix.sources, matrix.targets, matrix.values, strict=True):
        found[source, target].append(value)
    return {pair: _settled(values) for pair, values in found.items()}


def worst(values: Iterable[float | None], better: Better) -> float | None:
    """The worst of some; nothing at all is worse than any."""
    known = list(values)
    if not known or None in known:
        return None
    numbers = [value for value in known if value is not None]
    return min(numbers) if better is Better.HIGHER else max(numbers)


def _settled(values: list[float | None]) -> float | None:
    if len(values) == 1:
        return values[0]
    known = [value for value in values if value is not None]
    return statistics.median(known) if 2 * len(known) >= len(values) and known else None


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
    made = heatmap.Matrix(
        title[:1].upper() + title[1:], matrix.unit, names,
        {pair: worst(values, matrix.better) for pair, values in cells.items()},
        frozenset(bad & cells.keys()), _condemned(shown, name),
        lower=matrix.better is Better.LOWER, usual=shown.decoded.noise.usual or None, of=of, sparse=True,
        said=_said(shown, cells, len(names), of),
    )  # fmt: skip
    return heat_map(made)


def _condemned(shown: DecodedMatrix, name: Callable[[Part], str]) -> frozenset[str]:
    """Whom the decoder names as a whole."""
    found = {s.subject for s in shown.decoded.suspects if s.kind in (Kind.NODE, Kind.RANK)}
    return frozenset(name(part) for part in shown.matrix.parts if found & {part.name, part.node})


def _own_name(part: Part) -> str:
    """Without the node's, which the title says."""
    return part.name.removeprefix(f"{part.node}/") or part.name


def _said(
    shown: DecodedMatrix, cells: Mapping[tuple[str, str], list[float | None]], names: int, of: str
) -> str:
    whole = names * (names - 1)
    rails = len({part.rail for part in shown.matrix.parts})
    said = f"{len(cells)} of {whole} directions tested"
    if of == "nodes" and rails > 1 and shown.matrix.span is Span.BETWEEN:
        said += f", the worst of {rails} rails"
    nothing = sum(value is None for values in cells.values() for value in values)
    return f"{said}; {nothing} tests gave nothing" if nothing else said


def pair_map(report: Report, verdict: Verdict) -> HeatMap | None:
    """The heat map of network.pairs; None if it was not measured."""
    matrix = pair_matrix(report, verdict)
    return None if matrix is None else heat_map(matrix)


def pair_matrix(report: Report, verdict: Verdict) -> Matrix | None:
    """10^9 bytes/s over TCP from host to host; None if nothing was measured. Those that findings name are never cut."""
    measured = {
        row.subject: row
        for row in by_check(report.observations).get(PAIRS, ())
        if row.outcome is Outcome.MEASURED
    }
    if not measured:
        return None
    condemned = _bad(verdict)
    named = {place for subject in condemned for place in subject}
    ranks = {node.name: node.rank for node in report.nodes}
    # Only what is a node of this report gets a row: peers' names are text that a node wrote.
    first = sorted(ranks, key=lambda name: (name not in named, ranks[name], name))
    kept = set(first[:MAP])
    names = tuple(sorted(ranks, key=lambda name: (name not in kept, ranks[name], name)))
    values: dict[tuple[str, str], float | None] = {}
    for name in kept & set(measured):
        metrics = measured[name].metrics
        peers, speeds = metrics.get("peers"), metrics.get("bandwidth_gbps")
        if isinstance(peers, tuple) and isinstance(speeds, tuple):
            cells = zip(map(str, peers), speeds, strict=False)
            values.update({(name, peer): _number(speed) for peer, speed in cells if peer in kept})
    if not values:
        return None
    alone = frozenset(subject[0] for subject in condemned if len(subject) == 1)
    return Matrix(TITLE, UNIT, names, values, _links(condemned), alone)


def _links(condemned: set[tuple[str, ...]]) -> frozenset[tuple[str, str]]:
    """Both directions of each link."""
    ends = [(subject[0], subject[1]) for subject in condemned if len(subject) == 2]
    return frozenset([*ends, *((b, a) for a, b in ends)])


def _bad(verdict: Verdict) -> set[tuple[str, ...]]:
    return {places(f.subject) for f in verdict.findings if f.check == PAIRS and f.subject != CLUSTER}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= 1e18 else None
