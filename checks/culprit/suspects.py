"""Suspects: the tests in which one takes part, and what is said of it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from checks.culprit.matrix import Better, Direction, Endpoint, Entity, Matrix, Suspect
from checks.culprit.noise import Screened
from checks.model import LINK

MOST_CELLS = 16
# Judgement: of a node with fewer bad tests than these it is not said that they are its.
LEAST_IN_COMMON = 3
Node = TypeVar("Node", int, str)


def tests_of(matrix: Matrix, suspect: Suspect) -> list[int]:
    """All tests in which a suspect takes part, in its direction."""
    ends = [_end(endpoint, suspect) for endpoint in matrix.endpoints]
    cells: set[tuple[int | None, int | None]] = {(0, None), (None, 0), (0, 0)}
    if suspect.kind is Entity.LINK:
        cells = {(0, 1), (1, 0)}
    elif suspect.kind is Entity.SWITCH:
        cells = {(0, None), (None, 0)}
    wanted = {(a, b) for a, b in cells if _goes(suspect.way, a == 0, b == 0)}
    near = matrix.tests_of(index for index, end in enumerate(ends) if end is not None)
    return [test for test in near if (ends[matrix.sources[test]], ends[matrix.targets[test]]) in wanted]


def _end(endpoint: Endpoint, suspect: Suspect) -> int | None:
    """To which end of a link a part belongs, or 0 if it belongs to another suspect; None if it does not."""
    if suspect.kind is Entity.LINK:
        ends = suspect.subject.split(LINK)
        return next((at for at, name in enumerate(ends) if name in (endpoint.name, endpoint.node)), None)
    mine = endpoint.node in suspect.nodes
    if suspect.kind is Entity.RANK:
        mine = endpoint.name == suspect.subject
    elif suspect.kind is Entity.RAIL:
        mine = f"rail {endpoint.rail}" == suspect.subject
    return 0 if mine else None


def _goes(direction: Direction, sends: bool, receives: bool) -> bool:
    return direction is Direction.BOTH or (sends if direction is Direction.OUT else receives)


def suspect_of(
    matrix: Matrix,
    screened: Screened,
    identity: tuple[Entity, str, tuple[str, ...], Direction],
    tests: Sequence[int],
    bad: Collection[int],
    probability: float,
) -> Suspect:
    """The suspect with these tests, the worst of the bad ones first."""
    entity, subject, nodes, direction = identity
    values, wrong = matrix.values, set(bad)
    ratios = sorted(
        value / usual
        for test in tests
        if (value := values[test]) is not None
        and value == value
        and (usual := screened.usual(test)) is not None
    )
    mine = [test for test in tests if test in wrong]
    worst = sorted(mine, key=lambda test: (_merit(matrix, values[test]), test))[:MOST_CELLS]
    ratio = ratios[len(ratios) // 2] if ratios else None
    return Suspect(entity, subject, nodes, direction, probability, len(mine), len(tests), ratio, tuple(worst))


def _merit(matrix: Matrix, value: float | None) -> float:
    if value is None or value != value:
        return -math.inf
    return value if matrix.better is Better.HIGHER else -value


def node_suspect(
    matrix: Matrix,
    screened: Screened,
    endpoint: int,
    tests: Sequence[int],
    probability: float,
    *,
    passed: bool = False,
) -> Suspect:
    """The node of this part as a suspect, of all of its `tests`: in the direction in which some of them are bad."""
    name, bad = matrix.endpoints[endpoint].node, set(screened.bad)
    sends = {matrix.nodes[matrix.sources[test]] == name for test in tests if test in bad}
    direction = Direction.BOTH
    if len(sends) < 2:
        is_out = True in sends
        direction = Direction.OUT if is_out else Direction.IN
        tests = [test for test in tests if (matrix.nodes[matrix.sources[test]] == name) is is_out]
    suspect = suspect_of(matrix, screened, (Entity.NODE, name, (name,), direction), tests, bad, probability)
    return replace(suspect, passed=passed)


def fewest_ends(pairs: Sequence[tuple[Node, Node]]) -> Iterator[tuple[Node, int]]:
    """The fewest nodes to which nearly all of these pairs belong, each with the number of its pairs that are no earlier one's."""
    while counts := Counter(node for pair in pairs for node in set(pair)):
        node, some = max(counts.items(), key=lambda item: (item[1], item[0]))
        if some < LEAST_IN_COMMON:
            return
        yield node, some
        pairs = [pair for pair in pairs if node not in pair]
