"""The next step of a case, one rule at a time. Random histories of whole clusters are in test_histories.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from checks.model import SCHEMA_VERSION, Action
from tasks.machines.base import Holder, Machine, Mark, Rung, ServiceState, Settled
from tasks.remediation.model import (
    Act,
    ActState,
    Breaker,
    Case,
    Identity,
    Journal,
    Limits,
    Permission,
    Proof,
    Reason,
    RepairMode,
    RepairQuestion,
    RepairSettings,
)  # fmt: skip
from tasks.remediation.steps import RECHECK_AFTER_S, Engine, Step, StepKind, next_step
from tests.tasks.remediation.simulated import World

NOW = 1_000_000.0
ALL = frozenset((Rung.RESET, Rung.REBOOT, Rung.REPLACE))
ACT = RepairSettings(RepairMode.ACT, limits=Limits(max_out_fraction=0.5))
MARK = Mark("g1", "kernel.xid")


def a_case(action: Action = Action.REBOOT, hard: bool = True, **more: object) -> Case:
    """A case about n1 of six nodes, measured just now."""
    (case,) = World(1).condemn("n1", action=action, hard=hard)
    return replace(case, **more)  # type: ignore[arg-type]


def an_act(
    rung: Rung, state: ActState = ActState.DONE, number: int = 1, at: float = NOW, **more: object
) -> Act:
    """An act of that case."""
    act = Act(
        SCHEMA_VERSION, f"g1-n1-{rung.value}-{number}", "sim", "n1", "g1", rung, number, state, at, at, "w", "digest", "kernel.xid",
        ("kernel.xid",), "rack0",
    )  # fmt: skip
    return replace(act, **more)  # type: ignore[arg-type]


def machines(**n1: object) -> dict[str, Machine]:
    """Six nodes that serve; n1 as it is asked for."""
    made = {f"n{index}": Machine(f"n{index}", ServiceState.SERVING) for index in range(6)}
    made["n1"] = replace(made["n1"], **n1)  # type: ignore[arg-type]
    return made


TAKEN = machines(service=ServiceState.OUT, holder=Holder.OTHER)
FENCED: dict[str, object] = {"service": ServiceState.OUT, "holder": Holder.PRELAUNCH, "mark": MARK}


def step(
    case: Case,
    *acts: Act,
    settings: RepairSettings = ACT,
    now: float = NOW,
    seen: dict[str, Machine] | None = None,
    settled: Settled | None = None,
    rungs: frozenset[Rung] = ALL,
    fence_is: Rung = Rung.FENCE,
    journal: Mapping[str, object] = MappingProxyType({}),
    **more: object,
) -> Step:
    """The next step. Where there are acts, the node is fenced for the case unless `seen` says otherwise."""
    kept = Journal(SCHEMA_VERSION, "sim", (case,), acts, **journal, **more)  # type: ignore[arg-type]
    found = seen or (machines(**FENCED) if acts else machines())
    engine = Engine(found, rungs, fence_is, {acts[-1].id: settled} if settled else {})
    return next_step(case, kept, engine, settings, now)


def paged(reason: Reason) -> Step:
    """A person is called."""
    return Step(StepKind.DO, Rung.PAGE, reason)


def test_a_node_is_fenced_first() -> None:
    """Without a question."""
    assert Step(StepKind.DO, Rung.FENCE) == step(a_case())


@pytest.mark.parametrize(
    ("case", "settings", "seen", "reason"),
    [
        pytest.param(a_case(), RepairSettings(RepairMode.OFF), None, Reason.MODE, id="off"),
        pytest.param(a_case(), RepairSettings(RepairMode.PLAN), None, Reason.MODE, id="plan"),
        pytest.param(a_case(Action.NONE), ACT, None, Reason.NO_REPAIR, id="no action"),
        pytest.param(a_case(Action.RESTART_APP), ACT, None, Reason.NO_REPAIR, id="application"),
        pytest.param(a_case(), ACT, TAKEN, Reason.HELD_BY_OTHER, id="foreign"),
        pytest.param(a_case(), ACT, machines(service=ServiceState.CHANGING), Reason.HELD_BY_OTHER, id="rebooted by others"),
        pytest.param(
            a_case(), ACT, machines(**{**FENCED, "mark": Mark("g0", "gpu")}), Reason.OTHER_CASE, id="another case"
        ),
        pytest.param(a_case(), ACT, machines(booted_at=NOW), Reason.OTHER_BOOT, id="another boot"),
        pytest.param(a_case(), ACT, machines(boot_id="another"), Reason.OTHER_BOOT, id="another boot by its id"),
    ],
)  # fmt: skip
def test_a_node_is_left_alone_without_a_page(
    case: Case, settings: RepairSettings, seen: dict[str, Machine] | None, reason: Reason
) -> None:
    """The case ends."""
    assert Step(StepKind.CLOSE, reason=reason) == step(case, settings=settings, seen=seen)


@pytest.mark.parametrize(
    ("case", "now", "seen", "journal", "reason"),
    [
        pytest.param(a_case(suspect_policy=True), NOW, None, {}, Reason.SUSPECT_POLICY, id="suspect policy"),
        pytest.param(a_case(), NOW + 1801, None, {}, Reason.STALE, id="stale"),
        pytest.param(a_case(), NOW - 121, None, {}, Reason.STALE, id="from the future"),
        pytest.param(a_case(), NOW, None, {"written_at": NOW + 121}, Reason.STALE, id="a clock that was set back"),
        pytest.param(a_case(), NOW, None, {"breaker": Breaker(closed_at=NOW)}, Reason.BEFORE_BREAKER, id="before the breaker"),
        pytest.param(a_case(), NOW, None, {"breaker": Breaker(opened_at=NOW)}, Reason.BREAKER_OPEN, id="breaker"),
        pytest.param(a_case(condemned=4), NOW, None, {}, Reason.TOO_MANY_OUT, id="half of the cluster"),
        pytest.param(a_case(), NOW + 3601, machines(service=ServiceState.UNKNOWN), {}, Reason.NOT_SEEN, id="unknown for long"),
        pytest.param(a_case(), NOW, machines(service=ServiceState.GONE), {}, Reason.NOT_SEEN, id="gone"),
        pytest.param(a_case(node="n9"), NOW, None, {}, Reason.NOT_SEEN, id="no such node"),
    ],
)  # fmt: skip
def test_a_node_is_left_alone_and_a_person_is_called(
    case: Case, now: float, seen: dict[str, Machine] | None, journal: dict[str, object], reason: Reason
) -> None:
    """Something does not fit that a person has to know of."""
    assert paged(reason) == step(case, now=now, seen=seen, journal=journal)


def test_evidence_counts_until_the_limits() -> None:
    """To the second."""
    assert Rung.FENCE is step(a_case(), now=NOW + 1800).rung
    assert Rung.FENCE is step(a_case(), written_at=NOW + 120).rung
    assert Rung.FENCE is step(a_case(), now=NOW - 120).rung
    assert Rung.FENCE is step(a_case(), seen=machines(booted_at=NOW - 1)).rung


def test_nodes_that_others_took_out_count() -> None:
    """Three of six may be out in all, whatever the reason; a node whose state is unknown is out. A repair needs the same room: others
    may have been taken out since the fence.
    """
    fence = an_act(Rung.FENCE)
    for service in set(ServiceState) - {ServiceState.SERVING}:
        out = {name: Machine(name, service) for name in ("n3", "n4")}
        assert Rung.FENCE is step(a_case(), seen=machines() | out).rung
        assert Rung.REBOOT is step(a_case(), fence, seen=machines(**FENCED) | out).rung
        out["n5"] = Machine("n5", service)
        assert Reason.TOO_MANY_OUT is step(a_case(), seen=machines() | out).reason
        assert paged(Reason.TOO_MANY_OUT) == step(a_case(), fence, seen=machines(**FENCED) | out)


def test_at_least_one_node_may_be_out() -> None:
    """A tenth of six nodes is none."""
    assert Rung.FENCE is step(a_case(), settings=RepairSettings(RepairMode.ACT)).rung
    assert Reason.TOO_MANY_OUT is step(a_case(condemned=2), settings=RepairSettings(RepairMode.ACT)).reason


@pytest.mark.parametrize(
    ("busy", "reason"),
    [({"service": ServiceState.CHANGING}, Reason.IN_FLIGHT), ({"jobs": ("7",)}, Reason.JOBS_RUN)],
    ids=["changing", "job"],
)
def test_step_waits_for_a_node_that_is_busy(busy: dict[str, Any], reason: Reason) -> None:
    """After a repair it may still be on its way, and a job may run on it."""
    seen = machines(**{**FENCED, **busy})
    assert Step(StepKind.WAIT, reason=reason) == step(a_case(), an_act(Rung.FENCE), seen=seen)


def test_evidence_that_a_re_test_did_not_renew_is_left_to_a_person() -> None:
    """A hard finding passed in place, on the same boot, and the verdict is too old by now."""
    later, same = NOW + 2400, Identity("boot-n1-0")
    passed = an_act(Rung.RECHECK, at=later, proof=Proof.PASSED, found=same, measured_at=later)
    assert paged(Reason.STALE) == step(a_case(), an_act(Rung.FENCE), passed, now=later)


def test_a_finding_that_may_pass_by_itself_is_checked_again_and_a_hard_one_is_not() -> None:
    """Before any repair."""
    fence = an_act(Rung.FENCE)
    assert Rung.RECHECK is step(a_case(hard=False), fence).rung
    assert Step(StepKind.DO, Rung.REBOOT, allowed_by="the gate file") == step(a_case(), fence)


@pytest.mark.parametrize(
    ("action", "rung"),
    [
        (Action.RESET_GPU, Rung.RESET), (Action.REBOOT, Rung.REBOOT), (Action.REPLACE, Rung.REPLACE), (Action.INSPECT, Rung.PAGE),
        (Action.CONTACT, Rung.PAGE),
    ],
)  # fmt: skip
def test_the_finding_says_which_repair_is_the_first(action: Action, rung: Rung) -> None:
    """A replacement is asked for."""
    found = step(a_case(action), an_act(Rung.FENCE))
    assert rung is found.rung
    assert (StepKind.ASK if rung is Rung.REPLACE else StepKind.DO) is found.action


@pytest.mark.parametrize("mode", [RepairMode.ASK, RepairMode.ACT])
def test_step_requires_permission_for_a_repair_that_is_not_free(mode: RepairMode) -> None:
    """Mode ask asks before each repair, mode act before those that are not listed."""
    settings = RepairSettings(mode, freely=(), limits=ACT.limits)
    fence = an_act(Rung.FENCE)
    assert Step(StepKind.ASK, Rung.REBOOT) == step(a_case(), fence, settings=settings)
    asked = RepairQuestion("g1", "n1", Rung.REBOOT, 1, Permission.PENDING, NOW, NOW + 60)

    def after(permission: Permission, now: float = NOW) -> Step:
        one = replace(asked, permission=permission, by="U1 (Slack)")
        return step(a_case(), fence, settings=settings, now=now, questions=(one,))

    assert StepKind.WAIT is after(Permission.PENDING).action is after(Permission.PENDING, NOW + 60).action
    assert paged(Reason.NOT_ALLOWED) == after(Permission.PENDING, NOW + 61) == after(Permission.DENIED)
    assert Step(StepKind.DO, Rung.REBOOT, allowed_by="U1 (Slack)") == after(Permission.ALLOWED)
    other = replace(asked, permission=Permission.ALLOWED, node="n2")
    assert StepKind.ASK is step(a_case(), fence, settings=settings, questions=(other,)).action


def test_a_fence_that_replaces_is_asked_for_as_a_replacement() -> None:
    """On AWS ParallelCluster."""
    assert Step(StepKind.ASK, Rung.FENCE) == step(a_case(), fence_is=Rung.REPLACE)
    free = replace(ACT, freely=(Rung.REPLACE,))
    assert StepKind.DO is step(a_case(), fence_is=Rung.REPLACE, settings=free).action


def test_evidence_that_became_too_old_while_a_person_thought_is_measured_again() -> None:
    """The answer stays; what it is about is fresh when it is done."""
    allowed = RepairQuestion("g1", "n1", Rung.REBOOT, 1, Permission.ALLOWED, NOW, NOW + 7200)
    ask, later, fence = replace(ACT, mode=RepairMode.ASK), NOW + 2400, an_act(Rung.FENCE)
    again = an_act(Rung.RECHECK, ActState.FAILED, at=later, proof=Proof.FAILED, measured_at=later)

    def after(*acts: Act) -> Step:
        return step(a_case(), *acts, settings=ask, now=later, questions=(allowed,))

    assert Step(StepKind.DO, Rung.RECHECK) == after(fence)
    assert Rung.REBOOT is after(fence, again).rung


@pytest.mark.parametrize("state", [ActState.INTENDED, ActState.ACCEPTED, ActState.AMBIGUOUS])
def test_act_that_may_have_been_requested_is_not_requested_again(state: ActState) -> None:
    """The engine is asked, until it says what became of it or the time is up."""
    acts = (an_act(Rung.FENCE), an_act(Rung.REBOOT, state))
    assert Step(StepKind.WAIT, reason=Reason.IN_FLIGHT, act=acts[1]) == step(a_case(), *acts)
    assert StepKind.WAIT is step(a_case(), *acts, now=NOW - 120).action
    assert (StepKind.SETTLE, ActState.DONE) == of(step(a_case(), *acts, settled=Settled.DONE))
    assert (StepKind.SETTLE, ActState.FAILED) == of(step(a_case(), *acts, settled=Settled.FAILED))
    assert (StepKind.SETTLE, ActState.FAILED) == of(step(a_case(), *acts, now=NOW + 1801))
    assert (StepKind.SETTLE, ActState.FAILED) == of(step(a_case(), *acts, now=NOW - 121))


def of(found: Step) -> tuple[StepKind, ActState | None]:
    """What a step settles."""
    return found.action, found.state


def test_a_repair_that_failed_or_was_refused_is_left_to_a_person() -> None:
    """Two acts that are over, the first also of a node that is not seen: HyperPod shows it as failed."""
    fence, unseen = an_act(Rung.FENCE), machines(service=ServiceState.UNKNOWN)
    replaced = an_act(Rung.REPLACE, ActState.FAILED)
    assert paged(Reason.ACT_FAILED) == step(a_case(), fence, replaced, seen=unseen)
    assert paged(Reason.ACT_FAILED) == step(a_case(), fence, an_act(Rung.REBOOT, ActState.FAILED))
    assert paged(Reason.ACT_REFUSED) == step(a_case(), fence, an_act(Rung.REBOOT, ActState.REFUSED))


def test_step_waits_for_another_repair_in_the_same_domain() -> None:
    """Of another node of the same rack; another rack does not matter."""
    other = an_act(Rung.REBOOT, ActState.ACCEPTED, node="n2", gate_id="g0", id="g0-n2-reboot-1")
    assert Step(StepKind.WAIT, reason=Reason.DOMAIN_BUSY) == step(a_case(), other, an_act(Rung.FENCE))
    far = replace(other, domain="rack1")
    assert Rung.REBOOT is step(a_case(), far, an_act(Rung.FENCE)).rung
    over = replace(other, state=ActState.DONE)
    assert Rung.REBOOT is step(a_case(), over, an_act(Rung.FENCE)).rung


def test_too_many_acts_open_the_breaker() -> None:
    """Six within an hour; those before it was closed count no more."""
    fence = an_act(Rung.FENCE, at=NOW - 60)
    many = [replace(fence, gate_id=f"g{-index}", id=f"f{index}", node=f"m{index}") for index in range(6)]
    assert StepKind.OPEN_BREAKER is step(a_case(), *many, seen=machines()).action
    assert StepKind.DO is step(a_case(), *many[1:], seen=machines()).action
    states = (ActState.AMBIGUOUS, ActState.REFUSED)
    unknown, refused = ([replace(many[0], state=state), *many[1:]] for state in states)
    assert StepKind.OPEN_BREAKER is step(a_case(), *unknown, seen=machines()).action
    assert Rung.FENCE is step(a_case(), *refused, seen=machines()).rung
    old = [replace(act, intended_at=NOW - 3600) for act in many]
    assert Rung.FENCE is step(a_case(), *old, seen=machines()).rung
    assert StepKind.DO is step(a_case(), *many, seen=machines(), breaker=Breaker(NOW - 30, NOW - 20)).action


def test_a_re_test_that_cannot_tell_is_made_again_a_minute_later_three_times() -> None:
    """A node that has just started has not logged for long enough. Then a person is called."""
    lost = an_act(Rung.RECHECK, proof=Proof.CANNOT_TELL, measured_at=NOW)
    unknown = [replace(lost, number=index, id=f"recheck-{index}") for index in (1, 2, 3)]
    acts = (an_act(Rung.FENCE), an_act(Rung.REBOOT))
    assert Step(StepKind.WAIT, reason=Reason.NOT_PROVEN) == step(a_case(), *acts, *unknown[:1])
    later = NOW + RECHECK_AFTER_S
    assert Step(StepKind.DO, Rung.RECHECK) == step(a_case(), *acts, *unknown[:1], now=later)
    assert Step(StepKind.DO, Rung.RECHECK) == step(a_case(), *acts, *unknown[:2], now=later)
    assert paged(Reason.NOT_PROVEN) == step(a_case(), *acts, *unknown, now=later)


FOUND = Identity("other-boot", "i-n1-0", ("GPU-n1-0",))


def test_a_re_test_that_was_interrupted_is_made_again_at_once_and_one_that_was_refused_later() -> None:
    """The process that made it is gone; the engine needs time."""
    acts = (an_act(Rung.FENCE), an_act(Rung.REBOOT))
    refused = an_act(Rung.RECHECK, ActState.REFUSED, why=Reason.ACT_REFUSED)
    assert Rung.RECHECK is step(a_case(), *acts, an_act(Rung.RECHECK, ActState.FAILED)).rung
    assert StepKind.WAIT is step(a_case(), *acts, refused).action


def test_a_node_that_was_condemned_again_is_tested_again_before_it_is_returned() -> None:
    """A newer verdict outweighs the re-test."""
    passed = an_act(Rung.RECHECK, proof=Proof.PASSED, found=FOUND, measured_at=NOW)
    newer = replace(a_case(), gate_id="g2", judged_at=NOW + 1)
    acts = (an_act(Rung.FENCE), an_act(Rung.REBOOT), passed)
    journal = Journal(SCHEMA_VERSION, "sim", (a_case(), newer), acts)
    engine = Engine(machines(**FENCED), ALL, Rung.FENCE)
    assert Rung.RECHECK is next_step(a_case(), journal, engine, ACT, NOW).rung


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (TAKEN, Step(StepKind.CLOSE, reason=Reason.HELD_BY_OTHER)),
        (machines(**{**FENCED, "mark": Mark("g0", "x")}), Step(StepKind.CLOSE, reason=Reason.OTHER_CASE)),
        (machines(), paged(Reason.RETURNED_BY_OTHER)),
        (machines(service=ServiceState.UNKNOWN), Step(StepKind.WAIT, reason=Reason.NOT_SEEN)),
    ],
)
def test_a_node_that_was_taken_from_us_is_not_touched_any_more(
    seen: dict[str, Machine], expected: Step
) -> None:
    """Not repaired, and not returned."""
    assert expected == step(a_case(), an_act(Rung.FENCE), seen=seen)


def test_a_repaired_node_that_its_engine_gave_back_is_fenced_again_and_tested() -> None:
    """HyperPod's replacements serve at once."""
    acts = (an_act(Rung.FENCE), an_act(Rung.REPLACE))
    assert Step(StepKind.DO, Rung.FENCE) == step(a_case(), *acts, seen=machines())
    assert Rung.RECHECK is step(a_case(), *acts, an_act(Rung.FENCE, number=2)).rung


def test_a_page_that_was_not_finished_is_sent_again_and_then_the_case_ends() -> None:
    """Its process may have died in between."""
    page, over = an_act(Rung.PAGE, why=Reason.STALE), (an_act(Rung.FENCE), an_act(Rung.RETURN))
    assert paged(Reason.STALE) == step(a_case(), replace(page, state=ActState.INTENDED))
    assert Step(StepKind.CLOSE, reason=Reason.STALE) == step(a_case(), page)
    assert Step(StepKind.CLOSE, reason=Reason.PROVEN) == step(a_case(), *over)
