"""The data types of a trend: the values of machines over time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from checks.judge.baseline.samples import Side
from checks.judge.trend.degradation import RECENT, FleetMove, Motion, Move


@dataclass(frozen=True)
class Point:
    """The value of one report; `day` counts from the first report, in days. `parts` is the number of parts whose counters were added
    up.
    """

    day: float
    value: float
    parts: int = 1


@dataclass(frozen=True, kw_only=True)
class Course(Move):
    """One metric over time, with the worst value of its node in each report, and what it does; `change` is compared with the other
    nodes of the same gates where `motion` is WORSE. `points` may be empty for a number that does not move.
    """

    check: str
    what: str
    group: str
    bad: Side
    points: tuple[Point, ...]

    @property
    def now(self) -> float:
        """The value of the newest gates, as it was measured."""
        return median(point.value for point in self.points[-RECENT:])

    @property
    def expected(self) -> float:
        """What the newest gates would measure without the change, in the comparison that the change is from."""
        return self.now / (1.0 + (self.change or 0.0))

    @property
    def moves(self) -> bool:
        """Whether the machine gets worse, or its value does and nobody can tell whether the machine is the cause."""
        return self.motion in (Motion.WORSE, Motion.MOVED)


@dataclass(frozen=True, kw_only=True)
class FleetCourse(FleetMove):
    """One number that moved on all machines together."""

    check: str
    what: str
    group: str
    bad: Side

    @property
    def worse(self) -> bool:
        """Whether it moved to its bad side."""
        return self.bad is Side.EITHER or (self.change < 0) == (self.bad is Side.LOW)


@dataclass(frozen=True)
class CounterGrowth:
    """A counter of faults over all parts of the node; `grown` adds up its rises, and a reset subtracts nothing.

    A sum over more parts than in the report before is not compared, because a part that came back is not a fault.
    """

    check: str
    metric: str
    points: tuple[Point, ...]
    grown: float


@dataclass(frozen=True)
class IdentityChange:
    """A driver, VBIOS or set of GPUs that is another one since the gate of that day."""

    day: float
    gate_id: str
    what: str
    before: str
    after: str


@dataclass(frozen=True)
class TrendMachine:
    """One machine, or all machines of a cluster together.

    `places` are its gates and its name in each, oldest first; none for all machines together.
    """

    name: str
    known_by: str
    reports: int
    first: str
    last: str
    courses: tuple[Course, ...]
    counters: tuple[CounterGrowth, ...]
    changes: tuple[IdentityChange, ...] = ()
    places: tuple[tuple[str, str], ...] = ()

    @property
    def degrading(self) -> tuple[Course, ...]:
        """The metrics that get worse, the greatest change first."""
        return tuple(sorted((c for c in self.courses if c.moves), key=lambda c: -abs(c.change or 0.0)))

    @property
    def growing(self) -> tuple[CounterGrowth, ...]:
        """The counters that have grown."""
        return tuple(counter for counter in self.counters if counter.grown > 0)

    @property
    def steady(self) -> int:
        """How many of its numbers do not move."""
        return sum(course.motion is Motion.STEADY for course in self.courses)

    @property
    def unknown(self) -> int:
        """The count is of the numbers of which nobody can tell whether they move."""
        return sum(course.motion is Motion.UNKNOWN for course in self.courses)

    @property
    def worse(self) -> bool:
        """Whether there is anything to investigate."""
        return bool(self.degrading or self.growing)


@dataclass(frozen=True)
class Trend:
    """The machines in the order in which they first appear, and what moved on all of them.

    `series` numbers of machines were judged, at `gates_a_month`: with these the chance of each name was chosen.
    """

    reports: int
    first: str
    last: str
    machines: tuple[TrendMachine, ...]
    fleet: tuple[FleetCourse, ...]
    series: int
    gates_a_month: float
