"""Which machines get worse in one number, and whether all of them moved together. Pure.

The value of a machine is divided by the median of the nodes of the same gate, so that software which slows all of them names nobody.
The reference is the median of the machine's first REFERENCE proofs since its last change. Two tests compare the newest proofs with
it: the mean of the last 3, 6 or 12 for a step, and a ramp over the last 16 or 32 for a drift. Whoever is named is worse by
LEAST_CHANGE, is worse in each of the last three proofs, and would be named by chance so rarely that all tests of a month together name
FALSE_NAMES_A_MONTH healthy machine. The noise is that of all comparable machines, or of the machine itself if that is greater.

A machine that flaps is well again in between, so that its last three proofs and its own noise hide it. Its bad proofs are counted
over the newest FLAP_WINDOW, and the times that it became bad again are compared with those of the other machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, median

from checks.judge.baseline.samples import Side
from checks.judge.robust_statistics import MAD_SCALE, scaled_mad, upper_tail

# A reference of fewer proofs is too uncertain; of more, it is no earlier state any more.
LEAST_REFERENCE, REFERENCE, RECENT = 8, 12, 3
LEAST_PROOFS = LEAST_REFERENCE + RECENT
STEPS, RAMPS = (3, 6, 12), (16, 32)
# As the least width of a learned band (checks.judge.baseline.learn): SuperBench calls 5 % defective, healthy parts differ by 3.1 %.
LEAST_CHANGE = 0.05
# All machines together need no such distance from each other: their median is certain.
LEAST_FLEET_CHANGE = 0.03
FLEET_MACHINES, FLEET_DEVIATIONS = 5, 4.0
# For so many gates a change is news that no single machine is the cause of: afterwards it is how the machines are.
NEWS = 48
FALSE_NAMES_A_MONTH = 1.0
# The standard deviation of a median is so many times that of a mean, for normal values.
MEDIAN_COST = math.sqrt(math.pi / 2)
# Differences of neighbours estimate the noise, by their median. Such a median is as precise as 0.37 times as many values, and
# neighbouring differences share a value.
PRECISION = 0.3
# Values that do not scatter at all were rounded.
LEAST_NOISE = 0.002
# Where proofs so far apart differ by so many times what neighbours do, the noise wanders (a temperature): a mean of neighbours is as
# uncertain as one of them, and so is the reference. Simulated: 16 machines x 90 gates, 12 seeds, three kinds of wander name nobody.
APART, WANDERS, WANDER_WIDTH = 10, 1.25, 1.6
# Enough series to know the noise of a number; so many that the scatter of the statistic itself is known; and so many that the wander
# of the median one is not that of the one that gets worse. Without peers, a drift of all of them looks like wander.
SAMPLED, SCATTERED, WANDERED = 200, 8, 3
# The estimate from one machine's own proofs is uncertain: it counts where it is so many times that of all machines.
NOISIER = 1.5
# What a single proof may add: one bad moment is neither a step nor a drift.
CLIPPED = 2 * LEAST_CHANGE

# A flapping machine has at least this share of its newest proofs bad, in at least so many stretches, one of them among the last few.
# The best eighth of its proofs is its good state, because it may be bad from its first gate on; the depth of a bad proof counts from
# there, and is far outside the noise. The rate of the others is twice that of the better three quarters of the machines, so that
# several that flap hide neither each other nor themselves.
FLAP_WINDOW, FLAP_SHARE, FLAP_STRETCHES, FLAP_NEWEST = 32, 0.25, 3, 6
GOOD_SHARE, FLAP_DEPTH, RATE_SHARE, RATE_MARGIN = 0.125, 4.5, 0.75, 2.0


class Motion(str, Enum):
    """What a number does. WORSE: the machine gets worse. MOVED: the value does, and there are too few peers to tell the machine from
    its software. STEADY: neither. UNKNOWN: too few proofs or peers to tell.
    """

    WORSE = "worse"
    MOVED = "moved"
    STEADY = "steady"
    UNKNOWN = "unknown"


class Lack(str, Enum):
    """Why nobody can tell. NO_REFERENCE: the usual value is zero, and has no fraction."""

    PROOFS = "too few proofs since its last change"
    PEERS = "too few comparable nodes in its gates"
    NO_REFERENCE = "its usual value is zero"


@dataclass(frozen=True)
class Move:
    """`change` is how far the median of the newest proofs is from the reference, as a fraction of it; `chance` is how often a healthy
    machine is so far away. Both are None unless it is told. `bad_gates` says of a machine that flaps how many of how many newest
    proofs are bad; `change` is then how far the bad ones are from the good ones.
    """

    motion: Motion
    change: float | None = None
    chance: float | None = None
    lack: Lack | None = None
    bad_gates: tuple[int, int] | None = None


@dataclass(frozen=True)
class FleetMove:
    """All machines moved: by the median fraction `change` of their own earlier values."""

    change: float
    machines: int


# A window of the newest proofs: how many, and whether a ramp is fitted to them or their mean is taken.
Window = tuple[int, bool]
WINDOWS: tuple[Window, ...] = (*((many, False) for many in STEPS), *((many, True) for many in RAMPS))


@dataclass(frozen=True)
class TrendNoise:
    """The standard deviation of one proof, as a fraction of the reference, by how many degrees of freedom.

    `middle` is how far the median machine is from its reference in each window: a gate's own median moves where some of its nodes do.
    `scatter` is the deviation that the machines show around that: it is greater where proofs that follow each other are alike.
    `wander` is the deviation of proofs that are far apart, 0 where it is that of neighbours: a few machines are enough to know it.
    """

    deviation: float
    freedom: int
    middle: Mapping[Window, float]
    scatter: Mapping[Window, float]
    wander: float


def chance_of(tests: int, gates_a_month: float) -> float:
    """How improbable a healthy value must be, so that all tests of a month name FALSE_NAMES_A_MONTH healthy machine by chance."""
    return FALSE_NAMES_A_MONTH / (max(1, tests) * (len(WINDOWS) + 1) * max(1.0, gates_a_month))


def moves(bad: Side, series: Sequence[Sequence[float]], chance: float, has_peers: bool = True) -> list[Move]:
    """What the number does on each machine, from its values since its last change, oldest first. If it has peers, the values are
    divided by the medians of their gates. `chance` is that of `chance_of`.
    """
    noise: TrendNoise | None = None
    result = []
    for values in series:
        move = _untold(values, has_peers)
        if move is None and any(_recently(values, sign) for sign in _signs(bad)):
            noise = noise or noise_of(series, bad, has_peers)
            move = _tested(values, bad, noise, chance, has_peers)
        result.append(
            move
            or Move(Motion.STEADY if has_peers else Motion.UNKNOWN, lack=None if has_peers else Lack.PEERS)
        )
    for index, move in _flapping(bad, series, chance, has_peers):
        if not result[index].chance and result[index].lack in (None, Lack.PEERS):
            result[index] = move
    return result  # fmt: skip


def fleet_move(series: Sequence[Sequence[float]]) -> FleetMove | None:
    """How all machines moved within NEWS gates, from their values as they were measured; None if they did not, or there are too few
    of them.
    """
    changes = []
    for values in (values[-NEWS:] for values in series):
        reference = _reference(values) if len(values) >= LEAST_PROOFS else 0.0
        if reference:
            changes.append(median(values[-RECENT:]) / reference - 1.0)
    if len(changes) < FLEET_MACHINES:
        return None
    moved = median(changes)
    certain = MEDIAN_COST * max(scaled_mad(changes), LEAST_NOISE) / math.sqrt(len(changes))
    if abs(moved) < LEAST_FLEET_CHANGE or abs(moved) < FLEET_DEVIATIONS * certain:
        return None
    return FleetMove(moved, len(changes))


def noise_of(series: Sequence[Sequence[float]], bad: Side, has_peers: bool = True) -> TrendNoise:
    """The noise of one number, from as many of its series as are enough. The scatter is that of the machines on the good side of the
    middle, so that those that got worse do not make it greater.
    """
    long = [values for values in series if len(values) >= LEAST_PROOFS]
    some = [values for values in long[:: max(1, len(long) // SAMPLED)] if _reference(values)]
    deviation = max(LEAST_NOISE, median([own_noise(values) for values in some] or [LEAST_NOISE]))
    freedom = max(1, int(sum(PRECISION * (len(values) - 1) for values in some)))
    least = WANDERED if has_peers else SCATTERED
    far = median([own_noise(values, APART) for values in some]) if len(some) >= least else 0.0
    sizes: dict[Window, list[tuple[float, float]]] = {}
    for values in some:
        for window, size, spread in _sizes(values, deviation):
            sizes.setdefault(window, []).append((size, spread))
    usable = {window: pairs for window, pairs in sizes.items() if len(pairs) >= SCATTERED}
    middle = {window: median([size for size, _ in pairs]) for window, pairs in usable.items()}
    scatter = {}
    for window, pairs in usable.items():
        away = [((size - middle[window]) / spread) for size, spread in pairs]
        good = [abs(distance) for distance in away for sign in _signs(bad) if sign * distance <= 0]
        scatter[window] = MAD_SCALE * median(good)
    return TrendNoise(deviation, freedom, middle, scatter, far if far > WANDERS * deviation else 0.0)


def own_noise(values: Sequence[float], apart: int = 1) -> float:
    """The standard deviation of one machine's proofs around its course, as a fraction of its reference, from proofs so far apart."""
    reference = _reference(values)
    steps = [abs(later - earlier) for earlier, later in zip(values, values[apart:], strict=False)]
    return MAD_SCALE * median(steps) / math.sqrt(2.0) / abs(reference) if reference else 0.0


@dataclass(frozen=True)
class _Flaps:
    """The newest proofs of one machine: how many there are, which are bad, how often it became bad, and how far the bad ones are."""

    gates: int
    bad: tuple[int, ...]
    stretches: int
    change: float


def _flapping(
    bad: Side, series: Sequence[Sequence[float]], chance: float, has_peers: bool
) -> Iterator[tuple[int, Move]]:
    """The machines that become bad again and again, and their moves."""
    long = {index: values for index, values in enumerate(series) if len(values) >= LEAST_PROOFS}
    if len(long) < FLEET_MACHINES:
        return
    noise = max(LEAST_NOISE, median(own_noise(values) for values in long.values()))
    for sign in _signs(bad):
        flaps = {index: _flaps(values[-FLAP_WINDOW:], sign, noise) for index, values in long.items()}
        calmest = sorted(flaps.values(), key=lambda own: own.stretches / own.gates)
        calmest = calmest[: math.ceil(RATE_SHARE * len(flaps))]
        rate = RATE_MARGIN * max(1, sum(own.stretches for own in calmest)) / sum(own.gates for own in calmest)
        for index, own in flaps.items():
            if not _returns(own):
                continue
            tail = _at_least(own.stretches, own.gates, min(1.0, rate))
            if tail <= chance:
                motion = Motion.WORSE if has_peers else Motion.MOVED
                yield index, Move(motion, own.change, tail, bad_gates=(len(own.bad), own.gates))


def _flaps(newest: Sequence[float], sign: float, noise: float) -> _Flaps:
    best = sorted(newest, reverse=sign < 0)[int(GOOD_SHARE * len(newest))]
    if not best:
        return _Flaps(len(newest), (), 0, 0.0)
    away = [sign * (value / best - 1.0) for value in newest]
    calm = scaled_mad([distance for distance in away if distance < LEAST_CHANGE])
    limit = max(LEAST_CHANGE, FLAP_DEPTH * max(noise, calm))
    bad = tuple(index for index, distance in enumerate(away) if distance >= limit)
    stretches = sum(index - 1 not in bad for index in bad)
    return _Flaps(len(newest), bad, stretches, sign * median([away[index] for index in bad] or [0.0]))


def _returns(flaps: _Flaps) -> bool:
    """Whether the machine was bad in enough of its proofs, came back to it often enough, and was bad lately."""
    return (
        len(flaps.bad) >= FLAP_SHARE * flaps.gates
        and flaps.stretches >= FLAP_STRETCHES
        and flaps.bad[-1] >= flaps.gates - FLAP_NEWEST
    )


def _at_least(count: int, size: int, rate: float) -> float:
    """The probability of at least so many of so many, each at this rate (the binomial distribution)."""
    return sum(
        math.comb(size, many) * rate**many * (1.0 - rate) ** (size - many) for many in range(count, size + 1)
    )


def _untold(values: Sequence[float], has_peers: bool) -> Move | None:
    if len(values) < LEAST_PROOFS:
        return Move(Motion.UNKNOWN, lack=Lack.PROOFS)
    return None if _reference(values) else Move(Motion.UNKNOWN, lack=Lack.NO_REFERENCE)


def _length(values: Sequence[float]) -> int:
    """How many of the first values are the reference."""
    return max(LEAST_REFERENCE, min(REFERENCE, len(values) - RECENT))


def _reference(values: Sequence[float]) -> float:
    return median(values[: _length(values)])


def _signs(bad: Side) -> tuple[float, ...]:
    return {Side.LOW: (-1.0,), Side.HIGH: (1.0,), Side.EITHER: (-1.0, 1.0)}[bad]


def _recently(values: Sequence[float], sign: float) -> bool:
    """Whether each of the last proofs is worse at all: without that, nobody is named, so that two bad moments are no step."""
    reference = _reference(values)
    return all(sign * (value / reference - 1.0) >= LEAST_CHANGE / 2 for value in values[-RECENT:])


def _tested(
    values: Sequence[float], bad: Side, noise: TrendNoise, chance: float, has_peers: bool
) -> Move | None:
    """The move, if a test finds one, with the least chance of all tests."""
    own = own_noise(values)
    deviation = own if own > NOISIER * noise.deviation else noise.deviation
    chances: list[float] = []
    now = median(values[-RECENT:]) / _reference(values) - 1.0
    for window, distance, spread in _sizes(values, max(deviation, 2.0 * noise.wander)):
        width = max(max(deviation, noise.scatter.get(window, 0.0)) * spread, WANDER_WIDTH * noise.wander)
        middle = noise.middle.get(window, 0.0)
        for sign in _signs(bad):
            size = sign * (distance - middle)
            # The newest proofs show all of a step; a drift has only just come so far.
            visible = size if window[1] else min(size, sign * (now - middle))
            if visible >= LEAST_CHANGE and _recently(values, sign):
                chances.append(upper_tail(size / width, noise.freedom))
    least = min(chances, default=1.0)
    if least > chance:
        return None
    return Move(Motion.WORSE if has_peers else Motion.MOVED, now, least)


def _sizes(values: Sequence[float], deviation: float) -> Iterator[tuple[Window, float, float]]:
    """How far the newest proofs are from the reference, by window, and the standard deviation of that, in those of one proof."""
    reference, first = _reference(values), _length(values)
    most, uncertain = max(CLIPPED, 4.0 * deviation), MEDIAN_COST**2 / first
    away = [max(-most, min(most, value / reference - 1.0)) for value in values[first:]]
    for many, ramp in WINDOWS:
        if many > len(away):
            continue
        if not ramp:
            yield (many, ramp), fmean(away[-many:]), math.sqrt(1.0 / many + uncertain)
            continue
        # The end of the straight line from the reference that fits them best (least squares).
        weights = [index / many for index in range(1, many + 1)]
        squares, sums = sum(weight * weight for weight in weights), sum(weights)
        fitted = sum(weight * distance for weight, distance in zip(weights, away[-many:], strict=True))
        yield (many, ramp), fitted / squares, math.sqrt(1.0 / squares + (sums / squares) ** 2 * uncertain)
