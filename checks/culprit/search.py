"""The set of culprits that explains the bad tests best, and for each of them the best explanation without it (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from checks.culprit.candidates import Who
from checks.culprit.explanation import Explanation
from checks.culprit.likelihood import Chance
from checks.culprit.links import LinkFault

# Where to begin from: hiccups that are rare, usual, and so frequent that blame is hard. The likeliest end is taken.
STARTS = (Chance(0.1, 0.05), Chance(0.02, 0.01), Chance(0.002, 0.0005))
REFITS = 3
# Close enough: another round of fitting would blame the same.
SAME_RATE = 1.2
# More culprits than this are weighed by what they gain alone: then it is the fabric, and no list of parts.
MOST_WEIGHED = 48
SWAPS = 8


@dataclass(frozen=True)
class Rival:
    """What explains a culprit's tests when it is acquitted, and the log odds that this loses (or gains, below 0)."""

    loss: float
    candidates: tuple[int, ...]
    links: tuple[LinkFault, ...]


def search(explanation: Explanation) -> dict[int, Rival]:
    """Find the likeliest explanation, which `explanation` then is. Each culprit with its rival (none if too many)."""
    best = max((_settle(explanation, start) for start in STARTS), key=lambda found: found[0])
    if list(explanation.blamed) != best[2]:
        explanation.clear()
        for at in best[2]:
            explanation.blame(at)
    explanation.fit(best[1])
    return _weigh(explanation)


def _settle(explanation: Explanation, chance: Chance) -> tuple[float, Chance, list[int]]:
    """Begin with these rates and whoever is blamed already, and go on until rates and blame agree."""
    for _ in range(REFITS):
        explanation.fit(chance)
        for at in [at for at in explanation.blamed if explanation.gain_of(at) <= 0]:
            explanation.acquit(at)
        blame_greedily(explanation)
        before, chance = chance, explanation.chance()
        if _same(before.hiccup, chance.hiccup) and _same(before.spell, chance.spell):
            break
    return explanation.score(), chance, list(explanation.blamed)


def _same(one: float, other: float) -> bool:
    return max(one / other, other / one) < SAME_RATE


def blame_greedily(explanation: Explanation, acquitted: Who | None = None) -> None:
    """Blame whoever gains most over chance and links, one at a time; never the acquitted one, in no way."""
    whos = explanation.candidates.whos
    taken = {(whos[at].kind, whos[at].at) for at in explanation.blamed}
    if acquitted is not None:
        taken.add((acquitted.kind, acquitted.at))
    open_ = [at for at in explanation.possible if (whos[at].kind, whos[at].at) not in taken]
    while open_:
        at = max(open_, key=lambda one: (explanation.surplus(one), -one))
        if explanation.surplus(at) <= 1e-9:
            return
        explanation.blame(at)
        open_ = [one for one in open_ if (whos[one].kind, whos[one].at) != (whos[at].kind, whos[at].at)]


def _weigh(explanation: Explanation) -> dict[int, Rival]:
    """Each culprit's rival; a rival that is likelier takes the culprit's place, and all are weighed again."""
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
    blame_greedily(explanation, explanation.candidates.whos[at])
    added = tuple(one for one in explanation.blamed if one not in before)
    links = tuple(fault for pair in explanation.pairs_of(at) for fault in explanation.found.get(pair, ()))
    rival = Rival(score - explanation.score(), added, links)
    if rival.loss < -1e-6:
        return rival
    for one in added:
        explanation.acquit(one)
    explanation.blame(at)
    return rival
