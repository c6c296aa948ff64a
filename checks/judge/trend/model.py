"""The nouns of machines over time: points, courses, counters, and what they say (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from checks.judge.baseline.samples import Side

# Five values can be in one of 120 orders: the fewest of which a steady fall has p <= 0.01 (Mann 1945).
LEAST_REPORTS = 5
CHANCE = 0.01
# As the least width of a learned band (checks.judge.baseline.learn): SuperBench calls 5 % defective, healthy parts differ by 3.1 %.
LEAST_CHANGE = 0.05


@dataclass(frozen=True)
class Point:
    """One report's value; `day` counts from the first report, in days. `parts`: of how many a counter is the sum."""

    day: float
    value: float
    parts: int = 1


@dataclass(frozen=True)
class Course:
    """One number over time, the worst of its node in each report. `change` is Theil-Sen's, a fraction of the start.

    `chance` is Mann and Kendall's p of the fall or rise. Both are None of fewer than LEAST_REPORTS reports.
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
        """Whether it moves to its bad side, by more than LEAST_CHANGE and than chance explains."""
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
    """A counter of faults over all parts of the node; `grown` adds up its rises, a reset takes nothing off.

    Sums over more parts than the report before are compared with nothing: a part that came back is no fault.
    """

    check: str
    metric: str
    points: tuple[Point, ...]
    grown: float


@dataclass(frozen=True)
class Machine:
    """One machine, or all of a cluster's together. `gone` says what was measured or present before and is not now."""

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
        """What gets worse, the most first."""
        return tuple(sorted((c for c in self.courses if c.degrading), key=lambda c: -abs(c.change or 0.0)))

    @property
    def growing(self) -> tuple[Growth, ...]:
        """Counters that have grown."""
        return tuple(counter for counter in self.counters if counter.grown > 0)

    @property
    def told(self) -> bool:
        """Whether anything was measured often enough to tell."""
        return any(course.change is not None for course in self.courses)

    @property
    def worse(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self.degrading or self.growing or self.gone)


@dataclass(frozen=True)
class Trend:
    """The machines in the order in which they were first seen, and what of the input was not used, and why."""

    reports: int
    first: str
    last: str
    machines: tuple[Machine, ...]
    left_out: tuple[str, ...]
