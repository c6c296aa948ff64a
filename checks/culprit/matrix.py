"""What was measured between parts, and what follows from it: the data of the decoder (pure).

A matrix is columns: test k went from part `sources[k]` to part `targets[k]` and gave `values[k]`, None where it was
tried and gave nothing (no answer, or wrong data). A cell that was measured again is there again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from checks.model import LINK


class Better(str, Enum):
    """Which values are the good ones."""

    HIGHER = "higher"
    LOWER = "lower"


class Span(str, Enum):
    """Where the pairs lie: each between two nodes, or each inside of one."""

    BETWEEN = "between nodes"
    INSIDE = "inside nodes"


class Kind(str, Enum):
    """What a suspect is. RANK is one rank's GPU or NIC; RAIL one local rank on all nodes; FABRIC all of it."""

    NODE = "node"
    RANK = "rank"
    LINK = "link"
    RAIL = "rail"
    SWITCH = "switch"
    FABRIC = "fabric"


class Way(str, Enum):
    """Which direction is bad, seen from the suspect (from the first end of a link)."""

    BOTH = "both ways"
    OUT = "sending"
    IN = "receiving"


class Answer(str, Enum):
    """NAMED: suspects explain what is bad. NOBODY: nothing is bad, or only what was good when it was
    measured again. FABRIC: it is bad nearly everywhere, or below the floor everywhere, or in two halves, so no part
    stands out. TOO_FEW: there is too little to compare. UNEXPLAINED: tests are bad, and no
    part is likelier than chance.
    """

    NAMED = "named"
    NOBODY = "no part is worse than the rest"
    FABRIC = "the whole fabric"
    TOO_FEW = "too few tests to compare"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Part:
    """One end of tests: a rank (or a node, where one was measured as a whole). `switches` are its own, nearest first."""

    name: str
    node: str
    rail: int = 0
    switches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """The tests of one metric. `what` ("bandwidth") and `unit` ("GB/s") are words for people."""

    what: str
    unit: str
    better: Better
    span: Span
    parts: tuple[Part, ...]
    sources: Sequence[int]
    targets: Sequence[int]
    values: Sequence[float | None]


@dataclass(frozen=True)
class Tolerance:
    """What is held against the matrix.

    A test is bad that gave nothing, or whose value is worse than `ratio` of what is usual (HIGHER: below ratio x usual;
    LOWER: above usual / ratio), or worse than `floor` (None: nobody said). More than `max_unfit_fraction` of the nodes
    (never less than one) are not named.
    """

    ratio: float
    floor: float | None = None
    max_unfit_fraction: float = 0.25


@dataclass(frozen=True)
class Noise:
    """What was fitted: how often a bad part's tests are bad, how often good ones' are, and how values usually lie.

    `spread` is the robust standard deviation of the natural logarithm of good values; `line` the value beyond which a
    test was taken as bad.
    """

    sensitivity: float
    hiccup: float
    usual: float
    spread: float
    line: float


@dataclass(frozen=True)
class RunnerUp:
    """The next best explanation of the same tests."""

    kind: Kind
    subject: str
    probability: float


@dataclass(frozen=True)
class Suspect:
    """One part to blame.

    `subject`: a node's or part's name, "a<->b" for a link (names of parts, in their order), "rail 3", a switch's name.
    `probability` is that it is bad, given the matrix and the fitted noise; `bad` of its `tests` were bad; `ratio` is the
    median of its values over the usual one (None where none gave a value). `cells` are tests (indices into the matrix),
    the worst first, at most 16.
    """

    kind: Kind
    subject: str
    nodes: tuple[str, ...]
    way: Way
    probability: float
    bad: int
    tests: int
    ratio: float | None
    cells: tuple[int, ...]
    runner_up: RunnerUp | None = None


@dataclass(frozen=True)
class Decoded:
    """What the matrix says. `suspects` are the likeliest first; empty unless NAMED, save that FABRIC lists whom it would
    have named. `confirm` are cells (source, target) that ought to be measured again before anybody is blamed.
    `bad` are all bad tests (indices into the matrix). `unseen` are parts without a test: nothing clears them.
    """

    answer: Answer
    noise: Noise
    suspects: tuple[Suspect, ...]
    confirm: tuple[tuple[int, int], ...]
    bad: tuple[int, ...]
    unseen: tuple[int, ...] = ()


def link(one: str, other: str) -> str:
    """A link's subject."""
    return f"{one}{LINK}{other}"
