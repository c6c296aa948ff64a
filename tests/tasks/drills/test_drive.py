"""A drill against played stacks: one that does everything, ones that leave something out, and everything that ends a drill early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks.model import Cause, Level
from tasks.drills.model import (
    DrillEnd,
    DrillLimits,
    DrillRefused,
    Milestone,
    SeenBy,
)
from tasks.drills.node_commands import Ran
from tasks.drills.report import report_table, report_text
from tasks.machines.base import Holder, Machine, Service
from tasks.remediation.model import Mode
from tests.fakes.drill_stack import BLAME, PlayedStack, PlayedTime, gate_record
from tests.tasks.drills.drill_runs import drill, log, node, ran, stack_with

_ = log

DETECTED, PAGED, ACTED, RETURNED = Milestone


def test_a_healthy_stack_is_a_success(log: Path) -> None:
    """Everything in time, with the times at which it was seen, and the gate ended."""
    stack = stack_with(log)
    result = ran(drill(stack, log), log)

    assert DrillEnd.IN_TIME is result.end
    assert {DETECTED: 2.0, PAGED: 4.0, ACTED: 6.0, RETURNED: 8.0} == result.reached_s
    assert stack.ended
    assert "detected after 2.0 s, paged after 4.0 s, acted after 6.0 s, back after 8.0 s" in report_text(
        result
    )


def test_a_stack_that_detects_nothing_has_failed(log: Path) -> None:
    """The gate says GO although the fault is there."""
    result = ran(drill(stack_with(log, deaf=True), log), log)

    assert DrillEnd.FAILED is result.end
    assert (DETECTED, PAGED, ACTED, RETURNED) == result.missing
    assert "not detected" in report_text(result)


def test_a_fault_that_was_not_made_is_no_success(log: Path) -> None:
    """A stack that would detect it proves nothing."""
    commands = node(lambda words: Ran(1, "", "no space left") if ">>" in words[2] else None)
    result = ran(drill(stack_with(log), log, commands=commands), log)

    assert (DrillEnd.CANNOT_TELL, None) == (result.end, result.reached_s)
    assert "no space left" in report_text(result)


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        ({"pages": False}, (PAGED,)),
        ({"acts": False}, (ACTED, RETURNED)),
        ({"returns": False}, (RETURNED,)),
    ],
)
def test_what_a_stack_leaves_out_is_a_failed_drill(
    log: Path, left_out: dict[str, bool], missing: tuple[Milestone, ...]
) -> None:
    """Each limit counts."""
    result = ran(drill(stack_with(log, **left_out), log), log)

    assert (DrillEnd.FAILED, missing) == (result.end, result.missing)
    assert ("This gives it back" in result.left) == (missing == (RETURNED,))


def test_what_is_late_is_a_failed_drill(log: Path) -> None:
    """Also if it happened in the same look as the last of what was awaited."""
    run = drill(stack_with(log), log)
    run.limits = DrillLimits(dict.fromkeys(Milestone, 3.0))

    assert (DrillEnd.FAILED, (PAGED, ACTED, RETURNED)) == ((result := ran(run, log)).end, result.missing)


@pytest.mark.parametrize(("deaf", "end"), [(False, DrillEnd.IN_TIME), (True, DrillEnd.FAILED)])
def test_mode_plan_promises_no_act(log: Path, deaf: bool, end: DrillEnd) -> None:
    """It is said, and detection and page are still needed."""
    result = ran(drill(stack_with(log, acts=False, deaf=deaf), log, mode=Mode.PLAN), log)

    assert end is result.end
    assert "acted: not expected, back: not expected" in report_text(result)


@pytest.mark.parametrize(
    "blame",
    [
        replace(BLAME, subject="n1"),
        replace(BLAME, check="disk.io"),
        replace(BLAME, level=Level.WARN),
        replace(BLAME, cause=Cause.EVIDENCE),
    ],
)
def test_a_refusal_for_another_reason_detects_nothing(log: Path, blame: object) -> None:
    """Another node, another check, a warning, and evidence that is missing."""
    result = ran(drill(stack_with(log, blame=blame), log), log)

    assert (DrillEnd.FAILED, {}) == (result.end, result.reached_s)


def test_a_gate_of_another_cluster_detects_nothing(log: Path) -> None:
    """Even where both keep their verdicts in one store."""
    stack = stack_with(log, deaf=True)
    gate_record(stack.store, "other-20261125-120001-abcd", [], cluster="other")
    time = PlayedTime(stack)
    run = drill(stack, log, time)
    step = stack.step

    def both() -> None:
        gate_record(stack.store, "other-20261125-120002-abcd", [BLAME], cluster="other")
        step()

    stack.step = both  # type: ignore[method-assign]

    assert DrillEnd.FAILED is ran(run, log).end


def test_a_fault_that_the_last_gate_found_already_is_refused(log: Path) -> None:
    """A drill could not show that anything notices it."""
    stack = stack_with(log)
    gate_record(stack.store, "gate-20261124-120000-abcd", [BLAME])

    with pytest.raises(DrillRefused, match="has found the same already"):
        drill(stack, log).run()
    gate_record(stack.store, "gate-20261124-130000-abcd", [])
    assert DrillEnd.IN_TIME is ran(drill(stack, log), log).end


@pytest.mark.parametrize("code", [2, 4, 5, 130])
def test_a_gate_that_could_not_check_proves_nothing(log: Path, code: int) -> None:
    """Neither that the fault is noticed nor that it is not."""
    stack = stack_with(log, deaf=True)
    stack._gate = lambda: code  # type: ignore[method-assign]

    assert DrillEnd.CANNOT_TELL is ran(drill(stack, log), log).end


def test_a_gate_without_the_node_proves_nothing(log: Path) -> None:
    """It checked fewer nodes than the cluster has."""
    stack = stack_with(log, deaf=True)

    def without() -> int:
        gate_record(stack.store, "gate-20261125-120000-abcd", [], node="n3")
        return 0

    stack._gate = without  # type: ignore[method-assign]
    result = ran(drill(stack, log), log)

    assert DrillEnd.CANNOT_TELL is result.end
    assert "no gate has a report of n2" in report_text(result)


def test_watching_waits_for_somebody_elses_gate(log: Path) -> None:
    """It starts none."""
    stack = stack_with(log)

    assert DrillEnd.IN_TIME is ran(drill(stack, log, watch_only=True), log).end
    assert not stack.ended


def test_watching_ends_at_the_limit(log: Path) -> None:
    """If no gate comes, the stack has not detected the fault."""
    stack = stack_with(log)
    stack.step = lambda: None  # type: ignore[method-assign]
    time = PlayedTime(stack)

    assert DrillEnd.FAILED is ran(drill(stack, log, time, watch_only=True), log).end
    assert 900 < time.now - 100 < 910


def test_a_store_that_cannot_be_read_at_the_end_proves_nothing(log: Path) -> None:
    """What is missing may be there."""
    stack = stack_with(log, acts=False)
    stack.machines.silent = False
    time = PlayedTime(stack)
    run = drill(stack, log, time)
    step = stack.step

    def silent() -> None:
        step()
        stack.machines.silent = stack.steps > 2

    stack.step = silent  # type: ignore[method-assign]
    result = ran(run, log)

    assert DrillEnd.CANNOT_TELL is result.end
    assert "the engine" in report_text(result)


@pytest.mark.parametrize("at", range(1, 5))
def test_an_interrupted_drill_leaves_nothing(log: Path, at: int) -> None:
    """At every step, and its gate is ended."""
    stack = stack_with(log, returns=False)
    result = ran(drill(stack, log, PlayedTime(stack, signal_at=at)), log)

    assert (DrillEnd.INTERRUPTED, True, True) == (result.end, result.clean, stack.ended)
    assert "SIGTERM" in report_text(result)


def test_an_error_of_our_own_leaves_nothing(log: Path) -> None:
    """The fault is undone before the error is said."""
    stack = stack_with(log)
    stack.step = lambda: 1 / 0  # type: ignore[method-assign, assignment]
    result = ran(drill(stack, log), log)

    assert (DrillEnd.CANNOT_TELL, True) == (result.end, result.clean)
    assert "ZeroDivisionError" in report_text(result)


@pytest.mark.parametrize(("ends_after", "waits"), [(5, 6), (10_000, 61)])
def test_a_gate_is_left_to_end_by_itself_for_a_while(log: Path, ends_after: int, waits: int) -> None:
    """It has refused, and still has to say so to people. It is ended in any case."""
    stack = stack_with(log)
    time = PlayedTime(stack)
    run = drill(stack, log, time)
    run.expected = (DETECTED,)
    stack.code = lambda: 1 if time.waits > ends_after else None  # type: ignore[method-assign]

    assert DrillEnd.IN_TIME is ran(run, log).end
    assert (waits, True) == (time.waits, stack.ended)


def test_a_gate_that_cannot_be_started_leaves_nothing(log: Path) -> None:
    """The fault was there by then."""
    stack = stack_with(log)
    run = drill(stack, log)

    def broken() -> PlayedStack:
        raise OSError("no such program")

    run.start_gate = broken

    assert DrillEnd.CANNOT_TELL is ran(run, log).end


def test_a_fault_that_cannot_be_undone_is_no_success(log: Path) -> None:
    """The command that undoes it is printed; it was tried until the limit."""
    commands = node(lambda words: Ran(255, "", "no route to host") if "dd of" in words[2:3][0] else None)
    stack = stack_with(log)
    result = drill(stack, log, commands=commands).run()

    assert (DrillEnd.FAILED, False) == (result.end, result.clean)
    assert result.undo_command in report_text(result)
    assert 100 < len(commands.ran)
    assert False is report_table(result)["cleaned_up"]


def test_a_node_that_is_away_for_a_while_is_cleaned_up_later(log: Path) -> None:
    """Such as one that restarts."""
    tries: list[int] = []

    def away(words: tuple[str, ...]) -> Ran | None:
        if "dd of" not in words[2]:
            return None
        tries.append(1)
        return Ran(255, "", "away") if len(tries) < 5 else None

    assert DrillEnd.IN_TIME is ran(drill(stack_with(log), log, commands=node(away)), log).end


def test_what_the_engine_notices_is_undone_so_that_the_node_can_return(log: Path) -> None:
    """The node is back when it serves after the fault was undone, and not while the fault is there."""
    stack = stack_with(log)
    run = drill(stack, log, watch_only=True)
    run.drill = replace(run.drill, seen_by=SeenBy.ENGINE, undo_after=DETECTED)
    run.watch.drill, run.expected, run.undo_after = run.drill, (DETECTED, RETURNED), DETECTED
    down = Machine("n2", Service.OUT, Holder.OTHER, words="down*", who="Slurm")

    def step() -> None:
        stack.machines.shown["n2"] = down if stack.faulty() else Machine("n2", Service.SERVING)

    stack.step = step  # type: ignore[method-assign]

    assert (DrillEnd.IN_TIME, {DETECTED: 2.0, RETURNED: 4.0}) == (
        (result := ran(run, log)).end,
        result.reached_s,
    )


def test_a_node_that_was_never_out_of_service_has_not_come_back(log: Path) -> None:
    """Xid 73, found by a gate whose refusals are acted on, and undone before the remedy has begun."""
    stack = stack_with(log, acts=False)
    stack.faulty = lambda: "): 73, " in log.read_text()
    run = drill(stack, log, name="xid-73", mode=Mode.ACT)
    run.watch.acted_on = True
    result = ran(run, log)

    assert (DrillEnd.FAILED, (Milestone.RETURNED,)) == (result.end, result.missing)
