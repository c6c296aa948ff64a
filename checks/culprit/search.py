"""Searches the set of culprits that explains the bad tests best, and for each of them the best explanation without it. Pure.

From the most likely explanation it makes the suspects: the part, its probability, the evidence, and the next most likely part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from checks.culprit.candidates import Candidate, Candidates
from checks.culprit.explanation import Explanation
from checks.culprit.likelihood import Chance
from checks.culprit.links import LinkFault, Links
from checks.culprit.matrix import Direction, Entity, Matrix, RunnerUp, Suspect, link
from checks.culprit.noise import Screened
from checks.culprit.suspects import suspect_of

# The rates from which the search begins: hiccups that are rare, usual, and so frequent that blaming is hard. The most likely result
# is used.
STARTS = (Chance(0.1, 0.05), Chance(0.02, 0.01), Chance(0.002, 0.0005))
REFITS = 3
# If the rates change by less, another round of fitting would blame the same parts.
SAME_RATE = 1.2
# More culprits than this are only compared by their own gain: then the reason is the fabric, and not a list of parts.
MOST_WEIGHED = 48
SWAPS = 8


@dataclass(frozen=True)
class Rival:
    """What explains a culprit's tests if the culprit is not blamed, and the log odds that this loses (or gains, below 0)."""

    loss: float
    candidates: tuple[int, ...]
    links: tuple[LinkFault, ...]


def search(explanation: Explanation) -> dict[int, Rival]:
    """Finds the most likely explanation, and changes `explanation` to it. Returns the rival of each culprit (none if there are too
    many).
    """
    _, chance, blamed = max((_settle(explanation, start) for start in STARTS), key=lambda result: result[0])
    if list(explanation.blamed) != blamed:
        for at in list(explanation.blamed):
            explanation.acquit(at)
        for at in blamed:
            explanation.blame(at)
    explanation.fit(chance)
    return _weigh(explanation)


def _settle(explanation: Explanation, chance: Chance) -> tuple[float, Chance, list[int]]:
    """Begins with these rates and the parts that are blamed already, and continues until rates and blame agree."""
    for _ in range(REFITS):
        explanation.fit(chance)
        for at in [at for at in explanation.blamed if explanation.gain_of(at) <= 0]:
            explanation.acquit(at)
        blame_greedily(explanation)
        before, chance = chance, explanation.chance()
        if _same(before.hiccup, chance.hiccup) and _same(before.spell, chance.spell):
            break
    return explanation.score(), chance, list(explanation.blamed)


def _same(rate: float, other: float) -> bool:
    return max(rate / other, other / rate) < SAME_RATE


def blame_greedily(explanation: Explanation, acquitted: Candidate | None = None) -> None:
    """Blames the candidate with the greatest gain over chance and links, one at a time; never the acquitted one, in any direction."""
    whos = explanation.candidates.entries
    blamed = {whos[at][:2] for at in explanation.blamed}
    if acquitted is not None:
        blamed.add(acquitted[:2])
    open_ = [at for at in explanation.possible if whos[at][:2] not in blamed]
    surplus = {at: explanation.surplus(at) for at in open_}
    # The greatest surplus first. What blame changes is added again, so that an entry counts only if its value is the present one.
    order = [(-value, at) for at, value in surplus.items()]
    heapify(order)
    while order:
        value, at = order[0]
        key = whos[at][:2]
        if key in blamed or -value != surplus[at]:
            heappop(order)
            continue
        if surplus[at] <= 1e-9:
            return
        blamed.add(key)
        for other in explanation.blame(at):
            if other in surplus and (after := explanation.surplus(other)) != surplus[other]:
                surplus[other] = after
                heappush(order, (-after, other))


def _weigh(explanation: Explanation) -> dict[int, Rival]:
    """Each culprit's rival. A rival that is more likely replaces the culprit, and all are compared again."""
    if len(explanation.blamed) > MOST_WEIGHED:
        return {}
    rivals: dict[int, Rival] = {}
    for _ in range(SWAPS):
        rivals = {}
        for at in list(explanation.blamed):
            rivals[at] = _rival(explanation, at)
            if at not in explanation.blamed:
                break
        else:
            break
    return rivals


def _rival(explanation: Explanation, at: int) -> Rival:
    score, before = explanation.score(), set(explanation.blamed)
    explanation.acquit(at)
    blame_greedily(explanation, explanation.candidates.entries[at])
    added = tuple(candidate for candidate in explanation.blamed if candidate not in before)
    links = tuple(fault for pair in explanation.pairs_of(at) for fault in explanation.found.get(pair, ()))
    rival = Rival(score - explanation.score(), added, links)
    if rival.loss < -1e-6:
        return rival
    for other in added:
        explanation.acquit(other)
    explanation.blame(at)
    return rival


# Judgement: a node or rank is only named if the probability that it is good is below this.
SURE = 0.9
# A fault between nodes removes no machine: it is named if it is more likely than not, and chance is unlikely.
LIKELY = 0.5


@dataclass(frozen=True)
class WeighedSuspect:
    """A suspect with all of its tests and the number of visits in which they were made; `named` is False if chance or another part
    is too likely.
    """

    suspect: Suspect
    tests: Sequence[int]
    visits: float
    is_named: bool


def suspects(
    matrix: Matrix, screened: Screened, explanation: Explanation, rivals: Mapping[int, Rival]
) -> list[WeighedSuspect]:
    """All culprits of the explanation, the most likely first."""
    bad = set(screened.bad)
    blamed = explanation.blamed
    weighed = [_of_candidate(matrix, screened, explanation, at, rivals.get(at), bad) for at in blamed]
    for faults in explanation.found.values():
        weighed += [_of_link(matrix, screened, explanation, fault, bad) for fault in faults]
    return sorted(weighed, key=_order)


def _order(entry: WeighedSuspect) -> tuple[float, int, str, Direction]:
    suspect = entry.suspect
    return -suspect.probability, -suspect.bad, suspect.subject, suspect.way


def _of_candidate(
    matrix: Matrix, screened: Screened, explanation: Explanation, at: int, rival: Rival | None, bad: set[int]
) -> WeighedSuspect:
    candidates = explanation.candidates
    entry, nodes = candidates.entries[at], candidates.nodes_of(at)
    gain = explanation.gain_of(at)
    loss = gain if rival is None else min(gain, rival.loss)
    probability, chance = _sigmoid(loss), _sigmoid(-gain)
    runner_up, same = None, False
    if rival and (rival.candidates or rival.links):
        others = {node for candidate in rival.candidates for node in candidates.nodes_of(candidate)}
        others |= {node for fault in rival.links for node in _names(candidates, fault)[1]}
        same = others == set(nodes)
        runner_up = _runner_up(candidates, rival.candidates, rival.links, 1 - probability)
    blames_nodes = entry.entity in (Entity.NODE, Entity.RANK) and not same
    is_named = chance <= 1 - SURE and probability >= (SURE if blames_nodes else LIKELY - 1e-9)
    tests = sorted(test for cell in explanation.cells_of(at) for test in matrix.cells[cell])
    identity = entry.entity, entry.subject, nodes, entry.direction
    suspect = suspect_of(matrix, screened, identity, tests, bad, probability)
    visits = len(tests) / explanation.sizes[at]
    return WeighedSuspect(replace(suspect, runner_up=runner_up), tests, visits, is_named)


def _of_link(
    matrix: Matrix, screened: Screened, explanation: Explanation, fault: LinkFault, bad: set[int]
) -> WeighedSuspect:
    candidates = explanation.candidates
    links = explanation.links
    cells = [cell for cell in links.cells[fault.ends] if _in_fault(links, fault, cell)]
    tests = sorted(test for cell in cells for test in matrix.cells[cell])
    involved = {at for cell in cells if cell in links.bad for at in candidates.involved(cell)}
    others = involved.difference(explanation.blamed)
    best = max(others, key=lambda at: (explanation.surplus(at), -at), default=None)
    against = 0.0 if best is None else math.exp(min(0.0, explanation.surplus(best)))
    total = 1 + against + math.exp(-min(fault.gain.sure, 700.0))
    runner_up = _runner_up(candidates, () if best is None else (best,), (), against / total)
    subject, nodes = _names(candidates, fault)
    identity = Entity.LINK, subject, nodes, fault.direction
    suspect = suspect_of(matrix, screened, identity, tests, bad, 1 / total)
    is_named = 1 / total >= LIKELY and _sigmoid(-fault.gain.sure) <= 1 - SURE
    return WeighedSuspect(replace(suspect, runner_up=runner_up), tests, len(tests) / fault.size, is_named)


def _runner_up(
    candidates: Candidates, others: Sequence[int], links: Sequence[LinkFault], probability: float
) -> RunnerUp | None:
    if others:
        return RunnerUp(*candidates.entries[others[0]][:2], probability)
    best = max(links, key=lambda fault: fault.gain.over_hiccups, default=None)
    return None if best is None else RunnerUp(Entity.LINK, _names(candidates, best)[0], probability)


def _names(candidates: Candidates, fault: LinkFault) -> tuple[str, tuple[str, ...]]:
    """A link's name for people, and the nodes at its ends."""
    if fault.rail is None:
        nodes = candidates.nodes[fault.ends[0]], candidates.nodes[fault.ends[1]]
        return link(*nodes), nodes
    first, other = (candidates.matrix.endpoints[end] for end in fault.rail)
    return link(first.name, other.name), tuple(dict.fromkeys((first.node, other.node)))


def _in_fault(links: Links, fault: LinkFault, cell: tuple[int, int]) -> bool:
    if fault.rail is not None and cell not in (fault.rail, fault.rail[::-1]):
        return False
    return fault.direction is Direction.BOTH or (fault.direction is Direction.OUT) == links.forward(cell)


def _sigmoid(odds: float) -> float:
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, odds))))
