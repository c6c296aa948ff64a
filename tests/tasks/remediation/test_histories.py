"""Random histories of remediation on a simulated cluster: crashes, lost answers, others' acts, clocks that jump, stale evidence.

The simulated engine refuses whatever must never happen (tests/tasks/remediation/simulated.py). `make test-long` plays a hundred
thousand.
"""

from __future__ import annotations

import contextlib
import os
import random
from dataclasses import replace

import pytest

from checks.model import Action
from tasks.machines.base import Rung
from tasks.remediation.model import Case, Limits, Reason, RepairMode, RepairSettings
from tasks.store.base import StoreError
from tests.tasks.remediation.simulated import World
from tests.tasks.remediation.simulated_engine import Killed

ACTIONS = (Action.RESET_GPU, Action.REBOOT, Action.REPLACE, Action.INSPECT)
CURES = {Action.RESET_GPU: Rung.RESET, Action.REBOOT: Rung.REBOOT, Action.REPLACE: Rung.REPLACE}


def play(seed: int, rounds: int = 60) -> World:
    """One history. Raises Forbidden if something happens that must never."""
    draw = random.Random(seed)
    world = World(seed, size=draw.choice((3, 4, 6)))
    mode = draw.choice((RepairMode.ACT, RepairMode.ACT, RepairMode.ASK))
    freely = draw.choice(((Rung.RESET, Rung.REBOOT), (Rung.RESET, Rung.REBOOT, Rung.REPLACE)))
    limits = Limits(max_out_fraction=draw.choice((0.17, 0.34, 0.7)), breaker_acts=draw.choice((3, 6, 12)))
    world.settings = RepairSettings(mode, freely, limits)
    process, writers = world.process("w0"), 0
    kept: list[tuple[Case, ...]] = []
    for _ in range(rounds):
        if draw.random() < 0.3:
            _condemn(world, kept)
        try:
            world.disturb()
            if draw.random() < 0.05 and kept:  # an old event comes again
                world.open(draw.choice(kept))
            process.round()
        except StoreError:
            pass
        except Killed:
            writers += 1
            process = world.process(f"w{writers}")
        world.pass_time(draw.choice((5.0, 60.0, 600.0, 2400.0)))
    return world


def _condemn(world: World, kept: list[tuple[Case, ...]]) -> None:
    """A gate finds one or two machines sick, and its cases are opened now, later, or not at all."""
    draw = world.random
    among = sorted(world.truths) if draw.random() < 0.3 else ["n1"]
    nodes = draw.sample(among, min(len(among), draw.choice((1, 1, 1, 2, 3))))
    action = draw.choice(ACTIONS)
    for node in nodes:
        truth = world.truths[node]
        truth.sick = draw.choice((CURES.get(action, Rung.REPLACE), Rung.REPLACE, None))
    cases = world.condemn(*nodes, action=action, hard=draw.random() < 0.5)
    kept.append(cases)
    if draw.random() < 0.8:
        with contextlib.suppress(StoreError, Killed):
            world.open(cases)


MANY = int(os.environ.get("PRELAUNCH_HISTORIES", "100000"))


@pytest.mark.parametrize(
    ("first", "histories"),
    [(0, 200), pytest.param(1000, MANY, marks=(pytest.mark.long, pytest.mark.timeout(7200)))],
)
def test_remediation_does_no_forbidden_act(first: int, histories: int) -> None:
    """No act on stale evidence or that of another boot, none twice, none beyond a limit, none on another's machine."""
    acted = returned = 0
    for seed in range(first, first + histories):
        try:
            world = play(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        acted += len(world.calls)
        returned += len(world.returned)

    assert acted > histories / 2
    assert returned > histories / 40


def pass_minutes(world: World, count: int) -> None:
    """One process makes a round in each of them."""
    process = world.process("w0")
    for _ in range(count):
        process.round()
        world.pass_time(60.0)


@pytest.mark.parametrize(("action", "cure"), CURES.items())
def test_a_sick_machine_is_repaired_proven_and_returned_where_nothing_goes_wrong(
    action: Action, cure: Rung
) -> None:
    """The other side: the ladder ends with the machine in service, and nobody is paged."""
    world = World(7, hostile=False)
    world.truths["n2"].sick = cure
    world.open(world.condemn("n2", action=action))
    pass_minutes(world, 40)

    assert ["n2"] == world.returned
    assert [] == world.pages
    assert [Rung.FENCE, cure] == [call[0] for call in world.calls]
    assert () == world.journal.cases


def test_a_machine_that_a_reboot_does_not_cure_is_replaced_and_the_replacement_is_asked_for() -> None:
    """Mode act reboots freely; to replace it asks."""
    world = World(7, hostile=False)
    world.truths["n2"].sick = Rung.REPLACE
    world.open(world.condemn("n2", action=Action.REBOOT))
    pass_minutes(world, 80)

    assert [Rung.FENCE, Rung.REBOOT, Rung.REPLACE] == [call[0] for call in world.calls if call[2] == "g1"][:3]
    assert [("g1", "n2", Rung.REPLACE, 1)] == list(world.answers)
    assert ["n2"] == world.returned


def test_half_of_a_cluster_is_never_taken_out_and_one_page_says_so() -> None:
    """Two of four nodes are sick: no act, one page."""
    world = World(7, size=4, hostile=False)
    world.settings = replace(world.settings, limits=Limits())
    world.open(world.condemn("n1", "n2"))
    pass_minutes(world, 5)

    assert [] == world.calls
    assert [("g1", Reason.TOO_MANY_OUT)] == world.pages
