"""Which repair follows which, how often, and whether a machine shows that it was done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.model import Action
from tasks.machines.base import Rung
from tasks.remediation.ladder import next_repair, shows
from tasks.remediation.model import ActState, Identity, Journal, Limits, Proof, Reason
from tasks.remediation.steps import Step, StepKind
from tests.tasks.remediation.test_steps import FENCED, FOUND, NOW, a_case, an_act, machines, paged, step


def test_each_repair_that_did_not_help_is_followed_by_the_next() -> None:
    """Each is proven before."""
    case, fence = a_case(Action.RESET_GPU), an_act(Rung.FENCE)
    failed = {"proof": Proof.FAILED, "measured_at": NOW, "state": ActState.FAILED}
    reset, again = an_act(Rung.RESET), an_act(Rung.RECHECK, **failed)  # type: ignore[arg-type]
    assert Rung.RECHECK is step(case, fence, reset).rung
    assert Rung.REBOOT is step(case, fence, reset, again).rung
    reboot, twice = an_act(Rung.REBOOT), an_act(Rung.RECHECK, number=2, **failed)  # type: ignore[arg-type]
    assert Rung.REPLACE is step(case, fence, reset, again, reboot, twice).rung
    replaced, thrice = an_act(Rung.REPLACE), an_act(Rung.RECHECK, number=3, **failed)  # type: ignore[arg-type]
    last = step(case, fence, reset, again, reboot, twice, replaced, thrice)
    assert paged(Reason.TRIED_ALL) == last


def test_a_repair_that_the_engine_lacks_is_passed_over() -> None:
    """Slurm replaces nothing by itself."""
    some, fence = frozenset((Rung.REBOOT,)), an_act(Rung.FENCE)
    assert Rung.REBOOT is step(a_case(Action.RESET_GPU), fence, rungs=some).rung
    assert paged(Reason.REPAIR_NEEDED) == step(a_case(Action.REPLACE), fence, rungs=some)
    assert Rung.PAGE is next_repair(a_case(Action.NONE), (), Journal(1, "sim"), some, Limits(), NOW)


def test_the_same_fault_after_a_reboot_is_a_replacement() -> None:
    """Of another gate within the day; another check's reboot does not count."""
    before = an_act(Rung.REBOOT, at=NOW - 3600, gate_id="g0", id="g0-n1-reboot-1")
    assert Rung.REPLACE is step(a_case(), before, an_act(Rung.FENCE)).rung
    other = replace(before, checks=("dcgm.diag",))
    assert Rung.REBOOT is step(a_case(), other, an_act(Rung.FENCE)).rung


@pytest.mark.parametrize(
    ("rung", "most", "following"),
    [(Rung.RESET, 1, Rung.REBOOT), (Rung.REBOOT, 2, Rung.REPLACE), (Rung.REPLACE, 1, Rung.PAGE)],
)
def test_a_node_is_repaired_only_so_often_a_day(rung: Rung, most: int, following: Rung) -> None:
    """What may have happened counts, what the engine refused does not, and after a day it is forgotten."""
    action = {Rung.RESET: Action.RESET_GPU, Rung.REBOOT: Action.REBOOT, Rung.REPLACE: Action.REPLACE}[rung]

    def after(count: int, state: ActState, at: float) -> Rung | None:
        old = an_act(rung, state, at=at, checks=("dcgm.diag",))
        earlier = [replace(old, gate_id=f"g{-index}", id=f"old{index}") for index in range(count)]
        return step(a_case(action), *earlier, an_act(Rung.FENCE)).rung

    assert rung is after(most - 1, ActState.DONE, NOW - 3600)
    assert following is after(most, ActState.DONE, NOW - 3600)
    assert following is after(most, ActState.FAILED, NOW - 3600)
    assert following is after(most, ActState.DONE, NOW + 3600)
    assert rung is after(most, ActState.REFUSED, NOW - 3600)
    assert rung is after(most, ActState.DONE, NOW - 86_401)


@pytest.mark.parametrize(
    ("acts", "found", "expected"),
    [
        pytest.param((Rung.REBOOT,), FOUND, Rung.RETURN, id="a reboot that shows"),
        pytest.param((Rung.REBOOT,), Identity("boot-n1-0"), Rung.PAGE, id="the same boot id"),
        pytest.param((Rung.REBOOT,), Identity(), Rung.PAGE, id="no boot id"),
        pytest.param((), FOUND, Rung.RETURN, id="somebody else's reboot"),
        pytest.param((), Identity("boot-n1-0"), Rung.REBOOT, id="a hard finding does not pass by itself"),
    ],
)
def test_a_node_is_returned_if_the_re_test_passed_on_a_machine_that_shows_the_repair(
    acts: tuple[Rung, ...], found: Identity, expected: Rung
) -> None:
    """Otherwise it stays fenced."""
    passed = an_act(Rung.RECHECK, proof=Proof.PASSED, found=found, measured_at=NOW)
    seen = step(a_case(), an_act(Rung.FENCE), *map(an_act, acts), passed)
    assert (StepKind.DO, expected) == (seen.action, seen.rung)


def test_a_finding_that_passed_in_place_needs_no_repair() -> None:
    """If it may pass by itself."""
    passed = an_act(Rung.RECHECK, proof=Proof.PASSED, measured_at=NOW)
    assert Rung.RETURN is step(a_case(hard=False), an_act(Rung.FENCE), passed).rung


@pytest.mark.parametrize(
    ("rung", "found", "shown"),
    [
        (Rung.REPLACE, Identity("b", "i-2", ("GPU-2",)), True),
        (Rung.REPLACE, Identity("b", "i-1", ("GPU-2",)), False),
        (Rung.REPLACE, Identity("b", "i-2", ("GPU-1",)), False),
        (Rung.REPLACE, Identity("b", "i-2"), False),
        (Rung.REPLACE, Identity("b", "", ("GPU-2",)), False),
        (Rung.REBOOT, Identity("b"), True),
        (Rung.REBOOT, Identity("a"), False),
        (Rung.RESET, Identity("a"), True),
    ],
)
def test_repair_is_shown_by_the_identity_found_after_it(rung: Rung, found: Identity, shown: bool) -> None:
    """What is not known shows nothing."""
    assert shown is shows(rung, Identity("a", "i-1", ("GPU-1",)), found)


def test_a_reboot_is_compared_with_what_was_measured_right_before_it() -> None:
    """Somebody had rebooted the node in between, so another boot id than the verdict's proves nothing."""
    seen = Identity("rebooted-by-others")
    before = an_act(Rung.RECHECK, ActState.FAILED, proof=Proof.FAILED, found=seen, measured_at=NOW)
    again = an_act(Rung.RECHECK, number=2, proof=Proof.PASSED, found=seen, measured_at=NOW)
    acts = (an_act(Rung.FENCE), before, an_act(Rung.REBOOT), again)
    assert paged(Reason.NOT_PROVEN) == step(a_case(), *acts)


@pytest.mark.parametrize(
    ("later_s", "shown"),
    [
        pytest.param(1801, {"booted_at": 0.0}, id="too old"),
        pytest.param(60, {"booted_at": NOW}, id="another boot"),
        pytest.param(60, {"boot_id": "another"}, id="another boot by its id"),
    ],
)
def test_a_proof_that_does_not_count_any_more_is_made_again_once(
    later_s: float, shown: dict[str, object]
) -> None:
    """The process may have died for a day before it returned the node, and the node may have been rebooted."""
    seen = machines(**{**FENCED, **shown})
    passed = an_act(Rung.RECHECK, proof=Proof.PASSED, found=FOUND, measured_at=NOW)
    acts = (an_act(Rung.FENCE), an_act(Rung.REBOOT), passed)
    same = machines(**{**FENCED, "boot_id": FOUND.boot_id})
    assert Rung.RETURN is step(a_case(), *acts, seen=machines(**FENCED), now=NOW + 60).rung
    assert Rung.RETURN is step(a_case(), *acts, seen=same, now=NOW + 60).rung
    assert Step(StepKind.DO, Rung.RECHECK) == step(a_case(), *acts, seen=seen, now=NOW + later_s)
    twice = (*acts, an_act(Rung.RECHECK, number=2, proof=Proof.PASSED, found=FOUND, measured_at=NOW))
    assert paged(Reason.STALE) == step(a_case(), *twice, seen=seen, now=NOW + later_s)


def test_a_replacement_without_gpus_shows_by_its_instance() -> None:
    """A node that never had a GPU."""
    assert shows(Rung.REPLACE, Identity("a", "i-1"), Identity("b", "i-2"))
