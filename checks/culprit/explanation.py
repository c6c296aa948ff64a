"""A set of blamed candidates and links, the tests that each of them owns, and how likely all of it is. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from functools import cache

from checks.culprit.candidates import Candidate, Candidates
from checks.culprit.likelihood import Chance, Gain, Odds, blamed, by_chance, prior
from checks.culprit.links import Counts, LinkFault, Links, Pair
from checks.culprit.matrix import Direction, Entity

# A candidate that is this unlikely even if hiccups are rare is left out, whatever else is found.
HOPELESS = -12.0


class Explanation:
    """The explanation of the matrix so far. It is changed in place. A test has one owner: the candidate that was blamed first, or
    none.
    """

    def __init__(self, candidates: Candidates, links: Links, chance: Chance) -> None:
        self.candidates, self.links = candidates, links
        self.nodes = len(candidates.nodes)
        self.tests, self.bad = candidates.count(candidates.matrix.cells), candidates.count(links.bad)
        self.left, self.left_bad = len(candidates.matrix.values), sum(map(len, links.bad.values()))
        self.owner: dict[Pair, int] = {}
        self.blamed: dict[int, Counts] = {}  # bad tests, tests, visits with a bad test
        self._spoiled: dict[int, set[int]] = {}  # these visits
        self._changed: set[int] = set()
        self._surplus: dict[int, float] = {}
        self.cells_of = cache(candidates.cells)
        self.sizes = [self._tests_a_visit(candidate) for candidate in candidates.entries]
        self._choose(chance)
        self.fit(chance)

    def _tests_a_visit(self, candidate: Candidate) -> float:
        directions = self.links.back if candidate.direction is Direction.BOTH else 1
        whole = candidate.entity in (Entity.NODE, Entity.SWITCH) and not self.candidates.inside
        return directions * self.links.size / self.links.back if whole else float(directions)

    def _choose(self, chance: Chance) -> None:
        """The candidates that could be to blame at all, with the visits in which each had bad tests."""
        self.odds = Odds(chance, self.nodes)
        self.visits = [0] * len(self.sizes)
        self._in_visit: dict[tuple[int, int], int] = {}
        self.possible = []
        for at, entry in enumerate(self.candidates.entries):
            bad, tests, size = self.bad[at], self.tests[at], self.sizes[at]
            fewest, most = max(1, math.ceil(bad / size)), min(bad, int(tests / size))
            gains = (self.odds.gain(*entry.fault, bad, tests, visits, size).sure for visits in (fewest, most))
            if bad and max(gains) > HOPELESS:
                self.possible.append(at)
        self._open = set(self.possible)
        for cell in self.links.bad:
            self._visit(cell, self.candidates.involved(cell), 1)

    def _visit(self, cell: Pair, candidates: Iterable[int], sign: int) -> None:
        """Adds the visits in which a cell was bad to those of its candidates (1), or takes them away (-1)."""
        visits = self.links.bad[cell].values()
        for key in ((at, visit) for at in candidates if at in self._open for visit in visits):
            number = self._in_visit.get(key, 0)
            self._in_visit[key] = number + sign
            if number == 0 or number + sign == 0:
                self.visits[key[0]] += sign

    def fit(self, chance: Chance) -> None:
        """Uses other rates of hiccups and spells. What is blamed stays blamed."""
        self.odds = Odds(chance, self.nodes)
        self.found: dict[Pair, list[LinkFault]] = {}
        self._shares: dict[Pair, tuple[Sequence[Pair], float]] = {}
        self._credit = [0.0] * len(self.candidates.entries)
        self._relink(self.links.cells)
        self._surplus.clear()

    def gain(self, at: int) -> Gain:
        """The gain in log odds from blaming this candidate for its tests that have no owner."""
        entry = self.candidates.entries[at]
        return self.odds.gain(*entry.fault, self.bad[at], self.tests[at], self.visits[at], self.sizes[at])

    def surplus(self, at: int) -> float:
        """The gain compared with chance, or with links that would explain its tests; the smaller of the two."""
        value = self._surplus.get(at)
        if value is None:
            sure, over_hiccups = self.gain(at)
            value = self._surplus[at] = min(sure, over_hiccups - self._credit[at])
        return value

    def blame(self, at: int) -> Set[int]:
        """Blames this candidate for those of its tests that have no owner yet.

        Returns the candidates whose surplus this may have changed; the set is valid until the next call.
        """
        mine = [cell for cell in self.cells_of(at) if cell not in self.owner]
        self._own(at, mine)
        self._move(mine, -1)
        return self._changed

    def acquit(self, at: int) -> None:
        """No longer blames a candidate. Its tests go to other blamed candidates that take part in them, or to none."""
        del self.blamed[at], self._spoiled[at]
        free, left = list[Pair](), dict[int, list[Pair]]()
        for cell in self.cells_of(at):
            if self.owner.get(cell) != at:
                continue
            heir = next((other for other in self.candidates.involved(cell) if other in self.blamed), None)
            if heir is None:
                del self.owner[cell]
                free.append(cell)
            else:
                left.setdefault(heir, []).append(cell)
        for heir, cells in left.items():
            self._own(heir, cells)
        self._move(free, 1)

    def _own(self, at: int, cells: Sequence[Pair]) -> None:
        """Makes a blamed candidate the owner of these cells as well."""
        self.owner.update(dict.fromkeys(cells, at))
        every, counts = self.candidates.matrix.cells, self.blamed.setdefault(at, [0, 0, 0])
        visits = [visit for cell in cells for visit in self.links.bad.get(cell, {}).values()]
        spoiled = self._spoiled.setdefault(at, set())
        spoiled.update(visits)
        counts[0] += len(visits)
        counts[1] += sum(len(every[cell]) for cell in cells)
        counts[2] = len(spoiled)

    def gain_of(self, at: int) -> float:
        """The gain, compared with chance, from blaming a blamed candidate for its own tests."""
        bad, tests, visits = self.blamed[at]
        return self.odds.gain(*self.candidates.entries[at].fault, bad, tests, visits, self.sizes[at]).sure

    def left_over(self) -> tuple[int, int]:
        """The numbers of bad tests and of tests that neither a candidate nor a link owns."""
        faults = [fault for group in self.found.values() for fault in group]
        return self.left_bad - sum(fault.bad for fault in faults), self.left - sum(
            fault.tests for fault in faults
        )

    def chance(self) -> Chance:
        """The rates of hiccups and spells that follow from these tests."""
        return Chance.fitted(*self.left_over(), *self.links.spells(self.found), self.links.size)

    def score(self) -> float:
        """The log likelihood of all tests and of this number of culprits."""
        total = by_chance(*self.left_over(), *self.links.spells(self.found), self.links.size)
        for at, (bad, tests, visits) in self.blamed.items():
            entry = self.candidates.entries[at]
            total += prior(*entry.fault, self.nodes) + blamed(bad, tests, visits, self.sizes[at])
        for faults in self.found.values():
            for fault in faults:
                counts = fault.bad, fault.tests, fault.visits, fault.size
                total += prior(Entity.LINK, fault.direction, self.nodes) + blamed(*counts)
        return total

    def pairs_of(self, at: int) -> set[Pair]:
        """The pairs with bad tests in which a candidate takes part."""
        return {self.links.pair(cell) for cell in self.cells_of(at) if cell in self.links.bad}

    def _move(self, cells: Sequence[Pair], sign: int) -> None:
        """Assigns cells to chance and links (1), or takes them away (-1)."""
        self._changed.clear()
        for cell in cells:
            involved = self.candidates.involved(cell)
            self._changed.update(involved)
            every, bad = sign * len(self.candidates.matrix.cells[cell]), 0
            if cell in self.links.bad:
                bad = sign * len(self.links.bad[cell])
                self._visit(cell, involved, sign)
            for at in involved:
                self.tests[at] += every
                self.bad[at] += bad
            self.left += every
            self.left_bad += bad
        pairs = {pair for cell in cells if (pair := self.links.pair(cell)) in self.links.cells}
        self.links.count(pairs, self.owner)
        self._relink(pairs)
        for at in self._changed:
            self._surplus.pop(at, None)

    def _relink(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self.found.pop(pair, None)
            cells, share = self._shares.pop(pair, ((), 0.0))
            self._give(cells, -share)
            if faults := self.links.pick(pair, self.odds):
                self.found[pair], bad = faults, self.links.bad
                free = [cell for cell in self.links.cells[pair] if cell in bad and cell not in self.owner]
                # What a candidate takes away from the links of the pair with each of their bad tests.
                cells = [cell for cell in free for _ in bad[cell]]
                self._shares[pair] = cells, sum(fault.gain.over_hiccups for fault in faults) / len(cells)
                self._give(*self._shares[pair])

    def _give(self, cells: Iterable[Pair], share: float) -> None:
        for cell in cells:
            self._changed.update(involved := self.candidates.involved(cell))
            for at in involved:
                self._credit[at] += share
