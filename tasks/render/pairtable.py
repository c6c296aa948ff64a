"""What every host measured towards every other, as a matrix (pure)."""

from __future__ import annotations

from checks.columns import by_check
from checks.localise import PAIRS
from checks.model import CLUSTER, Outcome, Report, Verdict
from tasks.render.heatmap import MAP, HeatMap, Matrix, heat_map
from tasks.render.matrix import places

TITLE, UNIT = "Bandwidth between hosts", "GB/s"


def pair_map(report: Report, verdict: Verdict) -> HeatMap | None:
    """The heat map of network.pairs; None where it was not measured."""
    matrix = pair_matrix(report, verdict)
    return None if matrix is None else heat_map(matrix)


def pair_matrix(report: Report, verdict: Verdict) -> Matrix | None:
    """10^9 bytes/s over TCP from host to host; None where nothing was measured. Those that findings name are never cut."""
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
