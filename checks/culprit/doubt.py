"""What is in doubt after a search: bad tests that are neither explained nor hiccups, and culprits that could be chance. Pure.

It also says which pairs to measure again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from checks.culprit.explanation import Explanation
from checks.culprit.likelihood import Odds, passed
from checks.culprit.matrix import Direction, Entity, Matrix, Span, tallied
from checks.culprit.patterns.sweeps import CHANCE, is_uneven
from checks.culprit.search import WeighedSuspect

# Judgement: measuring again should take little time compared with the planned rounds; the partners of a part come one after another.
CONFIRM_A_PART = 4
# One stage of retests has room for so many pairs of a part: LEAST_ROUNDS of checks/probes/pairs/retest_rounds.py, three tests each.
ROOM_A_PART = 4
# Judgement: a part that is named after fewer visits, or for a smaller share of bad tests, is measured again.
FEW_VISITS, RARE, ENOUGH_VISITS = 4, 0.6, 10
# Judgement: tests within so many seconds belong to one moment. Stages of retests are further apart.
MOMENT_S = 1.8
# Judgement: a link that was good at some time is named if it was bad at so many times, and from this probability on.
LEAST_MOMENTS, SURE_LINK = 3, 0.95
# A link that is good in most of its tests, and in each of so many at one moment, was bad for a while: one that fails a
# third of its tests is good in six of them once in eleven times.
GOOD_AGAIN = 6
# Judgement: good tests are bad once in fifty or less; congestion spoils half of them.
BUSY_ENDS = 0.1
# If a cell has this many tests and the log odds of a faulty link are smaller than this, its bad test is a hiccup.
MEASURED_AGAIN, IMPOSSIBLE = 3, math.log(0.1 / 0.9)
# A pair that was bad in each of so many tests is not measured again, nor one that has so many tests.
ENOUGH_TESTS, MOST_TESTS = 14, 40
# Judgement: within so many rounds before and after, so many pairs, and this share of the visits, are a crowd.
AROUND, SEVERAL, CROWDED = 3, 3, 0.1
# Judgement: with so many pairs of an end that are never good by chance, none is named. A pair with fewer tests was not measured again.
BY_CHANCE, FEW_TESTS = 0.05, 3
# Judgement: a faulty part fails a third of its tests (RATES in checks/culprit/likelihood.py). One bad test of a visit of sixteen, on
# eight rails in two directions, is a hiccup.
BAD_VISIT = 0.25
# Judgement: a node is worse than the others if it is bad twice as often.
NEAR = 0.5


def doubtful_tests(
    explanation: Explanation, weighed: Sequence[WeighedSuspect], most_hiccups: float
) -> list[int]:
    """Bad tests that no named part explains, except hiccups: the cell was measured again, and a faulty link is unlikely.

    Of the cells that were measured again some are bad a second time by chance. If there are more of them than the rate of hiccups
    predicts, they are no hiccups, and nothing is one if the rate itself is too high.
    """
    explained = {test for entry in weighed if entry.is_named for test in entry.tests}
    links, fitted = explanation.links, explanation.chance()
    chance = replace(fitted, hiccup=min(fitted.hiccup, most_hiccups))
    odds = Odds(chance, explanation.nodes)
    doubtful, predicted = list[int](), 0.0
    once, twice = list[list[int]](), list[list[int]]()
    for cell, bad in links.bad.items():
        if not (tests := [test for test in bad if test not in explained]):
            continue
        counts = links.tallies[links.pair(cell)].rails.get(links.rail(cell), [0] * 5)
        forward = links.forward(cell)
        if not _is_hiccup(odds, counts, forward, float(links.back)):
            doubtful += tests
            continue
        predicted += 1 - (1 - chance.hiccup) ** (counts[1 if forward else 3] - 1)
        (twice if len(tests) > 1 else once).append(tests)
    too_often = fitted.hiccup > most_hiccups
    if too_often or len(twice) > predicted + CHANCE * math.sqrt(predicted) + 1:
        doubtful += [test for tests in (*twice, *(once if too_often else ())) for test in tests]
    return sorted(doubtful)


def _is_hiccup(odds: Odds, counts: Sequence[int], forward: bool, back: float) -> bool:
    at = 0 if forward else 2
    if counts[at + 1] < MEASURED_AGAIN or counts[at] == counts[at + 1]:
        return False
    if passed(counts[1] + counts[3], counts[4], back):
        return True
    both = odds.gain(
        Entity.LINK, Direction.BOTH, counts[0] + counts[2], counts[1] + counts[3], counts[4], back
    )
    single = odds.gain(Entity.LINK, Direction.OUT, counts[at], counts[at + 1], counts[at], 1.0)
    return max(both.sure, single.sure) < IMPOSSIBLE


def never_good(matrix: Matrix, tests: Sequence[int], bad: Sequence[int]) -> tuple[int, ...]:
    """The result holds the bad tests whose cells had no good test yet."""
    wrong = set(bad)
    never = {cell: wrong.issuperset(matrix.cells[cell]) for cell in {matrix.ends[test] for test in tests}}
    return tuple(test for test in tests if never[matrix.ends[test]])


def tests_of_cells(matrix: Matrix, tests: Collection[int]) -> list[int]:
    """All tests of the cells to which these tests belong."""
    return sorted(test for cell in {matrix.ends[test] for test in tests} for test in matrix.cells[cell])


def only_if_certain(
    matrix: Matrix, weighed: Sequence[WeighedSuspect], bad: Sequence[int]
) -> list[WeighedSuspect]:
    """The suspects are returned, and one is not named if it may be what others did at one time."""
    crowds = _crowded_rounds(matrix, weighed, bad)
    others = (entry.suspect for entry in weighed if entry.is_named and entry.suspect.kind is not Entity.LINK)
    blamed = {node for suspect in others for node in suspect.nodes}
    sure = [
        replace(
            weighed_suspect,
            is_named=weighed_suspect.is_named
            and not _may_pass(matrix, weighed_suspect, bad, crowds, blamed)
            and not _is_congested_switch(matrix, weighed_suspect, bad),
        )
        for weighed_suspect in weighed
    ]
    return _only_if_distinct(matrix, sure, bad)


# of each rail, and of all rails together (None)
Crowds = Mapping[int | None, frozenset[int]]


def _crowded_rounds(matrix: Matrix, weighed: Sequence[WeighedSuspect], bad: Sequence[int]) -> Crowds:
    """The rounds in which several pairs of nodes were bad that are good at other times: congestion does so, and two bad links do
    not, on however many rails.

    Tests of nodes that are named do not count. A rail is looked at by itself if one of its links is named.
    """
    links = [entry for entry in weighed if entry.is_named and entry.suspect.kind is Entity.LINK]
    if not matrix.rounds or not links:
        return {}
    names = matrix.nodes
    others = (entry.suspect for entry in weighed if entry.is_named and entry.suspect.kind is not Entity.LINK)
    nodes = {node for suspect in others for node in suspect.nodes}
    wrong, cells = set(bad), matrix.ends
    good = {cell for test, cell in enumerate(cells) if test not in wrong}
    spoiled = {test for test in bad if cells[test] in good}
    tests = [test for test, (a, b) in enumerate(cells) if not nodes or nodes.isdisjoint((names[a], names[b]))]
    rails = {rail for link in links if (rail := _rail(matrix, link)) is not None}
    crowds: dict[int | None, frozenset[int]] = {None: _crowded(matrix, tests, spoiled)}
    for rail in rails if len({endpoint.rail for endpoint in matrix.endpoints}) > 1 else ():
        rail_tests = [test for test in tests if matrix.endpoints[cells[test][0]].rail == rail]
        crowds[rail] = _crowded(matrix, rail_tests, spoiled)
    return crowds


def _rail(matrix: Matrix, weighed: WeighedSuspect) -> int | None:
    """The rail of a suspect's tests; None if they are on several."""
    rails = {matrix.endpoints[matrix.sources[test]].rail for test in weighed.tests}
    return rails.pop() if len(rails) == 1 else None


def _crowded(matrix: Matrix, tests: Sequence[int], spoiled: Collection[int]) -> frozenset[int]:
    """The rounds in, before or after which many of the visits were bad: of the `tests` of several pairs, many are `spoiled`."""
    # The end of a visit is a node, or a part inside of nodes.
    ends = range(len(matrix.endpoints)) if matrix.span is Span.INSIDE else matrix.node_of
    met = ((test, ends[matrix.sources[test]], ends[matrix.targets[test]]) for test in tests)
    visits = tallied(
        ((matrix.rounds[test], min(first, other), max(first, other)), test in spoiled)
        for test, first, other in met
    )
    every, bad = Counter(at for at, *_ in visits), dict[int, set[tuple[int, int]]]()
    for (at, *pair), (some, whole) in visits.items():
        if some >= BAD_VISIT * whole:
            bad.setdefault(at, set()).add((pair[0], pair[1]))
    crowded = set[int]()
    for at in every:
        near = range(at - AROUND, at + AROUND + 1)
        pairs = set[tuple[int, int]]().union(*(bad.get(turn, ()) for turn in near))
        if len(pairs) >= SEVERAL and len(pairs) >= CROWDED * sum(every[turn] for turn in near):
            crowded.add(at)
    return frozenset(crowded)


def _only_if_distinct(
    matrix: Matrix, weighed: Sequence[WeighedSuspect], bad: Sequence[int]
) -> list[WeighedSuspect]:
    """A node is not named if it is bad in less than half of its tests while a node that is not named is bad nearly as often: what
    befell several is no part's fault. Tests with other named nodes do not count.
    """
    ends = (Entity.NODE, Entity.RANK)
    blamed = {entry.suspect.nodes[0] for entry in weighed if entry.is_named and entry.suspect.kind in ends}
    rare = {node for node in blamed if any(_is_rare(entry, node) for entry in weighed)}
    if not rare:
        return list(weighed)
    names, wrong = matrix.nodes, set(bad)
    met = ((names[source], names[target], test) for test, (source, target) in enumerate(matrix.ends))
    both = (turned for first, other, test in met for turned in ((first, other, test), (other, first, test)))
    counts = tallied((node, test in wrong) for node, two, test in both if two not in blamed and node != two)
    rates = {node: some / every for node, (some, every) in counts.items()}
    worst = max((rate for node, rate in rates.items() if node not in blamed), default=0.0)
    vague = {node for node in rare if node in rates and worst >= NEAR * rates[node]}
    unsure = [any(_is_rare(entry, node) for node in vague) for entry in weighed]
    return [
        replace(entry, is_named=entry.is_named and not is_vague)
        for entry, is_vague in zip(weighed, unsure, strict=True)
    ]


def _is_congested_switch(matrix: Matrix, weighed: WeighedSuspect, bad: Sequence[int]) -> bool:
    """Whether a switch was bad in less than half of its tests, and in some rounds so much more often than in others that these are
    periods of congestion. If one of its links is slow over which it spreads flows, all rounds have their share of bad tests.
    """
    if (
        not matrix.rounds
        or weighed.suspect.kind is not Entity.SWITCH
        or 2 * weighed.suspect.bad >= weighed.suspect.tests
    ):
        return False
    wrong = set(bad)
    counts = tallied((matrix.rounds[test], test in wrong) for test in weighed.tests).values()
    return len(counts) < 2 or not any(bad for bad, _ in counts) or is_uneven([counts])


def _is_rare(weighed: WeighedSuspect, node: str) -> bool:
    suspect = weighed.suspect
    return suspect.kind is Entity.NODE and suspect.subject == node and 2 * suspect.bad < suspect.tests


def _may_pass(
    matrix: Matrix, weighed: WeighedSuspect, bad: Sequence[int], crowds: Crowds, blamed: Set[str]
) -> bool:
    """Whether a link was good at some time, and bad at one or two times only or with another likely explanation.

    Congestion, and an end that is bad for some of the time, spoil links so.
    """
    if not matrix.moments or weighed.suspect.kind is not Entity.LINK:
        return False
    wrong = set(bad)
    mine = [test for test in weighed.tests if test in wrong]
    if len(mine) == len(weighed.tests):
        return _is_usual(matrix, mine, wrong, blamed)
    was_good = any(
        len(tests) >= GOOD_AGAIN and wrong.isdisjoint(tests) for tests in _by_moment(matrix, weighed.tests)
    )
    if 2 * len(mine) < len(weighed.tests) and (
        was_good or _has_busy_path(matrix, weighed.tests, wrong) or _is_leaf_busy(matrix, mine, wrong)
    ):
        return True
    if matrix.rounds:
        crowded = crowds.get(None, frozenset()) | crowds.get(_rail(matrix, weighed), frozenset())
        counts = tallied((matrix.rounds[test], test in wrong) for test in weighed.tests)
        bad_rounds = {at for at, (some, every) in counts.items() if some >= BAD_VISIT * every} - crowded
        mine = [test for test in mine if matrix.rounds[test] in bad_rounds]
    return len(list(_by_moment(matrix, mine))) < LEAST_MOMENTS or weighed.suspect.probability < SURE_LINK


def _has_busy_path(matrix: Matrix, tests: Sequence[int], wrong: Set[int]) -> bool:
    """Whether pairs of a link's ends that were good in the sweeps were mostly bad when the link was measured again and bad."""
    first = matrix.swept
    ends = {end for test in tests for end in matrix.ends[test]}
    spoiled = {matrix.ends[test] for test in wrong if first[test]} | {matrix.ends[test] for test in tests}
    others = [
        test
        for test in matrix.tests_of(ends)
        if not first[test] and spoiled.isdisjoint((matrix.ends[test], matrix.ends[test][::-1]))
    ]
    busy, calm = 0, 0
    for moment_tests in _by_moment(matrix, [test for test in tests if not first[test]]):
        began = matrix.moments[moment_tests[0]]
        concurrent = [test for test in others if abs(matrix.moments[test] - began) < MOMENT_S]
        if concurrent and not wrong.isdisjoint(moment_tests):
            is_busy = sum(test in wrong for test in concurrent) > BUSY_ENDS * len(concurrent)
            busy, calm = busy + is_busy, calm + (not is_busy)
    return busy > calm


def _is_usual(matrix: Matrix, tests: Sequence[int], wrong: Set[int], blamed: Set[str]) -> bool:
    """Whether an end of a link is bad with its other partners so often that one of these pairs is never good by chance, as the link.

    Tests of one moment count once. A pair that was measured again and is bad in most tests may be a bad link itself. Nodes that are
    `blamed` do not count.
    """
    cells, times = {matrix.ends[test] for test in tests}, len(list(_by_moment(matrix, tests)))
    nodes = {matrix.node_of[end] for cell in cells for end in cell}
    for end, is_source in {(end, end == cell[0]) for cell in cells for end in cell}:
        partners: dict[int, list[bool]] = {}
        for test in matrix.tests_of([end]):
            source, target = matrix.ends[test]
            other = matrix.node_of[target if source == end else source]
            is_blamed = not blamed.isdisjoint((matrix.nodes[source], matrix.nodes[target]))
            if (source == end) is is_source and other not in nodes and not is_blamed:
                partners.setdefault(other, []).append(test in wrong)
        counts = [own for own in partners.values() if len(own) < FEW_TESTS or 2 * sum(own) <= len(own)]
        share = sum(map(sum, counts)) / max(1, sum(map(len, counts)))
        if len(counts) * share**times > BY_CHANCE:
            return True
    return False


def _is_leaf_busy(matrix: Matrix, mine: Sequence[int], wrong: Set[int]) -> bool:
    """Whether other pairs below the nearest switches of a link were bad as well just when the link was, in its bad tests `mine`.

    Pairs that are bad in most of their tests do not count.
    """
    leaves = [endpoint.switches[:1] for endpoint in matrix.endpoints]
    ends = matrix.ends[mine[0]]
    below = {end for end, leaf in enumerate(leaves) if leaf and leaf in (leaves[ends[0]], leaves[ends[1]])}
    when = {matrix.rounds[test] + apart for test in mine for apart in (-1, 0, 1)} if matrix.rounds else set()
    near = [test for test in matrix.tests_of(below) if matrix.rounds[test] in when] if when else []
    pairs = {pair_of(matrix, test) for test in near} - {pair_of(matrix, mine[0])}
    tests = [(pair_of(matrix, test), test in wrong) for test in matrix.tests_of(below)] if pairs else []
    spoiled, every = Counter(pair for pair, is_bad in tests if is_bad), Counter(pair for pair, _ in tests)
    others = [
        test for test in near if (pair := pair_of(matrix, test)) in pairs and 2 * spoiled[pair] < every[pair]
    ]
    return sum(test in wrong for test in others) > BUSY_ENDS * len(others)


def _by_moment(matrix: Matrix, tests: Sequence[int]) -> Iterator[list[int]]:
    """The tests of each moment, in the order of time."""
    order, group = sorted(tests, key=matrix.moments.__getitem__), list[int]()
    for test in order:
        if group and matrix.moments[test] - matrix.moments[group[0]] >= MOMENT_S:
            yield group
            group = []
        group.append(test)
    if group:
        yield group


def unsure_tests(weighed: Sequence[WeighedSuspect], bad: set[int]) -> list[int]:
    """Bad tests of parts that are named after few visits, or for a rate that a period of congestion could have caused; of links that
    were good at times, until they have many tests.
    """
    weak = [entry for entry in weighed if entry.is_named and (_is_weak_link(entry) or _is_weak(entry))]
    return sorted({test for entry in weak for test in entry.tests if test in bad})


def controls(
    matrix: Matrix, weighed: Sequence[WeighedSuspect], bad: Collection[int]
) -> Iterator[tuple[int, int]]:
    """For each link that is named and was good at times: a good pair of each of its ends. If these become bad as well when the link is
    measured again, its path is busy.
    """
    links = [entry for entry in weighed if entry.is_named and _is_weak_link(entry)]
    spoiled = {matrix.ends[test] for test in bad} if links else set()
    for entry in links:
        for end in min(pair_of(matrix, test) for test in entry.tests):
            cells = sorted(cell for cell in matrix.cells if end in cell)
            pair = next((cell for cell in cells if not spoiled.intersection((cell, cell[::-1]))), None)
            yield from (pair, pair[::-1]) if pair else ()


def _is_weak(weighed: WeighedSuspect) -> bool:
    return weighed.visits < FEW_VISITS or weighed.suspect.bad < RARE * weighed.suspect.tests


def _is_weak_link(weighed: WeighedSuspect) -> bool:
    suspect = weighed.suspect
    return suspect.kind is Entity.LINK and suspect.bad < suspect.tests and weighed.visits < ENOUGH_VISITS


def to_confirm(matrix: Matrix, doubtful: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Pairs to measure again, in both directions. Pairs that were bad in all tests of a direction come first, because otherwise
    congestion would leave pairs that nobody saw good; then those that were bad more often, which are more likely links than chance.

    If there are more than one stage has room for, only the former are returned, as long as there are any.
    """
    times = Counter(pair_of(matrix, test) for test in doubtful)
    if not times:
        return ()
    bad = Counter(matrix.ends[test] for test in doubtful)
    cells = (cell for pair in times for cell in (pair, pair[::-1]))
    tests = {cell: len(matrix.cells.get(cell, ())) for cell in cells}
    a_part = 2 * len(times) / max(1, len(matrix.endpoints))
    most = max(math.ceil(CONFIRM_A_PART + a_part + 3 * math.sqrt(a_part)), len(matrix.endpoints) // 4)
    unseen = {pair for pair in times if any(0 < bad[cell] == tests[cell] for cell in (pair, pair[::-1]))}
    load: Counter[int] = Counter()
    chosen = []
    chosen_from = (a_part > ROOM_A_PART and unseen) or times
    for first, other in sorted(chosen_from, key=lambda pair: (pair not in unseen, -times[pair], pair)):
        all_tests = tests[first, other] + tests[other, first]
        enough = all_tests >= MOST_TESTS or ENOUGH_TESTS <= times[first, other] == all_tests
        if not enough and max(load[first], load[other]) < most:
            load[first] += 1
            load[other] += 1
            chosen += [(first, other), (other, first)]
    return tuple(chosen)


def pair_of(matrix: Matrix, test: int) -> tuple[int, int]:
    """The two parts of a test, the lower number first."""
    first, other = matrix.ends[test]
    return (first, other) if first < other else (other, first)
