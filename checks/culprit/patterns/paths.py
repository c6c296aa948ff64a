"""Pairs that are slow for good: many of them, spread over all nodes, are a property of the fabric and no part's fault. Pure.

Flows whose hashes collide share a link of the fabric in every test; the links to another leaf may be oversubscribed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import compress

from checks.culprit.likelihood import at_least
from checks.culprit.matrix import NEARLY_ALL, Better, Entity, Matrix, SlowPaths, Span, Suspect, Tolerance
from checks.culprit.noise import Screened
from checks.culprit.suspects import tests_of

Pair = tuple[int, int]
# A cell that was bad in each of so many tests is slow for good. At a rate of one half this happens to one bad cell in eight.
ALWAYS = 4
# Judgement: this many pairs, and this share of all, are no longer a matter of broken cables.
MANY, SHARE = 4, 0.01
# A part that is bad towards half of its partners explains its pairs itself; so does one to which half of all slow pairs belong.
HALF = 0.5
# If so many of the bad cells that were measured again stayed bad, those that were not measured again are slow for good as well.
STAYED = 0.8
# A rate that was never measured counts as this share of the usual one; judgement.
NO_VALUE = 0.1
MOST_LONGER = 1 / NO_VALUE - 1
# Two or three flows that share a link get a half or a third of its rate each. A pair below a fifth is broken, or its ends are.
LEAST_RATE = 0.2
# Judgement: a link that is slow for good may have a good test once in twenty.
STEADY = 0.95
# Chance puts so many slow pairs on one of the nodes less often than this.
BY_CHANCE = 0.001


def slow_paths(matrix: Matrix, screened: Screened, tolerance: Tolerance) -> SlowPaths | None:
    """The pairs that are slow for good, if there are too many for broken links, and if they are spread over the nodes as chance
    spreads them.
    """
    bad, node_of = set(screened.bad), matrix.node_of
    if matrix.span is Span.INSIDE or not bad:
        return None
    spoiled = Counter(matrix.ends[test] for test in bad)
    tests = {cell: len(matrix.cells[cell]) for cell in spoiled}
    broken = _broken(matrix, screened, tolerance.floor, spoiled)
    spoiled = Counter({cell: some for cell, some in spoiled.items() if _pair(cell) not in broken})
    always = {cell for cell, some in spoiled.items() if tests[cell] >= ALWAYS and some == tests[cell]}
    if len(always) < MANY:
        return None
    worst = worst_parts(matrix, bad)
    always = {(a, b) for a, b in always if not worst.intersection((a, b))}
    again = sum(tests[cell] >= ALWAYS for cell in spoiled if not worst.intersection(cell))
    pairs = {_pair(cell) for cell in always}
    every = len(set(map(_pair, matrix.cells)))
    # A link between two nodes has a pair on each rail; that is one cable's matter, or one pair of nodes'.
    of_nodes = {_pair((node_of[a], node_of[b])) for a, b in pairs}
    of_node = Counter(node for pair in of_nodes for node in pair)
    if len(of_nodes) < MANY or len(pairs) < SHARE * every or max(of_node.values()) > HALF * len(of_nodes) + 1:
        return None
    if not _by_chance(matrix, of_node, len(of_nodes)):
        return None
    if len(always) >= STAYED * again:
        pairs |= {
            _pair(cell)
            for cell in spoiled
            if tests[cell] < ALWAYS and tests[cell] == spoiled[cell] and not worst.intersection(cell)
        }
    cells = matrix.cells.keys() & (pairs | {(b, a) for a, b in pairs})
    mine = tuple(sorted(test for cell in cells for test in matrix.cells[cell]))
    spoiled_now = tuple(test for test in mine if test in bad)
    return SlowPaths(len(pairs), every, spoiled_now, cost(matrix, screened, mine), mine)


def shared_path(matrix: Matrix, screened: Screened, floor: float | None, suspect: Suspect) -> float | None:
    """The cost of a link that is slow in each of its tests, at a rate that flows keep that share a path; None if it is not such a
    link.

    There are too few such pairs to say more of them: each may be a broken cable as well.
    """
    if suspect.kind is not Entity.LINK or suspect.ratio is None:
        return None
    tests, bad = tests_of(matrix, suspect), set(screened.bad)
    cells = {matrix.ends[test] for test in tests}
    fewest = min((len(matrix.cells[cell]) for cell in cells), default=0)
    if fewest < ALWAYS or sum(test in bad for test in tests) < STEADY * len(tests):
        return None
    return None if _broken(matrix, screened, floor, cells) else cost(matrix, screened, tests)


def cost(matrix: Matrix, screened: Screened, tests: Sequence[int]) -> float:
    """How much longer an exchange of every part with every other takes because of the cells of these tests, as a share.

    The time of a cell is the inverse of its value, compared with the usual one; a test that was good takes no longer.
    """
    higher = matrix.better is Better.HIGHER
    sources, targets, values = matrix.sources, matrix.targets, matrix.values
    extra: dict[Pair, list[float]] = {}
    for test in tests:
        value, usual = values[test], screened.usual(test)
        share = NO_VALUE
        if value is not None and usual and value > 0:
            share = value / usual if higher else usual / value
        longer = 1 / share - 1 if share > NO_VALUE else MOST_LONGER
        extra.setdefault((sources[test], targets[test]), []).append(longer if longer > 0 else 0.0)
    return sum(sum(times) / len(times) for times in extra.values()) / matrix.cell_count if extra else 0.0


def _broken(matrix: Matrix, screened: Screened, floor: float | None, spoiled: Collection[Pair]) -> set[Pair]:
    """The pairs of which most tests, in one direction, gave no value, or less than the floor or than any shared link gives. A pair
    that shares a link may hiccup once.
    """
    higher = matrix.better is Better.HIGHER
    least = [
        max(floor or 0.0, LEAST_RATE * (level.usual or 0.0)) if higher else 0.0 for level in screened.levels
    ]
    far, broken = screened.distance, set[Pair]()
    for cell in spoiled:
        tests = matrix.cells[cell]
        line = least[far[tests[0]] if far else 0]  # the tests of a cell have one distance
        if 2 * sum((value := matrix.values[test]) is None or value < line for test in tests) > len(tests):
            broken.add(_pair(cell))
    return broken


def _by_chance(matrix: Matrix, ends: Mapping[int, int], pairs: int) -> bool:
    """Whether chance may have given each node its number of slow pairs, `ends`: a binomial distribution over its partners."""
    every = {_pair((matrix.node_of[a], matrix.node_of[b])) for a, b in matrix.cells}
    partners = Counter(node for pair in every for node in pair)
    share = pairs / len(every)
    least = min(at_least(*case, share) for case in {(partners[node], some) for node, some in ends.items()})
    return least * len(partners) >= BY_CHANCE


def always_bad(matrix: Matrix, wrong: Collection[int]) -> set[tuple[int, int]]:
    """The cells that were bad in each of several tests, or in each of two if all cells have so many. They do not tell one time from
    another.
    """
    least = 2 if len(matrix.values) >= (1 + NEARLY_ALL) * matrix.cell_count else ALWAYS
    spoiled = Counter(matrix.ends[test] for test in wrong)
    return {cell for cell, some in spoiled.items() if least <= some == len(matrix.cells[cell])}


def worst_parts(matrix: Matrix, bad: Collection[int]) -> set[int]:
    """The parts that are bad towards half of their partners, sending or receiving."""
    worst = set[int]()
    for column in (matrix.sources, matrix.targets):
        tests = Counter(compress(column, matrix.swept))
        spoiled = Counter(column[test] for test in bad if matrix.swept[test])
        worst |= {end for end, every in tests.items() if spoiled[end] >= HALF * every}
    return worst


def _pair(cell: Pair) -> Pair:
    return cell if cell[0] < cell[1] else (cell[1], cell[0])
