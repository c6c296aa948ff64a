"""Decodes a matrix of tests: the parts that are to blame, or that there are none. Pure.

Bad tests are explained by as few culprits as are needed: a node, one of its ranks, a link, a rail, a switch, each in both directions
or in one. A culprit's tests are bad at a rate of its own, all other tests at the rate of passing disturbances ("hiccups"), which is
fitted. A culprit is named if neither chance nor another part is a likely explanation of the same tests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import eq

from checks.culprit.candidates import Candidates
from checks.culprit.explanation import Explanation
from checks.culprit.likelihood import passed
from checks.culprit.links import Links
from checks.culprit.matrix import Answer, Decoded, Direction, Kind, Matrix, Noise, Span, Suspect, Tolerance
from checks.culprit.noise import Screened, most_are_slow, screen, stand_together
from checks.culprit.search import STARTS, Named, search, suspects

# Judgement: if a quarter of the tests that no culprit explains are bad, a part that is worse than the rest is so by chance.
BLIND = 0.25
# A larger share of bad tests is only explained if as many nodes as may be named could explain them.
MANY_BAD = 50_000
# How far hiccups and uneven numbers of tests may raise the share of bad tests above what bad nodes could cause.
SLACK = 0.1
# Judgement, as in checks/judge/reachability.py: this many links, if they are also more than there are nodes, are not a matter of
# broken cables.
MOST_LINKS = 64
# Judgement: measuring again should take little time compared with the planned rounds; the partners of a part come one after another.
CONFIRM_A_PART = 4
# Judgement: a part that is named after fewer visits, or for a smaller share of bad tests, is measured again.
FEW_VISITS, RARE = 4, 0.6
# If a cell has this many tests and the log odds of a faulty link are smaller than this, its bad test is a hiccup.
MEASURED_AGAIN, IMPOSSIBLE = 3, math.log(0.1 / 0.9)
# A pair that was bad this often is not measured again.
ENOUGH_TESTS = 4


def decode(matrix: Matrix, tolerance: Tolerance) -> Decoded:
    """The culprits of what is bad in the matrix. A part without a test is `unseen`, which says nothing about it."""
    kept = _without_loops(matrix)
    if kept is not None:
        return _renumbered(decode(_only(matrix, kept), tolerance), kept)
    seen = set(matrix.sources) | set(matrix.targets)
    unseen = tuple(part for part in range(len(matrix.parts)) if part not in seen)
    screened = screen(matrix, tolerance)
    if screened.main.usual is None and len(seen) > 2:
        return _unnamed(Answer.FABRIC, screened, unseen)
    if not seen or (len(seen) == 2 and tolerance.floor is None and screened.main.usual is not None):
        return _unnamed(Answer.TOO_FEW, screened, unseen)
    if len(seen) > 2 and _below_floor(matrix, screened, tolerance):
        # All are below the floor. It is still useful to know which part is worse than the others.
        relative = decode(matrix, replace(tolerance, floor=None))
        noise = replace(relative.noise, line=_line(screened))
        return replace(relative, answer=Answer.FABRIC, noise=noise, bad=tuple(screened.bad), confirm=())
    if len(screened.bad) > MANY_BAD and not _explicable(matrix, screened, tolerance):
        return _unnamed(Answer.FABRIC, screened, unseen)
    return _explain(matrix, screened, tolerance, unseen)


def _explain(matrix: Matrix, screened: Screened, tolerance: Tolerance, unseen: tuple[int, ...]) -> Decoded:
    candidates = Candidates(matrix)
    ends = list(range(len(matrix.parts))) if candidates.inside else candidates.node_of
    links = Links(matrix.sources, matrix.targets, screened.bad, ends)
    explanation = Explanation(candidates, screened.bad, links, STARTS[-1])
    rivals = search(explanation) if screened.bad else {}
    found = suspects(matrix, screened, explanation, rivals)
    named = tuple(one.suspect for one in found if one.named)
    doubtful = _doubtful(explanation, found)
    noise = _noise(screened, explanation, found)
    answer = Answer.NOBODY
    if (
        _too_many(named, candidates, tolerance)
        or _blind(explanation, found, tolerance)
        or not _explicable(matrix, screened, tolerance, named)
        or most_are_slow(matrix, screened, tolerance)
        or stand_together(matrix, named, screened.bad)
    ):
        answer = Answer.FABRIC
    elif named:
        answer = Answer.NAMED
    elif doubtful or _many_cells(matrix, screened.bad):
        answer = Answer.UNEXPLAINED
    return Decoded(
        answer,
        noise,
        named,
        _confirm(matrix, doubtful + _unsure(found, set(screened.bad))),
        tuple(screened.bad),
        unseen,
    )


def _too_many(named: Sequence[Suspect], candidates: Candidates, tolerance: Tolerance) -> bool:
    most = max(1.0, tolerance.max_unfit_fraction * len(candidates.nodes))
    to_blame = {node for one in named if one.kind in (Kind.NODE, Kind.RANK) for node in one.nodes}
    switches = [one for one in named if one.kind is Kind.SWITCH]
    # One switch is one fault, however many nodes are connected to it; if there are several, their nodes count.
    below = {node for one in switches for node in one.nodes} | to_blame if len(switches) > 1 else to_blame
    links = sum(one.kind is Kind.LINK for one in named)
    rails = sum(one.kind is Kind.RAIL for one in named)
    return (
        len(below) > most
        or links > max(MOST_LINKS, len(candidates.nodes))
        or 2 * rails > len(candidates.rails)
    )


def _blind(explanation: Explanation, found: Sequence[Named], tolerance: Tolerance) -> bool:
    """Whether so much is bad, or so many are blamed, that naming a part would be chance."""
    matrix = explanation.candidates.matrix
    bad, tests = explanation.left_over()
    if bad >= BLIND * tests > 0 and _several_pairs(matrix, explanation.bad_tests):
        alone = [
            test
            for pair, its in explanation.links.bad_tests.items()
            if pair not in explanation.found
            for test in its
        ]
        free = [test for test in alone if test not in explanation.owner]
        if _cells(matrix, free) >= BLIND * _cells(matrix, range(len(matrix.values))):
            return True
    unsure = {node for one in found if one.suspect.kind is Kind.NODE for node in one.suspect.nodes}
    return len(unsure) > max(1.0, tolerance.max_unfit_fraction * explanation.nodes)


def _many_cells(matrix: Matrix, bad: Sequence[int]) -> bool:
    """Whether so many cells of more than one pair were bad, if only once, that the answer cannot be that all is well."""
    if not _several_pairs(matrix, bad):
        return False
    tests = len(
        matrix.values
    )  # no cell is measured ten times, so that a matrix of a million cells need not be counted
    return 10 * len(bad) >= BLIND * tests > 0 and _cells(matrix, bad) >= BLIND * _cells(matrix, range(tests))


def _several_pairs(matrix: Matrix, bad: Sequence[int]) -> bool:
    """Whether the bad tests belong to two pairs or more. A single pair, in one or both directions, is not the whole fabric."""
    first = _pair(matrix, bad[0]) if bad else None
    return any(_pair(matrix, test) != first for test in bad)


def _cells(matrix: Matrix, tests: Sequence[int]) -> int:
    """The number of cells to which these tests belong. Bad cells are measured again on purpose, which must not make the result
    worse.
    """
    return len({(matrix.sources[test], matrix.targets[test]) for test in tests})


def _doubtful(explanation: Explanation, found: Sequence[Named]) -> list[int]:
    """Bad tests that no named part explains, except hiccups: the cell was measured again, and a faulty link is unlikely."""
    explained = {test for one in found if one.named for test in one.tests}
    links = explanation.links
    doubtful = []
    for pair, rails in links.pairs.items():
        for test in links.bad_tests[pair]:
            if test not in explained and not _is_hiccup(
                explanation, rails[links.rail(test)], links.forward(test)
            ):
                doubtful.append(test)
    return sorted(doubtful)


def _is_hiccup(explanation: Explanation, counts: Sequence[int], forward: bool) -> bool:
    at = 0 if forward else 2
    if (
        counts[at + 1] < MEASURED_AGAIN or 2 * counts[at] >= counts[at + 1]
    ):  # bad as often as good, which is no accident
        return False
    odds, back = explanation.odds, float(explanation.links.back)
    if passed(counts[1] + counts[3], counts[4], back):
        return True
    both = odds.of(Kind.LINK, Direction.BOTH, counts[0] + counts[2], counts[1] + counts[3], counts[4], back)
    one = odds.of(Kind.LINK, Direction.OUT, counts[at], counts[at + 1], counts[at], 1.0)
    return max(both.sure, one.sure) < IMPOSSIBLE


def _unsure(found: Sequence[Named], bad: set[int]) -> list[int]:
    """Bad tests of parts that are named after few visits, or for a rate that a period of congestion could have caused."""
    named = [one for one in found if one.named]
    weak = [one for one in named if one.visits < FEW_VISITS or one.suspect.bad < RARE * one.suspect.tests]
    return sorted({test for one in weak for test in one.tests if test in bad})


def _confirm(matrix: Matrix, doubtful: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Pairs to measure again, in both directions. Pairs that were bad more often come first: they are more
    likely links than chance.
    """
    times = Counter(_pair(matrix, test) for test in doubtful)
    a_part = 2 * len(times) / max(1, len(matrix.parts))
    most = max(math.ceil(CONFIRM_A_PART + a_part + 3 * math.sqrt(a_part)), len(matrix.parts) // 4)
    load: Counter[int] = Counter()
    chosen = []
    for one, other in sorted(times, key=lambda pair: (-times[pair], pair)):
        if times[one, other] < ENOUGH_TESTS and max(load[one], load[other]) < most:
            load[one] += 1
            load[other] += 1
            chosen += [(one, other), (other, one)]
    return tuple(chosen)


def _pair(matrix: Matrix, test: int) -> tuple[int, int]:
    one, other = matrix.sources[test], matrix.targets[test]
    return (one, other) if one < other else (other, one)


def _noise(screened: Screened, explanation: Explanation, found: Sequence[Named]) -> Noise:
    bad, tests = sum(one.suspect.bad for one in found), sum(one.suspect.tests for one in found)
    rate = explanation.chance().hiccup
    usual = screened.main.usual
    sensitivity = bad / tests if tests else 1.0
    return Noise(
        sensitivity, rate, math.nan if usual is None else usual, screened.main.spread, _line(screened)
    )


def _unnamed(answer: Answer, screened: Screened, unseen: tuple[int, ...]) -> Decoded:
    usual = math.nan if screened.main.usual is None else screened.main.usual
    noise = Noise(1.0, 0.0, usual, screened.main.spread, _line(screened))
    return Decoded(answer, noise, (), (), tuple(screened.bad), unseen)


def _line(screened: Screened) -> float:
    return math.nan if screened.main.line is None else screened.main.line


def _below_floor(matrix: Matrix, screened: Screened, tolerance: Tolerance) -> bool:
    usual, floor = screened.main.usual, tolerance.floor
    if usual is None or floor is None:
        return False
    return usual < floor if matrix.better.value == "higher" else usual > floor


def _explicable(
    matrix: Matrix, screened: Screened, tolerance: Tolerance, named: Sequence[Suspect] = ()
) -> bool:
    """Whether as many bad nodes as may be named, or a named rail or switch, could make this many tests bad."""
    nodes = len({part.node for part in matrix.parts})
    if nodes <= 2 or any(one.kind in (Kind.RAIL, Kind.SWITCH) for one in named):
        return True
    good = nodes - max(1, int(tolerance.max_unfit_fraction * nodes))
    inside = matrix.span is Span.INSIDE
    fine = good / nodes if inside else good * (good - 1) / (nodes * (nodes - 1))
    most = 1 - fine + SLACK
    if len(screened.bad) <= most * len(matrix.values):
        return True
    return _cells(matrix, screened.bad) <= most * _cells(matrix, range(len(matrix.values)))


def _without_loops(matrix: Matrix) -> list[int] | None:
    """The tests that are not from a part to itself, if there are such tests; None if there are none."""
    if not any(map(eq, matrix.sources, matrix.targets)):
        return None
    return [test for test, (a, b) in enumerate(zip(matrix.sources, matrix.targets, strict=True)) if a != b]


def _only(matrix: Matrix, kept: list[int]) -> Matrix:
    columns = [[column[test] for test in kept] for column in (matrix.sources, matrix.targets)]
    return replace(
        matrix, sources=columns[0], targets=columns[1], values=[matrix.values[test] for test in kept]
    )


def _renumbered(decoded: Decoded, kept: list[int]) -> Decoded:
    found = tuple(replace(one, cells=tuple(kept[test] for test in one.cells)) for one in decoded.suspects)
    return replace(decoded, suspects=found, bad=tuple(kept[test] for test in decoded.bad))
