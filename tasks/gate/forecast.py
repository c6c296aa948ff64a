"""What a plan says about time and money: how long each stage should take, and what each placement costs before the training runs.

These are estimates, each with its source. A value that nobody measured or documents is None, and is shown as unknown. The limits
are those of the gate file, and apply whatever an estimate says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.facts.durations import devices_of, duration_of
from checks.facts.prices import Price
from checks.judge.cost.cost import price_for
from tasks.gate.context import GateContext
from tasks.launchers.base import Placement

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class StageForecast:
    """One stage, in seconds. `about_s` is None if it is not known; with `is_least` it takes at least that.

    `at_most_s` is the limit at which the gate or the engine ends it. `billed`: machines of the gate certainly cost money meanwhile.
    """

    name: str
    about_s: float | None
    is_least: bool
    at_most_s: float | None
    source: str
    billed: bool


@dataclass(frozen=True)
class PlacementCost:
    """What a placement costs before the training runs, for all nodes in node-hours.

    `about_node_hours` is the cost of the checks alone: None if their time is not known, and with `is_least` they cost at least that.
    `at_most_node_hours` is the cost if every limit is reached; `idle_at_most_node_hours` is the part of it in which the machines only
    wait for the training or for a person. `again` says what may have to be done once more.
    """

    placement: Placement
    chosen: bool
    is_least: bool
    about_node_hours: float | None
    at_most_node_hours: float
    idle_at_most_node_hours: float
    again: str


@dataclass(frozen=True)
class Forecast:
    """The estimates for a whole gate. `price` is None where nobody said what a node costs, and no table has it."""

    nodes: int
    instance_type: str
    price: Price | None
    stages: tuple[StageForecast, ...]
    placements: tuple[PlacementCost, ...]


# What a second job may cost once more: see docs/sagemaker.md, Placements.
AGAIN = "this is for one run of the checks: they run again if a host is not the machine that passed"
REPEATS = {
    Placement.IN_JOB: "",
    Placement.POOLED: f"{AGAIN}, and once on other machines if the pool is lost",
    Placement.PINNED: AGAIN,
    Placement.NONE: AGAIN,
}


def forecast(context: GateContext, ask_minutes: int) -> Forecast:
    """The forecast of a gate whose questions may wait for so many minutes. Pure."""
    declared = context.declared
    answer_s = ask_minutes * 60.0 if context.asks else 0.0
    return Forecast(
        nodes=declared.nodes,
        instance_type=declared.instance_type,
        price=price_for(declared.instance_type, context.terms),
        stages=tuple(_stages(context, answer_s)),
        placements=tuple(
            _spent(context, placement, idle_s, answer_s)
            for placement, idle_s in context.launcher.offers.items()
        ),
    )


def _stages(context: GateContext, answer_s: float) -> Iterator[StageForecast]:
    gate, launcher = context.gate, context.launcher
    no_number = "never measured, and the engine's documentation gives no number"
    yield StageForecast("start of the machines", None, False, launcher.start_s, no_number, False)
    yield _checks(context)
    if answer_s:
        held = launcher.placement is Placement.IN_JOB
        source = "only if the verdict needs approval"
        yield StageForecast("approval by a person", None, False, answer_s, source, held)
    if launcher.placement is Placement.POOLED:
        yield StageForecast("idle pool", None, False, launcher.keeps_s, no_number, True)
    if launcher.placement is not Placement.IN_JOB:
        yield StageForecast("start of the training", None, False, launcher.start_s, no_number, False)
    hours = gate.training.expected_hours
    origin = "not declared ([training] expected_hours)" if hours is None else "declared in the gate file"
    about_s = None if hours is None else hours * SECONDS_PER_HOUR
    yield StageForecast("training", about_s, False, gate.training.max_runtime_minutes * 60, origin, True)


def _checks(context: GateContext) -> StageForecast:
    declared, checks = context.declared, context.gate.checks
    devices = devices_of(context.facts.instances.get(declared.instance_type), declared.gpus_per_node)
    measured = duration_of(checks.profile, devices)
    limit_s = context.most_check_minutes * 60
    name = f"checks, profile {checks.profile.value}"
    if measured is None:
        source = f"profile {checks.profile.value} was never measured on such nodes"
        return StageForecast(name, None, False, limit_s, source, True)
    return StageForecast(name, measured.seconds, measured.is_least, limit_s, str(measured.provenance), True)


def _spent(context: GateContext, placement: Placement, idle_s: float, answer_s: float) -> PlacementCost:
    """Machines are billed while a person is asked, if they check and train in one job or are kept meanwhile."""
    checks, nodes = _checks(context), context.declared.nodes
    waits_s = answer_s if placement is Placement.IN_JOB else idle_s
    return PlacementCost(
        placement=placement,
        chosen=placement is context.launcher.placement,
        is_least=checks.is_least,
        about_node_hours=None if checks.about_s is None else nodes * checks.about_s / SECONDS_PER_HOUR,
        at_most_node_hours=nodes * ((checks.at_most_s or 0.0) + waits_s) / SECONDS_PER_HOUR,
        idle_at_most_node_hours=nodes * waits_s / SECONDS_PER_HOUR,
        again=REPEATS[placement],
    )
