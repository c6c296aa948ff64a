"""Who is named as degrading in one number: what is found in time, what is not named, and how rarely a healthy machine is."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from checks.judge.baseline.samples import Side
from checks.judge.robust_statistics import upper_tail
from checks.judge.trend.degradation import (
    LEAST_NOISE,
    LEAST_PROOFS,
    NEWS,
    FleetMove,
    Lack,
    Motion,
    Move,
    chance_of,
    fleet_move,
    moves,
    noise_of,
)
from tests.benchmarks.degradation import (
    CASES,
    NUMBERS,
    SEED,
    Fault,
    by_peers,
    divided,
    found,
    healthy_year,
    simulated,
)

CHANCE = chance_of(1000, 30.0)
OF_SIXTEEN = chance_of(16 * NUMBERS, 30.0)
STEADY = [1.0, 1.01, 0.99, 1.0] * 3


def motion(values: list[float], bad: Side = Side.LOW, has_peers: bool = True) -> Move:
    """What one machine among thirty steady ones does."""
    return moves(bad, [values, *([STEADY * 2] * 30)], CHANCE, has_peers)[0]


def within(name: str, limit: int, fleets: int = 5) -> float:
    """The share of the degraded machines that are named so many gates after the change."""
    noise, faulty, _, fault = CASES[name]
    chance, rule = random.Random(SEED), by_peers(24 * NUMBERS)
    made = [simulated(chance, 24, 30 + limit, noise, fault) for _ in range(fleets)]
    return sum(found(rule, one, 30, (limit,), faulty).within[limit] for one in made) / fleets


def worse(ratios: list[list[float]], chance: float | None = None) -> set[int]:
    """The machines that get worse, by default with the chance of so many machines in a month."""
    chance = chance_of(len(ratios) * NUMBERS, 30.0) if chance is None else chance
    return {at for at, one in enumerate(moves(Side.LOW, ratios, chance)) if one.motion is Motion.WORSE}


def test_a_step_is_named_within_three_gates() -> None:
    """-8 % at 1.5 % noise."""
    assert within("step of -8 % at 1.5 % noise", 3, fleets=10) >= 0.9


def test_a_drift_is_named_within_seventeen_gates() -> None:
    """-10 % over thirty gates: half of the machines at 1.5 % noise, all of them at 0.5 %."""
    assert within("drift of -10 % over 30 gates at 1.5 % noise", 17, fleets=10) >= 0.5
    assert within("drift of -10 % over 30 gates at 0.5 % noise", 17) == 1.0


@pytest.mark.parametrize("name", ["-6 % on all at 0.5 % noise", "-6 % on all at 1.5 % noise"])
def test_fleet_move_is_one_number_and_names_no_machine(name: str) -> None:
    """A rule without peers would name every machine."""
    noise, _, _, fault = CASES[name]
    fleet = simulated(random.Random(SEED), 24, 60, noise, fault)
    moved = fleet_move(fleet)

    assert 0.0 == found(by_peers(24 * NUMBERS), fleet, 30, (), 0).healthy
    assert moved is not None and (-0.06, 24) == (round(moved.change, 2), moved.machines)


def test_fleet_move_is_news_for_a_limited_number_of_gates() -> None:
    """Afterwards it is how they are: an update of last year is no line for ever, and one that happens now is."""
    moved = [[1.0] * 20 + [0.9] * after for after in (5, NEWS) for _ in range(6)]

    assert -0.1 == round((fleet_move(moved[:6]) or FleetMove(0.0, 0)).change, 6)
    assert fleet_move(moved[6:]) is None


@pytest.mark.parametrize(("noise", "tails", "numbers"), [(0.03, False, 1), (0.015, True, 3)])
def test_a_healthy_fleet_keeps_the_budget(noise: float, tails: bool, numbers: int) -> None:
    """Also where noise has heavier tails than the tests assume."""
    assert healthy_year(80, numbers, 120, noise, tails).a_month <= 1.0


def test_proofs_that_are_like_their_neighbours_name_nobody() -> None:
    """Noise that wanders from gate to gate, as a temperature does: the means of three proofs scatter as widely as single ones."""
    chance = random.Random(SEED)
    series = []
    for _ in range(200):
        value, values = 0.0, []
        for _ in range(60):
            value = 0.9 * value + 0.02 * chance.gauss(0.0, 1.0)
            values.append(1.0 + value)
        series.append(values)

    assert len(worse(series)) <= 1


# The noise of a gate, from that of the gate before it.
NextNoise = Callable[[random.Random, float], float]


def wandering(like: float, noise: float) -> NextNoise:
    """Noise that is `like` times that of the gate before, plus normal noise."""
    return lambda dice, before: like * before + noise * dice.gauss(0.0, 1.0)


def with_noise(
    seed: int, noise: NextNoise, gates: int, fault: Fault = lambda gate, machine: 1.0, machines: int = 16
) -> list[list[float]]:
    """Machines with this noise, divided by the medians of the gates."""
    dice, fleet = random.Random(seed), []
    for machine in range(machines):
        level, away, values = 100.0 * (1.0 + 0.02 * dice.gauss(0.0, 1.0)), 0.0, []
        for gate in range(gates):
            away = noise(dice, away)
            values.append(level * (1.0 + away) * fault(gate, machine))
        fleet.append(values)
    return divided(fleet)


@pytest.mark.parametrize(("like", "noise"), [(0.9, 0.01), (0.9, 0.02), (0.6, 0.02)])
def test_wandering_noise_names_nobody_in_a_small_fleet(like: float, noise: float) -> None:
    """Sixteen machines are too few to know from one gate how far the newest proofs of a healthy one go; their past says it."""
    for seed in range(6):
        ratios = with_noise(seed, wandering(like, noise), 90)
        for gate in range(LEAST_PROOFS, 91, 3):
            found = moves(Side.LOW, [one[max(0, gate - 60) : gate] for one in ratios], OF_SIXTEEN)
            assert not [one for one in found if one.motion is Motion.WORSE and not one.bad_gates]


@pytest.mark.parametrize("young", [0, 2])
@pytest.mark.parametrize("machines", [5, 6, 7])
def test_wandering_noise_names_hardly_anybody_among_few_peers(machines: int, young: int) -> None:
    """Also where some have too few proofs since their last change to say how the noise wanders."""
    fleets = [with_noise(seed, wandering(0.9, 0.01), 60, machines=machines) for seed in range(40)]
    judged = [[*one[young:], *(values[-8:] for values in one[:young])] for one in fleets]

    assert 2 >= sum(bool(worse(fleet)) for fleet in judged)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("step of -8 % at 1.5 % noise", 5), ("drift of -10 % over 30 gates at 1.5 % noise", 20)],
)
@pytest.mark.parametrize("machines", [5, 6, 7])
def test_few_machines_name_the_one_that_gets_worse(name: str, limit: int, machines: int) -> None:
    """Noise that does not wander hides neither a step nor a drift of one of them."""
    noise, _, _, fault = CASES[name]
    chance, rule = random.Random(SEED), by_peers(machines * NUMBERS)
    fleets = [
        simulated(chance, machines, 30 + limit, noise, lambda gate, m: fault(gate, m + 1)) for _ in range(20)
    ]

    assert 0.75 <= sum(found(rule, one, 30, (limit,), 1).within[limit] for one in fleets) / 20


@pytest.mark.parametrize(("noise", "step"), [(0.005, 0.1), (0.01, 0.3)])
def test_a_step_in_wandering_noise_is_named(noise: float, step: float) -> None:
    """Two machines of each fleet, within twelve gates; most of them within six."""
    first: dict[tuple[int, int], int] = {}
    for seed in range(8):
        ratios = with_noise(
            seed, wandering(0.9, noise), 42, lambda gate, machine: 1.0 - step * (gate >= 30 and machine < 2)
        )
        for gate in range(31, 43):
            for place in worse([one[:gate] for one in ratios]):
                assert place < 2
                first.setdefault((seed, place), gate - 30)

    assert len(first) >= 0.8 * 16 and sum(gate <= 6 for gate in first.values()) >= 0.6 * 16


def test_motion_needs_three_bad_proofs_for_a_step() -> None:
    """Nor are two: each of the last three proofs must be worse."""
    assert Motion.STEADY is motion([*STEADY, *STEADY, 0.3]).motion
    assert Motion.STEADY is motion([*STEADY, *STEADY, 0.3, 0.3]).motion
    assert Motion.STEADY is motion([*STEADY, 0.3, *STEADY, 0.3, 0.3]).motion
    assert Motion.WORSE is motion([*STEADY, *STEADY, 0.7, 0.7, 0.7]).motion


# Whether a machine is bad at a gate: in a row that repeats, by chance, from its first gate on, since gate 30.
RHYTHMS: dict[str, Callable[[int, random.Random], bool]] = {
    "two of three": lambda gate, _: gate % 3 != 0,
    "one of three": lambda gate, _: gate % 3 == 0,
    "every second": lambda gate, _: gate % 2 == 0,
    "two of three since gate 30": lambda gate, _: gate >= 30 and gate % 3 != 0,
    "four bad, four good": lambda gate, _: gate % 8 < 4,
    "two of three by chance": lambda gate, dice: dice.random() < 2 / 3,
}


@pytest.mark.parametrize("rhythm", RHYTHMS)
@pytest.mark.parametrize("flapping", [1, 3])
def test_a_machine_that_flaps_is_named(rhythm: str, flapping: int) -> None:
    """Its last three proofs are seldom all bad, and its own noise is its fault. Nobody else is named."""
    found, others = 0, 0
    for seed in range(4):
        dice = random.Random(seed)
        faults = {
            (gate, one): 0.85
            for gate in range(90)
            for one in range(flapping)
            if RHYTHMS[rhythm](gate + one, dice)
        }
        fleet = divided(simulated(dice, 16, 90, 0.015, lambda gate, m, at=faults: at.get((gate, m), 1.0)))  # type: ignore[misc]
        named = worse([[*one[:12], *one[-48:]] for one in fleet])
        found += len(named & set(range(flapping)))
        others += len(named - set(range(flapping)))

    assert found >= 0.9 * 4 * flapping
    assert 0 == others


def test_how_often_a_flapping_machine_was_bad_is_said() -> None:
    """How deep, and in how many of the newest gates."""
    one = motion([1.0, 0.85, 0.85] * 20)

    assert ((22, 32), -0.15) == (one.bad_gates, round(one.change or 0.0, 2))
    assert Motion.MOVED is motion([1.0, 0.85, 0.85] * 20, has_peers=False).motion


def test_a_machine_that_is_well_again_is_steady() -> None:
    """Its newest proofs are good, after ten bad gates in a row as after a time in which it flapped."""
    assert Motion.STEADY is motion([*STEADY, *([0.8] * 10), *STEADY[:3]]).motion
    assert Motion.STEADY is motion([*[1.0, 0.85, 0.85] * 10, *STEADY[:8]]).motion


# What healthy machines show beside normal noise: each value from the one before it.
HEALTHY_NOISE: dict[str, NextNoise] = {
    "wide": lambda dice, _: 0.05 * dice.gauss(0.0, 1.0),
    "rounded": lambda dice, _: round(0.01 * dice.gauss(0.0, 1.0), 2),
    "one-sided": lambda dice, _: -0.015 * dice.expovariate(1.0),
    "wandering": wandering(0.9, 0.01),
    "two modes on every machine": lambda dice, _: 0.01 * dice.gauss(0.0, 1.0) - 0.15 * (dice.random() < 0.5),
    "a bad moment now and then": lambda dice, _: 0.01 * dice.gauss(0.0, 1.0) - 0.15 * (dice.random() < 0.03),
}


@pytest.mark.parametrize("kind", HEALTHY_NOISE)
@pytest.mark.parametrize("machines", [16, 60])
def test_healthy_noise_flaps_on_no_machine(kind: str, machines: int) -> None:
    """Counted over seeds and gates: what all machines show is how the number is."""
    for seed in range(2):
        ratios = with_noise(seed, HEALTHY_NOISE[kind], 90, machines=machines)
        for gate in range(LEAST_PROOFS, 91, 5):
            newest = [one[max(0, gate - 60) : gate] for one in ratios]
            found = moves(Side.LOW, newest, chance_of(machines * NUMBERS, 30.0))
            assert [None] * machines == [one.bad_gates for one in found]


def test_too_few_proofs_are_no_answer() -> None:
    """One proof less than what is needed; neither steady nor worse."""
    short = [1.0] * (LEAST_PROOFS - 4) + [0.5] * 3

    assert Move(Motion.UNKNOWN, lack=Lack.PROOFS) == motion(short)
    assert Motion.WORSE is motion([1.0, *short]).motion


def test_a_usual_value_of_zero_has_no_fraction() -> None:
    """A latency that is never anything but 0, and then is."""
    assert Move(Motion.UNKNOWN, lack=Lack.NO_REFERENCE) == motion([0.0] * 12 + [1.0] * 3, Side.HIGH)


def test_without_peers_nothing_is_called_steady_or_worse() -> None:
    """A value that moves is told as such, also where all of a few machines drift together."""
    noise, _, _, fault = CASES["drift of -10 % over 30 gates at 0.5 % noise"]
    fleet = simulated(random.Random(SEED), 3, 49, noise, lambda gate, m: fault(gate, 0))

    assert Move(Motion.UNKNOWN, lack=Lack.PEERS) == motion([*STEADY, *STEADY], has_peers=False)
    assert Motion.MOVED is motion([*STEADY, 0.7, 0.7, 0.7], has_peers=False).motion
    assert [Motion.MOVED] * 3 == [one.motion for one in moves(Side.LOW, fleet, CHANCE, has_peers=False)]


def test_each_side_is_judged_as_it_is_bad() -> None:
    """A latency that rises, a speed that rises, and a number with two bad sides."""
    up, down = [*STEADY, *STEADY, 1.2, 1.2, 1.2], [*STEADY, *STEADY, 0.8, 0.8, 0.8]

    assert [Motion.STEADY, Motion.WORSE] == [motion(values, Side.LOW).motion for values in (up, down)]
    assert [Motion.WORSE, Motion.STEADY] == [motion(values, Side.HIGH).motion for values in (up, down)]
    assert [Motion.WORSE, Motion.WORSE] == [motion(values, Side.EITHER).motion for values in (up, down)]
    assert (0.2, -0.2) == tuple(round(motion(values, Side.EITHER).change or 0.0, 6) for values in (up, down))


def test_a_machine_with_noise_of_its_own_is_not_named_for_it() -> None:
    """Its peers are calm; its own proofs scatter by 5 %."""
    chance = random.Random(SEED)
    wild = [1.0 + 0.05 * chance.gauss(0.0, 1.0) for _ in range(57)] + [0.93, 0.92, 0.93]

    assert Motion.STEADY is motion(wild).motion


def test_the_noise_of_values_that_never_differ_is_not_zero() -> None:
    """Rounded values would make every difference certain."""
    assert LEAST_NOISE == noise_of([[1.0] * 20] * 30, Side.LOW).deviation


def test_more_tests_and_gates_need_rarer_values() -> None:
    """The budget is of a month and of all machines together."""
    assert chance_of(1000, 30.0) == pytest.approx(chance_of(1, 30.0) / 1000)
    assert chance_of(1, 300.0) == pytest.approx(chance_of(1, 30.0) / 10)
    assert chance_of(0, 0.0) == chance_of(1, 1.0)


@pytest.mark.parametrize(
    ("value", "freedom", "chance"),
    [
        (6.314, 1, 0.05),
        (2.015, 5, 0.05),
        (2.764, 10, 0.01),
        (1.299, 50, 0.1),
        (1.6449, 1000, 0.05),
        (0.0, 3, 0.5),
        (-2.015, 5, 0.95),
    ],
)
def test_the_tail_of_students_distribution(value: float, freedom: int, chance: float) -> None:
    """Against the printed table."""
    assert upper_tail(value, freedom) == pytest.approx(chance, rel=2e-3)


def test_a_slow_latency_is_worse_by_as_much_as_it_is() -> None:
    """Both sides have the same threshold: 4 % more is no finding, and 8 % more is one."""
    assert Motion.STEADY is motion([*STEADY, *STEADY, 1.04, 1.04, 1.04], Side.HIGH).motion
    assert Motion.WORSE is motion([*STEADY, *STEADY, 1.08, 1.08, 1.08], Side.HIGH).motion


def test_a_distribution_without_freedom_is_refused() -> None:
    """No sample has one."""
    with pytest.raises(ValueError, match="degrees of freedom"):
        upper_tail(1.0, 0)


def test_a_gate_where_some_get_worse_blames_no_other() -> None:
    """Their median moves with two of twenty-four; the healthy ones look better by it, and nobody is named who is not worse."""
    fleet = simulated(
        random.Random(SEED), 24, 40, 0.005, lambda gate, m: 0.85 if gate >= 30 and m < 4 else 1.0
    )

    assert {0, 1, 2, 3} == worse(divided(fleet), CHANCE)
