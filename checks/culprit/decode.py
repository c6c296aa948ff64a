"""From a matrix of tests to whoever is to blame, or to nobody (pure).

Tests that are bad are explained by as few culprits as are needed: a node, one of its ranks, a link, a rail, a switch,
each both ways or one way. A culprit's tests are bad at a rate of its own, all others at the hiccup rate, which is
fitted. A culprit is named when neither chance nor anybody else is a likely explanation of the same tests.
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
from checks.culprit.matrix import Answer, Decoded, Kind, Matrix, Noise, Span, Suspect, Tolerance, Way
from checks.culprit.noise import Screened, most_are_slow, screen, stand_together
from checks.culprit.search import STARTS, Named, search, suspects

# Judgement: where a quarter of the tests that nobody explains are bad, whoever stands out does so by chance.
BLIND = 0.25
# More bad tests than this are explained only if as many nodes as may be named could explain them.
MANY_BAD = 50_000
# By how much hiccups and uneven numbers of tests may exceed the share of bad tests that bad nodes could make.
SLACK = 0.1
# Judgement, as before for reachability: so many links, and more than there are nodes, are no broken cables.
MOST_LINKS = 64
# Judgement: a confirm round ought to be short beside the tournament; a part's partners in it come one after another.
CONFIRM_A_PART = 4
# Judgement: who is named on fewer visits, or for a smaller share of tests that are bad, is looked at again.
FEW_VISITS, RARE = 4, 0.6
# A cell that was measured again so that it has so many tests is a hiccup, where a link has smaller log odds than this.
MEASURED_AGAIN, IMPOSSIBLE = 3, math.log(0.1 / 0.9)
# A pair that was bad so often is not asked for again.
ENOUGH_TESTS = 4


def decode(matrix: Matrix, tolerance: Tolerance) -> Decoded:
    """Who is to blame for what is bad in the matrix. A part without a test is `unseen`, and is not cleared by this."""
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
        # All are bad against the floor. Who is worse than the others is still worth knowing.
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
    # One switch is one fault, however many nodes hang on it; of several, their nodes count.
    below = {node for one in switches for node in one.nodes} | to_blame if len(switches) > 1 else to_blame
    links = sum(one.kind is Kind.LINK for one in named)
    rails = sum(one.kind is Kind.RAIL for one in named)
    return (
        len(below) > most
        or links > max(MOST_LINKS, len(candidates.nodes))
        or 2 * rails > len(candidates.rails)
    )


def _blind(explanation: Explanation, found: Sequence[Named], tolerance: Tolerance) -> bool:
    """Whether so much is bad that nobody is blamed for, or so many are, that blame is chance."""
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
    """Whether so many cells of more than one pair were bad, if only once, that nobody may say that all is well."""
    if not _several_pairs(matrix, bad):
        return False
    tests = len(matrix.values)  # no cell is measured ten times: a matrix of a million is not counted in vain
    return 10 * len(bad) >= BLIND * tests > 0 and _cells(matrix, bad) >= BLIND * _cells(matrix, range(tests))


def _several_pairs(matrix: Matrix, bad: Sequence[int]) -> bool:
    """Whether the bad tests are of two pairs or more: one pair, in one direction or both, is not all of the fabric."""
    first = _pair(matrix, bad[0]) if bad else None
    return any(_pair(matrix, test) != first for test in bad)


def _cells(matrix: Matrix, tests: Sequence[int]) -> int:
    """Of how many cells these are tests. Bad cells are measured again on purpose, which makes nothing worse."""
    return len({(matrix.sources[test], matrix.targets[test]) for test in tests})


def _doubtful(explanation: Explanation, found: Sequence[Named]) -> list[int]:
    """Bad tests that nobody who is named explains, save hiccups: the same cell was measured again, and is no link."""
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
    ):  # bad as often as good: no accident
        return False
    odds, back = explanation.odds, float(explanation.links.back)
    if passed(counts[1] + counts[3], counts[4], back):
        return True
    both = odds.of(Kind.LINK, Way.BOTH, counts[0] + counts[2], counts[1] + counts[3], counts[4], back)
    one = odds.of(Kind.LINK, Way.OUT, counts[at], counts[at + 1], counts[at], 1.0)
    return max(both.sure, one.sure) < IMPOSSIBLE


def _unsure(found: Sequence[Named], bad: set[int]) -> list[int]:
    """Bad tests of those who are named on few visits, or for a rate that a spell of congestion could have made."""
    named = [one for one in found if one.named]
    weak = [one for one in named if one.visits < FEW_VISITS or one.suspect.bad < RARE * one.suspect.tests]
    return sorted({test for one in weak for test in one.tests if test in bad})


def _confirm(matrix: Matrix, doubtful: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Pairs to measure again, both ways; those that were bad more often come first: links rather than chance."""
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
    """Whether as many bad nodes as may be named could make so many tests bad, or a rail or switch that is named did."""
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
    """The tests that are not from a part to itself, if there are such; None if there are none."""
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
