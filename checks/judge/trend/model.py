"""The data types of a trend: the values of machines over time. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from checks.judge.baseline.samples import Side

# Five values can be in one of 120 orders. Fewer values cannot show a steady fall with p <= 0.01 (Mann 1945).
LEAST_REPORTS = 5
CHANCE = 0.01
# As the least width of a learned band (checks.judge.baseline.learn): SuperBench calls 5 % defective, healthy parts differ by 3.1 %.
LEAST_CHANGE = 0.05


@dataclass(frozen=True)
class Point:
    """The value of one report; `day` counts from the first report, in days. `parts` is the number of parts whose counters were added
    up.
    """

    day: float
    value: float
    parts: int = 1


@dataclass(frozen=True)
class Course:
    """One metric over time, with the worst value of its node in each report. `change` is Theil and Sen's, as a fraction of the
    start.

    `chance` is Mann and Kendall's p of the fall or rise. Both are None for fewer than LEAST_REPORTS reports.
    """

    check: str
    what: str
    group: str
    bad: Side
    points: tuple[Point, ...]
    change: float | None
    chance: float | None

    @property
    def degrading(self) -> bool:
        """Whether the metric gets worse, by more than LEAST_CHANGE and more than chance explains."""
        if self.change is None or self.chance is None or self.chance > CHANCE:
            return False
        worse = (
            -self.change
            if self.bad is Side.LOW
            else self.change
            if self.bad is Side.HIGH
            else abs(self.change)
        )
        return worse >= LEAST_CHANGE


@dataclass(frozen=True)
class Growth:
    """A counter of faults over all parts of the node; `grown` adds up its rises, and a reset subtracts nothing.

    A sum over more parts than in the report before is not compared, because a part that came back is not a fault.
    """

    check: str
    metric: str
    points: tuple[Point, ...]
    grown: float


@dataclass(frozen=True)
class Machine:
    """One machine, or all machines of a cluster together. `gone` lists what was measured or present before and is missing now."""

    name: str
    known_by: str
    reports: int
    first: str
    last: str
    courses: tuple[Course, ...]
    counters: tuple[Growth, ...]
    gone: tuple[str, ...]

    @property
    def degrading(self) -> tuple[Course, ...]:
        """The metrics that get worse, the greatest change first."""
        return tuple(sorted((c for c in self.courses if c.degrading), key=lambda c: -abs(c.change or 0.0)))

    @property
    def growing(self) -> tuple[Growth, ...]:
        """The counters that have grown."""
        return tuple(counter for counter in self.counters if counter.grown > 0)

    @property
    def told(self) -> bool:
        """Whether any metric was measured often enough for a statement."""
        return any(course.change is not None for course in self.courses)

    @property
    def worse(self) -> bool:
        """Whether there is anything to investigate."""
        return bool(self.degrading or self.growing or self.gone)


@dataclass(frozen=True)
class Trend:
    """The machines in the order in which they first appear, and the parts of the input that were not used, with the reason."""

    reports: int
    first: str
    last: str
    machines: tuple[Machine, ...]
    left_out: tuple[str, ...]
