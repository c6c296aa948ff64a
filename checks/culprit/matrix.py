"""The data of the decoder: what was measured between parts, and what follows from it. Pure.

A matrix is stored in columns: test k went from part `sources[k]` to part `targets[k]` and gave `values[k]`, None if it was tried and
gave no value (no answer, or wrong data). A cell that was measured again has several tests, in the order of time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TypeVar

from checks.model import LINK

# Judgement: if so many of all cells were measured a second time, they were not chosen for being bad. A node that stopped answering
# takes a quarter of eight nodes' cells with it; and if more cells than these are bad, the fabric is.
NEARLY_ALL = 0.7
Key = TypeVar("Key")


class Better(str, Enum):
    """Whether higher or lower values are good."""

    HIGHER = "higher"
    LOWER = "lower"


class Span(str, Enum):
    """Whether the pairs are between two nodes or inside of one."""

    BETWEEN = "between nodes"
    INSIDE = "inside nodes"


class Entity(str, Enum):
    """What a suspect is. RANK is one rank's GPU or NIC; RAIL one local rank on all nodes; FABRIC all of the network."""

    NODE = "node"
    RANK = "rank"
    LINK = "link"
    RAIL = "rail"
    SWITCH = "switch"
    FABRIC = "fabric"


class Direction(str, Enum):
    """Which direction is bad, as seen from the suspect (from the first end of a link)."""

    BOTH = "both ways"
    OUT = "sending"
    IN = "receiving"


class MatrixAnswer(str, Enum):
    """BLAMED: suspects explain what is bad. NOBODY: nothing is bad, or only what was good when it was measured again. FABRIC: nearly
    everything is bad, or everything is below the floor, or the parts fall into two halves, so that no part is worse than the
    rest. TOO_FEW: there is too little to compare. UNEXPLAINED: tests are bad, and no part is a more likely explanation than
    chance.
    """

    BLAMED = "named"
    NOBODY = "no part is worse than the rest"
    FABRIC = "the whole fabric"
    TOO_FEW = "too few tests to compare"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Endpoint:
    """One end of tests: a rank (or a node, if nodes were measured as a whole). `switches` are its own, the nearest first."""

    name: str
    node: str
    rail: int = 0
    switches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """The tests of one metric. `what` ("bandwidth") and `unit` ("GB/s") are words for people.

    `rounds[k]` is the round in which test k was made, and `moments[k]` when, in seconds since the first one; `sizes[k]` are the bytes
    of the message that gave the value, None if it is unknown of this test; () if that is unknown of all.
    """

    metric: str
    unit: str
    better: Better
    span: Span
    endpoints: tuple[Endpoint, ...]
    sources: Sequence[int]
    targets: Sequence[int]
    values: Sequence[float | None]
    rounds: Sequence[int] = ()
    moments: Sequence[float] = ()
    sizes: Sequence[int | None] = ()

    @cached_property
    def cells(self) -> Mapping[tuple[int, int], Sequence[int]]:
        """The tests of each cell (source, target), in order."""
        tests = defaultdict[tuple[int, int], list[int]](list)
        for test, cell in enumerate(self.ends):
            tests[cell].append(test)
        return dict(tests)

    @cached_property
    def cell_count(self) -> int:
        """How many cells there are; of millions of tests the list of each one's would take seconds."""
        return len(set(self.ends))

    @cached_property
    def ends(self) -> Sequence[tuple[int, int]]:
        """The cell of each test."""
        return list(zip(self.sources, self.targets, strict=True))

    @cached_property
    def nodes(self) -> Sequence[str]:
        """The name of each part's node."""
        return [endpoint.node for endpoint in self.endpoints]

    @cached_property
    def node_of(self) -> Sequence[int]:
        """The number of each part's node, in the order in which the nodes are listed."""
        numbers = {node: number for number, node in enumerate(dict.fromkeys(self.nodes))}
        return [numbers[node] for node in self.nodes]

    @cached_property
    def swept(self) -> Sequence[bool]:
        """Whether each test belongs to a sweep of all pairs: the first test of its cell does, and the n-th if nearly all cells have so
        many tests. The others were chosen because a cell was bad, and a bad one of them says nothing new about a part.
        """
        if self.cell_count == len(self.values):
            return [True] * len(self.values)
        sweeps, times = 1, list(map(len, self.cells.values()))
        while sum(number > sweeps for number in times) >= NEARLY_ALL * len(times):
            sweeps += 1
        swept = {test for tests in self.cells.values() for test in tests[:sweeps]}
        return [test in swept for test in range(len(self.values))]

    @cached_property
    def _by_part(self) -> Sequence[Sequence[int]]:
        """The tests of each part, in order."""
        tests: list[list[int]] = [[] for _ in self.endpoints]
        for column in (self.sources, self.targets):
            for test, end in enumerate(column):
                tests[end].append(test)
        return tests

    def tests_of(self, endpoints: Iterable[int]) -> list[int]:
        """All tests from or to one of these parts, in order."""
        return sorted({test for endpoint in endpoints for test in self._by_part[endpoint]})


@dataclass(frozen=True)
class Tolerance:
    """Which values of the matrix are bad.

    A test is bad if it gave no value, if its value is worse than `ratio` of the usual value (HIGHER: below ratio x usual; LOWER:
    above usual / ratio), or worse than `floor` (None: there is no floor). If more than `max_unfit_fraction` of the nodes (at least
    one) would be named, none is. Of good tests at most the share `most_hiccups` may be bad by chance: a network on which more are
    does not raise its own tolerance. `paths`: many pairs that are bad for good may be a property of the fabric; true of rates and
    of latency, and of neither wrong data, pauses nor lost segments.
    """

    ratio: float
    floor: float | None = None
    max_unfit_fraction: float = 0.25
    most_hiccups: float = 0.05
    paths: bool = True


@dataclass(frozen=True)
class PairNoise:
    """What was fitted: how often a bad part's tests are bad, how often good ones' are, and the usual values.

    `spread` is the robust standard deviation of the natural logarithm of good values; `line` is the value beyond which a test counts
    as bad.
    """

    sensitivity: float
    hiccup: float
    usual: float
    spread: float
    line: float


@dataclass(frozen=True)
class RunnerUp:
    """The second most likely explanation of the same tests."""

    kind: Entity
    subject: str
    probability: float


@dataclass(frozen=True)
class Suspect:
    """One part to blame.

    `subject`: a node's or part's name, "a<->b" for a link (names of parts, in their order), "rail 3", a switch's name. `probability`
    is that it is bad, given the matrix and the fitted noise; `bad` of its `tests` were bad; `ratio` is the median of its values
    divided by the usual one (None if no test gave a value). `cells` are tests (indices into the matrix), the worst first, at most
    16. `passed`: it was bad once, for a short time, and good in each test that was made again. `cost`: of a link that is slow in each
    test, at a rate that flows on a shared path keep, how much longer an exchange of all with all takes because of it, as a share
    (None: it is not such a link).
    """

    kind: Entity
    subject: str
    nodes: tuple[str, ...]
    way: Direction
    probability: float
    bad: int
    tests: int
    ratio: float | None
    cells: tuple[int, ...]
    runner_up: RunnerUp | None = None
    passed: bool = False
    cost: float | None = None


@dataclass(frozen=True)
class Congestion:
    """From round `first` to round `last` several nodes were bad at once, and good afterwards. `switch` is the nearest one that
    they share, "" if none is known; `tests` are the bad tests that this explains.
    """

    first: int
    last: int
    nodes: tuple[str, ...]
    switch: str
    tests: tuple[int, ...]


@dataclass(frozen=True)
class SlowPaths:
    """`pairs` of `every` pair are slow in each test, and no part has most of them. `bad` are their bad tests, `tests` all of their
    tests; `cost` is how much longer an exchange of all with all takes because of them, as a share.
    """

    pairs: int
    every: int
    bad: tuple[int, ...]
    cost: float
    tests: tuple[int, ...]


@dataclass(frozen=True)
class NodeGroups:
    """The names of the nodes of each group: between the groups there is `share` of the bandwidth within them. `told`: the topology
    says that they are under different switches; otherwise the tests show it.
    """

    groups: tuple[tuple[str, ...], ...]
    share: float
    is_known: bool = False


@dataclass(frozen=True)
class Decoded:
    """The result for a matrix. `suspects` are sorted by probability; the list is empty unless BLAMED, except that FABRIC lists the
    parts that it would have named. `confirm` are cells (source, target) that should be measured again before a part is blamed.
    `bad` are all bad tests (indices into the matrix). `unseen` are parts without a test, about which nothing is known.

    `congestion`, `paths` and `groups` explain bad tests without blaming a part. `slow` are nodes whose tests are good, and slower
    than those of the other nodes; `seen_from` is the least slowness of a node, a rank and a link that would have been seen in nine
    such measurements of ten, as a share (a kind that is missing: it cannot be told). If too many nodes are slower than the others to
    name them, or half of the nodes, `many_slower` is by how much, as a share. What nothing explains, also beside suspects, is
    `unexplained`: bad tests that are no hiccups; `cost` is how much longer an exchange of all with all takes because of them and of
    congestion, as a share.
    """

    answer: MatrixAnswer
    noise: PairNoise
    suspects: tuple[Suspect, ...]
    confirm: tuple[tuple[int, int], ...]
    bad: tuple[int, ...]
    unseen: tuple[int, ...] = ()
    congestion: tuple[Congestion, ...] = ()
    paths: SlowPaths | None = None
    groups: NodeGroups | None = None
    slow: tuple[Suspect, ...] = ()
    seen_from: Mapping[Entity, float] = field(default_factory=dict)
    many_slower: float | None = None
    unexplained: tuple[int, ...] = ()
    cost: float = 0.0


def tallied(tests: Iterable[tuple[Key, bool]]) -> dict[Key, list[int]]:
    """For each key how many of its tests are bad, and how many there are; `tests` are keys, each with whether a test is bad."""
    counts: dict[Key, list[int]] = {}
    for key, is_bad in tests:
        count = counts.setdefault(key, [0, 0])
        count[0] += is_bad
        count[1] += 1
    return counts


def link(first: str, second: str) -> str:
    """The subject of a link."""
    return f"{first}{LINK}{second}"
