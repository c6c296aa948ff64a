"""Decodes a matrix of tests: the parts that are to blame, or that there are none. Pure.

Bad tests are explained by as few culprits as are needed: a node, one of its ranks, a link, a rail, a switch, each in both directions
or in one. A culprit's tests are bad at a rate of its own, all other tests at the rate of passing disturbances ("hiccups"), which is
fitted. A culprit is named if neither chance nor another part is a likely explanation of the same tests.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import eq
from typing import Any

from checks.culprit import doubt
from checks.culprit.candidates import Candidates
from checks.culprit.explanation import Explanation
from checks.culprit.likelihood import Chance
from checks.culprit.links import Links
from checks.culprit.matrix import (
    Better,
    Decoded,
    Entity,
    Matrix,
    MatrixAnswer,
    PairNoise,
    Span,
    Suspect,
    Tolerance,
)
from checks.culprit.noise import Screened, most_are_slow, screen, steady_parts
from checks.culprit.patterns.groups import known_groups, node_groups, standing_together
from checks.culprit.patterns.medians import SlowParts, slow_parts
from checks.culprit.patterns.open_tests import is_crowded, is_open, of_short_periods, sweep_again
from checks.culprit.patterns.paths import cost, shared_path, slow_paths
from checks.culprit.patterns.times import Times
from checks.culprit.search import STARTS, WeighedSuspect, search, suspects

# Judgement: if a quarter of the tests that no culprit explains are bad, a part that is worse than the rest is so by chance.
BLIND = 0.25
# A larger share of bad tests is only explained if as many nodes as may be named could explain them.
MANY_BAD = 50_000
# How far hiccups and uneven numbers of tests may raise the share of bad tests above what bad nodes could cause.
SLACK = 0.1
# Judgement, as in checks/judge/reachability.py: this many links, if they are also more than there are nodes, are not a matter of
# broken cables.
MOST_LINKS = 64
# Two bad nodes may be good with each other by chance.
LEAST_TOGETHER = 3
# None of fewer nodes can be told from its partners.
LEAST_LEFT = 3
# So many nodes of a switch without a name are listed.
MOST_NAMES = 3


def decode(matrix: Matrix, tolerance: Tolerance) -> Decoded:
    """The culprits of what is bad in the matrix. A part without a test is `unseen`, which says nothing about it."""
    tests = _without_loops(matrix)
    if tests is not None:
        return _renumbered(decode(_only(matrix, tests), tolerance), tests)
    tested = set(matrix.sources) | set(matrix.targets)
    unseen = tuple(index for index in range(len(matrix.endpoints)) if index not in tested)
    screened = screen(matrix, tolerance)
    if screened.main.usual is None and len(tested) > 2:
        return _unnamed(MatrixAnswer.FABRIC, screened, unseen)
    if not tested or (len(tested) == 2 and tolerance.floor is None and screened.main.usual is not None):
        return _unnamed(MatrixAnswer.TOO_FEW, screened, unseen)
    if len(tested) > 2 and _below_floor(matrix, screened, tolerance):
        # All are below the floor. It is still useful to know which part is worse than the others.
        relative = decode(matrix, replace(tolerance, floor=None))
        noise = replace(relative.noise, line=_line(screened))
        return replace(relative, answer=MatrixAnswer.FABRIC, noise=noise, bad=tuple(screened.bad), confirm=())
    if len(screened.bad) > MANY_BAD and not _explicable(matrix, screened, tolerance):
        return _unnamed(MatrixAnswer.FABRIC, screened, unseen)
    if tolerance.paths and (groups := node_groups(matrix, screened)):
        return replace(decode(_under(matrix, groups.groups), tolerance), groups=groups)
    result = _with_patterns(matrix, screened, tolerance, unseen)
    return (
        replace(result, groups=known_groups(matrix, screened, tolerance.ratio)) if tolerance.paths else result
    )


def decode_without(matrix: Matrix, tolerance: Tolerance, condemned: Collection[int]) -> Decoded:
    """The culprits, if something else than this matrix has shown that these parts are bad.

    If they do not explain all that is bad, only tests without them count. Who tests with them waits for them, and is late for the next
    partner: a node that is bad in less than half of its tests is not named then.
    """
    decoded, nodes = decode(matrix, tolerance), {matrix.nodes[index] for index in condemned}
    explained = all(nodes >= {*suspect.nodes} for suspect in decoded.suspects)
    if not condemned or (decoded.answer is MatrixAnswer.BLAMED and explained):
        return decoded
    tests = [test for test, (a, b) in enumerate(matrix.ends) if a not in condemned and b not in condemned]
    left = {matrix.nodes[matrix.sources[test]] for test in tests}
    if len(tests) == len(matrix.values) or len(left) < LEAST_LEFT:
        return decoded
    rest = _renumbered(decode(_only(matrix, tests), tolerance), tests)
    culprits = tuple(
        suspect
        for suspect in rest.suspects
        if suspect.kind is not Entity.NODE or 2 * suspect.bad >= suspect.tests or suspect.passed
    )
    is_gone = rest.answer is MatrixAnswer.BLAMED and not culprits
    answer = MatrixAnswer.UNEXPLAINED if is_gone else rest.answer
    return replace(rest, answer=answer, suspects=culprits, unseen=decoded.unseen)


def _with_patterns(
    matrix: Matrix, screened: Screened, tolerance: Tolerance, unseen: tuple[int, ...]
) -> Decoded:
    """Takes congestion, nodes that are bad for some of the time, and pairs that are slow for good out of the matrix, and searches the
    culprits of the rest.
    """
    # Data that is right everywhere has no rate.
    has_rate = tolerance.paths or screened.bad
    slow = slow_parts(matrix, screened, (), tolerance) if has_rate else SlowParts()
    screened = slow.without_explained(matrix, screened, tolerance)
    paths = slow_paths(matrix, screened, tolerance) if tolerance.paths else None
    of_paths = set(paths.tests if paths else ())
    timed = Times(matrix, set(screened.bad) - of_paths)
    part_time = {entry.node for entry in timed.part_time}
    theirs = set(screened.bad).intersection(timed.tests_of(part_time))
    gone = timed.excused | theirs | of_paths
    tests = [test for test in range(len(matrix.values)) if test not in gone] if gone else []
    result = _of_rest(matrix, screened, tolerance, unseen, tests if gone else None)
    lonely = [timed.suspect(screened, entry) for entry in timed.part_time]
    if result.answer is not MatrixAnswer.FABRIC:
        lonely += timed.at_any_time(screened, (*result.suspects, *lonely))
    theirs_now = {node for suspect in lonely for node in suspect.nodes if not suspect.passed}
    others = [s for s in result.suspects if s.kind is not Entity.LINK or theirs_now.isdisjoint(s.nodes)]
    culprits = tuple(sorted((*others, *lonely), key=lambda suspect: -suspect.probability))
    is_named = bool(lonely) and result.answer in (MatrixAnswer.NOBODY, MatrixAnswer.UNEXPLAINED)
    left = {k for k in result.unexplained if theirs_now.isdisjoint(matrix.nodes[e] for e in matrix.ends[k])}
    good = {matrix.ends[test] for test in tests} if timed.excused else set()
    open_ = [test for test in sorted(timed.excused) if matrix.ends[test] not in good]
    if result.answer is MatrixAnswer.FABRIC:
        slow = SlowParts()
    elif lasting := [suspect for suspect in culprits if not suspect.passed]:
        slow = slow_parts(matrix, screened, lasting, tolerance)
    more = [*open_, *of_short_periods(matrix, screened, timed.part_time, theirs), *slow.doubtful]
    answer = MatrixAnswer.BLAMED if is_named else result.answer
    if open_ and answer is MatrixAnswer.NOBODY:
        answer = MatrixAnswer.UNEXPLAINED
    confirm = (*result.confirm, *doubt.to_confirm(matrix, more))
    if timed.unsure or is_open(matrix, screened, answer, culprits):
        confirm += sweep_again(matrix)
    return replace(
        result,
        answer=answer,
        suspects=culprits,
        confirm=tuple(dict.fromkeys(confirm)),
        bad=tuple(screened.bad),
        congestion=timed.congestion,
        paths=paths,
        slow=slow.suspects,
        seen_from=slow.seen_from,
        many_slower=slow.many_slower,
        unexplained=tuple(sorted(left.union(open_))),
        cost=cost(matrix, screened, doubt.tests_of_cells(matrix, left | timed.excused)),
    )


def _of_rest(
    matrix: Matrix, screened: Screened, tolerance: Tolerance, unseen: tuple[int, ...], tests: list[int] | None
) -> Decoded:
    """What is found in these tests (None: in all), with what the links cost that may share a path of the fabric."""
    rest = matrix if tests is None else _only(matrix, tests)
    again = screened if tests is None else screen(rest, tolerance)
    if is_crowded(rest, again):
        unnamed, doubtful = (
            _unnamed(MatrixAnswer.UNEXPLAINED, again, unseen),
            doubt.to_confirm(rest, again.bad),
        )
        result = replace(unnamed, confirm=doubtful, unexplained=tuple(again.bad))
    else:
        result = _explain(rest, again, tolerance, unseen)
    result = result if tests is None else _renumbered(result, tests)
    if not tolerance.paths or matrix.better is Better.LOWER or matrix.span is Span.INSIDE:
        return result
    costs = [shared_path(matrix, screened, tolerance.floor, suspect) for suspect in result.suspects]
    priced = (replace(suspect, cost=price) for suspect, price in zip(result.suspects, costs, strict=True))
    return replace(result, suspects=tuple(priced))


def _under(matrix: Matrix, groups: Sequence[Sequence[str]]) -> Matrix:
    """The returned matrix has a switch for each of these groups of nodes. The name of a switch lists its nodes."""
    of_node = {
        node: (
            f"switch of {', '.join(group[:MOST_NAMES])}{' and others' if len(group) > MOST_NAMES else ''}",
        )
        for group in groups
        for node in group
    }
    ends = tuple(replace(endpoint, switches=of_node.get(endpoint.node, ())) for endpoint in matrix.endpoints)
    return replace(matrix, endpoints=ends)


def _explain(matrix: Matrix, screened: Screened, tolerance: Tolerance, unseen: tuple[int, ...]) -> Decoded:
    if not screened.bad:
        is_whole = most_are_slow(matrix, screened, tolerance)
        hiccup = Chance.fitted(0, len(matrix.values), 0, 0, 1.0).hiccup
        return _unnamed(MatrixAnswer.FABRIC if is_whole else MatrixAnswer.NOBODY, screened, unseen, hiccup)
    candidates = Candidates(matrix)
    ends = list(range(len(matrix.endpoints))) if candidates.inside else candidates.node_of
    links = Links(matrix, screened.bad, ends)
    explanation = Explanation(candidates, links, STARTS[-1])
    rivals = search(explanation)
    weighed = doubt.only_if_certain(matrix, suspects(matrix, screened, explanation, rivals), screened.bad)
    culprits = tuple(entry.suspect for entry in weighed if entry.is_named)
    steady = steady_parts(culprits, Entity.NODE if len(candidates.nodes) > 1 else Entity.RANK)
    together = standing_together(matrix, steady, screened.bad)
    if LEAST_TOGETHER <= len(together) < len(steady) and not candidates.switches and not candidates.inside:
        # They are under one switch, of which nobody told. Beside it other nodes are bad.
        return _explain(_under(matrix, [sorted(together)]), screened, tolerance, unseen)
    doubtful = doubt.doubtful_tests(explanation, weighed, tolerance.most_hiccups)
    again = doubt.to_confirm(matrix, doubtful + doubt.unsure_tests(weighed, set(screened.bad)))
    some, every = sum(entry.suspect.bad for entry in weighed), sum(entry.suspect.tests for entry in weighed)
    noise = _noise(screened, explanation.chance().hiccup, some / every if every else 1.0)
    answer = MatrixAnswer.NOBODY
    if (
        _too_many(culprits, candidates, tolerance)
        or _blind(screened.bad, explanation, weighed, tolerance)
        or not _explicable(matrix, screened, tolerance, culprits)
        or most_are_slow(matrix, screened, tolerance)
        or (steady and together == set(steady))  # the cluster falls into two parts
    ):
        answer = MatrixAnswer.FABRIC
    elif culprits:
        answer = MatrixAnswer.BLAMED
    elif doubtful or _many_cells(matrix, screened.bad):
        answer = MatrixAnswer.UNEXPLAINED
    return Decoded(
        answer,
        noise,
        culprits,
        tuple(dict.fromkeys((*again, *doubt.controls(matrix, weighed, screened.bad)))),
        tuple(screened.bad),
        unseen,
        unexplained=tuple(doubtful),
    )


def _too_many(blamed: Sequence[Suspect], candidates: Candidates, tolerance: Tolerance) -> bool:
    most = max(1.0, tolerance.max_unfit_fraction * len(candidates.nodes))
    to_blame = set[str]().union(*(item.nodes for item in blamed if item.kind in (Entity.NODE, Entity.RANK)))
    switches = [suspect for suspect in blamed if suspect.kind is Entity.SWITCH]
    # One switch is one fault, however many nodes are connected to it; if there are several, their nodes count.
    below = to_blame.union(*(switch.nodes for switch in switches)) if len(switches) > 1 else to_blame
    links = sum(suspect.kind is Entity.LINK for suspect in blamed)
    rails = sum(suspect.kind is Entity.RAIL for suspect in blamed)
    return (
        len(below) > most
        or links > max(MOST_LINKS, len(candidates.nodes))
        or 2 * rails > len(candidates.rails)
    )


def _blind(
    bad_tests: Sequence[int],
    explanation: Explanation,
    weighed: Sequence[WeighedSuspect],
    tolerance: Tolerance,
) -> bool:
    """Whether so much is bad, or so many are blamed, that naming a part would be chance."""
    links, matrix = explanation.links, explanation.candidates.matrix
    bad, tests = explanation.left_over()
    if bad >= BLIND * tests > 0 and _several_pairs(matrix, bad_tests):
        free = (cell for cell in links.bad if links.pair(cell) not in explanation.found)
        if sum(cell not in explanation.owner for cell in free) >= BLIND * len(matrix.cells):
            return True
    unsure = {node for entry in weighed if entry.suspect.kind is Entity.NODE for node in entry.suspect.nodes}
    return len(unsure) > max(1.0, tolerance.max_unfit_fraction * explanation.nodes)


def _many_cells(matrix: Matrix, bad: Sequence[int]) -> bool:
    """Whether so many cells of more than one pair were bad, if only once, that the answer cannot be that all is well."""
    if not _several_pairs(matrix, bad):
        return False
    many = 10 * len(bad) >= BLIND * len(matrix.values)  # no cell is measured ten times
    return many and _cells(matrix, bad) >= BLIND * len(matrix.cells)


def _several_pairs(matrix: Matrix, bad: Sequence[int]) -> bool:
    """Whether the bad tests belong to two pairs or more. A single pair, in one or both directions, is not the whole fabric."""
    first = doubt.pair_of(matrix, bad[0]) if bad else None
    return any(doubt.pair_of(matrix, test) != first for test in bad)


def _cells(matrix: Matrix, tests: Sequence[int]) -> int:
    """The number of cells to which these tests belong. Bad cells are measured again on purpose, which must not make the result
    worse.
    """
    return len({matrix.ends[test] for test in tests})


def _noise(screened: Screened, hiccup: float, sensitivity: float = 1.0) -> PairNoise:
    usual = math.nan if screened.main.usual is None else screened.main.usual
    return PairNoise(sensitivity, hiccup, usual, screened.main.spread, _line(screened))


def _unnamed(
    answer: MatrixAnswer, screened: Screened, unseen: tuple[int, ...], hiccup: float = 0.0
) -> Decoded:
    return Decoded(answer, _noise(screened, hiccup), (), (), tuple(screened.bad), unseen)


def _line(screened: Screened) -> float:
    return math.nan if screened.main.line is None else screened.main.line


def _below_floor(matrix: Matrix, screened: Screened, tolerance: Tolerance) -> bool:
    usual, floor = screened.main.usual, tolerance.floor
    if usual is None or floor is None:
        return False
    return usual < floor if matrix.better.value == "higher" else usual > floor


def _explicable(
    matrix: Matrix, screened: Screened, tolerance: Tolerance, blamed: Sequence[Suspect] = ()
) -> bool:
    """Whether as many bad nodes as may be named, or a named rail or switch, could make this many tests bad."""
    nodes = len(set(matrix.nodes))
    if nodes <= 2 or any(suspect.kind in (Entity.RAIL, Entity.SWITCH) for suspect in blamed):
        return True
    good = nodes - max(1, int(tolerance.max_unfit_fraction * nodes))
    inside = matrix.span is Span.INSIDE
    fine = good / nodes if inside else good * (good - 1) / (nodes * (nodes - 1))
    most = 1 - fine + SLACK
    if len(screened.bad) <= most * len(matrix.values):
        return True
    return _cells(matrix, screened.bad) <= most * len(matrix.cells)


def _without_loops(matrix: Matrix) -> list[int] | None:
    """The tests that are not from a part to itself, if there are such tests; None if there are none."""
    if not any(map(eq, matrix.sources, matrix.targets)):
        return None
    return [test for test, (a, b) in enumerate(matrix.ends) if a != b]


def _only(matrix: Matrix, tests: list[int]) -> Matrix:
    names = ("sources", "targets", "values", "rounds", "moments")
    left: Any = {
        name: [column[test] for test in tests] for name in names if (column := getattr(matrix, name))
    }
    return replace(matrix, **left)


def _renumbered(decoded: Decoded, originals: list[int]) -> Decoded:
    def old(tests: Sequence[int]) -> tuple[int, ...]:
        return tuple(originals[test] for test in tests)

    paths = decoded.paths
    return replace(
        decoded,
        suspects=tuple(replace(suspect, cells=old(suspect.cells)) for suspect in decoded.suspects),
        slow=tuple(replace(suspect, cells=old(suspect.cells)) for suspect in decoded.slow),
        bad=old(decoded.bad),
        unexplained=old(decoded.unexplained),
        congestion=tuple(replace(period, tests=old(period.tests)) for period in decoded.congestion),
        paths=replace(paths, bad=old(paths.bad), tests=old(paths.tests)) if paths else None,
    )
