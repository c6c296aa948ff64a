"""Groups of nodes that are fast within and slower between each other, as leaves of an oversubscribed fabric are. Pure.

If the switches are not known, the tests show them: each node reaches more with the nodes of its own leaf than with all others. Then
tests between leaves are compared with each other, and no node is blamed for its distance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median

from checks.culprit.matrix import Better, Matrix, NodeGroups, Span, tallied
from checks.culprit.noise import FAR, MOST, Screened

# With fewer nodes two groups cannot be told from a bad link or a bad node.
LEAST_NODES = 6
# Judgement: with fewer bad tests there is nothing that groups would explain.
MANY_BAD = 0.1
# Judgement: what reaches less than this share of what its ends reach with their best partners goes through another leaf.
NEAR = 0.75
# Judgement: two nodes of one group have this share of their near partners in common.
COMMON = 0.6
# Judgement: of the pairs within groups this share is near, and of the pairs between them as few are.
FIT = 0.9
# Leaves of one cluster have about as many nodes as each other; judgement.
UNEVEN = 2.0
# Judgement: of so many nodes one may fit into no group.
NODES_A_MISFIT = 8
# A test without a value counts as this logarithm of a share.
NO_VALUE = -3.0

Logs = Mapping[tuple[int, int], float]


def node_groups(matrix: Matrix, screened: Screened) -> NodeGroups | None:
    """The groups, if all nodes fall into such, and if between them there is at least a quarter of the bandwidth within them."""
    nodes = len(set(matrix.nodes))
    if (
        matrix.span is Span.INSIDE
        or matrix.better is Better.LOWER
        or nodes < LEAST_NODES
        or any(endpoint.switches for endpoint in matrix.endpoints)
        or len(screened.bad) < MANY_BAD * len(matrix.values)
    ):
        return None
    logs = _logs(matrix, screened)
    near = _near(logs, nodes)
    groups = _grouped(near, nodes)
    if len(groups) < 2 or max(map(len, groups)) > UNEVEN * min(map(len, groups)):
        return None
    of_node = {node: at for at, group in enumerate(groups) for node in group}
    within = [pair for pair in logs if of_node[pair[0]] == of_node[pair[1]]]
    between = [pair for pair in logs if of_node[pair[0]] != of_node[pair[1]]]
    if not within or not between:
        return None
    fit = sum(two in near[node] for node, two in within), sum(two not in near[node] for node, two in between)
    share = math.exp(median(logs[pair] for pair in between) - median(logs[pair] for pair in within))
    if fit[0] < FIT * len(within) or fit[1] < FIT * len(between) or share < FAR:
        return None
    names = dict(zip(matrix.node_of, matrix.nodes, strict=True))
    return NodeGroups(tuple(tuple(names[node] for node in sorted(group)) for group in groups), share)


def known_groups(matrix: Matrix, screened: Screened, ratio: float) -> NodeGroups | None:
    """The nodes below each switch, if between switches there is less than the share `ratio` of the bandwidth below one."""
    if screened.distance is None or matrix.span is Span.INSIDE or matrix.better is Better.LOWER:
        return None
    usual = {far: level.usual for far, level in enumerate(screened.levels) if level.usual}
    slowest = min(usual, key=lambda far: usual[far] or 0.0, default=0)
    near = usual.get(0)
    if near is None or (share := (usual[slowest] or 0.0) / near) >= ratio:
        return None
    below: dict[tuple[str, ...], dict[str, None]] = {}
    for endpoint in matrix.endpoints:
        below.setdefault(endpoint.switches, {})[endpoint.node] = None
    return NodeGroups(tuple(tuple(nodes) for nodes in below.values()), share, is_known=True)


def _logs(matrix: Matrix, screened: Screened) -> Logs:
    """The median of each pair of nodes, as a logarithm of its share of the usual value."""
    logs: dict[tuple[int, int], list[float]] = {}
    for test, (source, target) in enumerate(matrix.ends):
        a, b = sorted((matrix.node_of[source], matrix.node_of[target]))
        value, usual = matrix.values[test], screened.usual(test)
        is_rate = value is not None and usual and 0 < value < math.inf
        logs.setdefault((a, b), []).append(math.log(value / usual) if is_rate else NO_VALUE)  # type: ignore[operator]
    return {pair: median(values) for pair, values in logs.items()}


def _near(logs: Logs, nodes: int) -> list[set[int]]:
    """The nodes with which each reaches nearly as much as with its best partners."""
    records: list[list[float]] = [[] for _ in range(nodes)]
    for (a, b), log in logs.items():
        records[a].append(log)
        records[b].append(log)
    best = [median(sorted(record)[-max(1, len(record) // 4) :]) if record else 0.0 for record in records]
    near: list[set[int]] = [{node} for node in range(nodes)]
    for (a, b), log in logs.items():
        if log >= min(best[a], best[b]) + math.log(NEAR):
            near[a].add(b)
            near[b].add(a)
    return near


def _grouped(near: Sequence[set[int]], nodes: int) -> list[set[int]]:
    """Nodes with mostly the same near partners; the few that fit nowhere join those to whom most of their near partners belong."""
    # Sets as the bits of integers: with a thousand nodes there are half a million pairs to compare.
    masks = [sum(1 << node for node in partners) for partners in near]
    alike: list[set[int]] = [{node} for node in range(nodes)]
    for first, mine in enumerate(masks):
        for two in range(first):
            if (mine & masks[two]).bit_count() >= COMMON * (mine | masks[two]).bit_count():
                alike[first].add(two)
                alike[two].add(first)
    left, groups = set(range(nodes)), list[set[int]]()
    while left:
        seed = max(left, key=lambda node: (len(alike[node] & left), -node))
        groups.append(alike[seed] & left)
        left -= groups[-1]
    singles = [node for group in groups if len(group) == 1 for node in group]
    groups = [group for group in groups if len(group) > 1]
    if not groups or len(singles) > max(1, nodes // NODES_A_MISFIT):
        return []
    for node in singles:
        max(groups, key=lambda group: len(group & near[node]) / len(group)).add(node)
    return groups


def standing_together(matrix: Matrix, subjects: Sequence[str], bad: Sequence[int]) -> set[str]:
    """The largest set of these nodes (within one node: ranks) that are good with each other in most of their tests: something that
    they share is bad, and they are not.
    """
    is_single = len(set(matrix.nodes)) == 1
    names = [endpoint.name for endpoint in matrix.endpoints] if is_single else matrix.nodes
    wrong, wanted = set(bad), set(subjects)
    near = matrix.tests_of(at for at, name in enumerate(names) if name in wanted)
    ends = ((test, frozenset(names[end] for end in matrix.ends[test])) for test in near)
    counts = tallied((both, test not in wrong) for test, both in ends if len(both) == 2 and both <= wanted)
    good = {pair for pair, (some, every) in counts.items() if some >= MOST * every}
    sets = [{name} | {two for two in subjects if frozenset((name, two)) in good} for name in subjects]
    largest = max(sets, key=len, default=set())
    pairs = [frozenset(pair) for pair in combinations(sorted(largest), 2)]
    return largest if pairs and sum(pair in good for pair in pairs) >= MOST * len(pairs) else set()
