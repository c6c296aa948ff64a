"""Who is named as degrading, in simulated fleets: `python -m tests.benchmarks.degradation [--full]`. JSON on stdout.

Constructed values, not measured ones: each machine has a level of its own (2 % apart), each proof normal noise around it. The same
seed gives the same fleets. The rule of checks.judge.trend.degradation judges every gate, with the newest value of each machine last:
divided by the median of the gate, reference since the last change, a budget of false names.

`named_within` is the share of the degraded machines that were named so many gates after the change began, `after` the median number
of gates, `healthy_named` the share of healthy machines that were ever named. `false_names_a_month` is over the whole fleet.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checks.judge.baseline.samples import Side
from checks.judge.trend.degradation import LEAST_PROOFS, Motion, chance_of, fleet_move, moves

SEED, NUMBERS, GATES_A_MONTH = 20261126, 37, 30.0
KEPT = 60
Fleet = list[list[float]]
# gate, machine -> a factor on the value.
Fault = Callable[[int, int], float]
Rule = Callable[[Fleet], list[bool]]


def simulated(
    chance: random.Random, machines: int, gates: int, noise: float, fault: Fault, tails: bool = False
) -> Fleet:
    """A list of values per machine. `tails`: noise of Student's t with five degrees of freedom instead of normal noise."""
    levels = [100.0 * (1.0 + 0.02 * chance.gauss(0.0, 1.0)) for _ in range(machines)]

    def drawn() -> float:
        if not tails:
            return chance.gauss(0.0, 1.0)
        return chance.gauss(0.0, 1.0) * math.sqrt(0.6 * 5.0 / chance.gammavariate(2.5, 2.0))

    return [
        [level * fault(gate, machine) * (1.0 + noise * drawn()) for gate in range(gates)]
        for machine, level in enumerate(levels)
    ]


def divided(fleet: Fleet) -> Fleet:
    """Each value divided by the median of its gate."""
    medians = [statistics.median(gate) for gate in zip(*fleet, strict=True)]
    return [[value / middle for value, middle in zip(values, medians, strict=True)] for values in fleet]


def by_peers(tests: int) -> Rule:
    """The product's rule, with the budget of so many tests a gate."""
    chance = chance_of(tests, GATES_A_MONTH)
    return lambda fleet: [one.motion is Motion.WORSE for one in moves(Side.LOW, divided(fleet), chance)]


@dataclass(frozen=True)
class Named:
    """The median number of gates after which the faulty machines were named, the share of them within a limit, and of healthy ones."""

    after: float | None
    within: dict[int, float]
    healthy: float


def found(rule: Rule, fleet: Fleet, begins: int, within: Sequence[int], faulty: int) -> Named:
    """When the faulty machines (the first ones) are named, and which others ever are."""
    gates = len(fleet[0])
    first: dict[int, int] = {}
    for gate in range(LEAST_PROOFS, gates + 1):
        kept = [values[max(0, gate - KEPT) : gate] for values in fleet]
        for machine, named in enumerate(rule(kept)):
            if named:
                first.setdefault(machine, gate - begins)
    after = [first[machine] for machine in range(faulty) if first.get(machine, 0) > 0]
    shares = {limit: sum(one <= limit for one in after) / faulty for limit in within} if faulty else {}
    healthy = sum(machine in first for machine in range(faulty, len(fleet)))
    return Named(statistics.median(after) if after else None, shares, healthy / (len(fleet) - faulty))


CASES: dict[str, tuple[float, int, Sequence[int], Fault]] = {
    "step of -8 % at 1.5 % noise": (0.015, 2, (3, 5), lambda gate, m: 0.92 if gate >= 30 and m < 2 else 1.0),
    "step of -8 % at 0.5 % noise": (0.005, 2, (3, 5), lambda gate, m: 0.92 if gate >= 30 and m < 2 else 1.0),
    "drift of -10 % over 30 gates at 0.5 % noise": (0.005, 2, (17, 20), lambda gate, m: _drift(gate, m)),
    "drift of -10 % over 30 gates at 1.5 % noise": (0.015, 2, (17, 20), lambda gate, m: _drift(gate, m)),
    "-6 % on all at 0.5 % noise": (0.005, 0, (), lambda gate, m: 0.94 if gate >= 30 else 1.0),
    "-6 % on all at 1.5 % noise": (0.015, 0, (), lambda gate, m: 0.94 if gate >= 30 else 1.0),
    "healthy at 3 % noise": (0.03, 0, (), lambda gate, m: 1.0),
}


def _drift(gate: int, machine: int) -> float:
    return 1.0 - 0.10 * min(1.0, max(0.0, (gate - 29) / 30)) if machine < 2 else 1.0


def cases(runs: int) -> dict[str, object]:
    """Every case: `runs` fleets of 24 machines x 60 gates, with the budget of 24 (and of 1,000) nodes x 37 numbers."""
    rules: dict[str, Rule] = {
        "budget of 24 nodes": by_peers(24 * NUMBERS),
        "budget of 1,000 nodes": by_peers(1000 * NUMBERS),
    }
    made: dict[str, object] = {}
    for name, (noise, faulty, within, fault) in CASES.items():
        chance = random.Random(SEED)
        fleets = [simulated(chance, 24, 60, noise, fault) for _ in range(runs)]
        lines = {
            rule: _joined([found(judge, one, 30, within, faulty) for one in fleets])
            for rule, judge in rules.items()
        }
        moved = [move for one in fleets if (move := fleet_move(one)) is not None]
        made[name] = {**lines, "fleets_that_moved": f"{len(moved)} of {runs}"}
    return made  # fmt: skip


def _joined(parts: Sequence[Named]) -> dict[str, object]:
    after = [part.after for part in parts if part.after is not None]
    return {
        "after": statistics.median(after) if after else None,
        "named_within": {
            str(limit): _mean([part.within[limit] for part in parts]) for limit in parts[0].within
        },
        "healthy_named": _mean([part.healthy for part in parts]),
    }


def _mean(values: Sequence[float]) -> float:
    return round(statistics.mean(values), 4)


@dataclass(frozen=True)
class HealthyYear:
    """How often a healthy machine was named newly in so many gates."""

    gates: int
    names: int

    @property
    def a_month(self) -> float:
        """False names a month."""
        return self.names / (self.gates / GATES_A_MONTH)


def healthy_year(machines: int, numbers: int, gates: int, noise: float, tails: bool) -> HealthyYear:
    """A fleet without a fault, judged at every gate with what is kept of each machine: its first 12 proofs and its newest 48."""
    chance, names = chance_of(machines * numbers, GATES_A_MONTH), 0
    source = random.Random(SEED)
    for _ in range(numbers):
        ratios = divided(simulated(source, machines, gates, noise, lambda gate, m: 1.0, tails))
        before = [False] * machines
        for gate in range(LEAST_PROOFS, gates + 1):
            start = gate - KEPT + 12
            kept = [values[:gate] if start <= 12 else values[:12] + values[start:gate] for values in ratios]
            now = [one.motion is Motion.WORSE for one in moves(Side.LOW, kept, chance)]
            names += sum(new and not old for new, old in zip(now, before, strict=True))
            before = now
    return HealthyYear(gates, names)


def _healthy(machines: int, numbers: int, noise: float, tails: bool) -> dict[str, object]:
    names = round(healthy_year(machines, numbers, 365, noise, tails).a_month, 3)
    return {"noise": noise, "heavy_tails": tails, "false_names_a_month": names}


# Noise, and whether it has heavier tails than normal noise.
HEALTHY = ((0.015, False), (0.03, False), (0.015, True))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    text = "also 1,000 nodes x 37 numbers x 365 gates (minutes)"
    parser.add_argument("--full", action="store_true", help=text)
    arguments = parser.parse_args()
    size = (1000, NUMBERS) if arguments.full else (200, 6)
    made = {
        "cases": cases(40 if arguments.full else 10),
        "healthy": [_healthy(*size, noise, tails) for noise, tails in HEALTHY],
    }
    print(json.dumps(made, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
