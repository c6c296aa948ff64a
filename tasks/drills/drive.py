"""Runs a drill: requires a free node, makes the fault, watches what follows, and undoes the fault whatever happens.

From the first command of the fault on no signal breaks anything off (Interruption), and no error leaves this module before the fault
was undone or it is known, and said, that it could not be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from checks.exit_codes import Exit
from tasks.drills.interruption import Interruption
from tasks.drills.model import (
    NOT_YET,
    Drill,
    DrillLimits,
    DrillRefused,
    DrillResult,
    Fault,
    FaultOptions,
    Milestone,
    NodeUnreachable,
    SeenBy,
)
from tasks.drills.node_commands import NodeCommands
from tasks.drills.watch import Watch
from tasks.machines.base import Holder, Machine, MachineError, Machines, Rung, Service
from tasks.text.inert import one_line

LOG = logging.getLogger("prelaunch")
PROBE_S, UNDO_S, CLEAN_PAUSE_S, GATE_END_S = 30.0, 60.0, 2.0, 120.0


class GateRun(Protocol):
    """A gate that the drill has started."""

    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        ...

    def end(self) -> None:
        """End it, with all that it started, in bounded time."""
        ...


@dataclass
class DrillRun:
    """One drill on one node. `start_gate` is None if somebody else's gate is waited for; `clock` is in seconds and never goes back.

    `undo_after` is the milestone after which the fault is undone; None: at the end.
    """

    drill: Drill
    options: FaultOptions
    commands: NodeCommands
    machines: Machines
    watch: Watch
    expected: tuple[Milestone, ...]
    limits: DrillLimits
    stop: Interruption
    clock: Callable[[], float]
    start_gate: Callable[[], GateRun] | None = None
    undo_after: Milestone | None = None
    say: Callable[[str], None] = lambda text: None
    _reached_s: dict[Milestone, float] = field(default_factory=dict)
    _injected_at: float | None = None
    _next_at: float | None = None
    _gate: GateRun | None = None
    _why: str = ""
    _problems: list[str] = field(default_factory=list)

    def run(self) -> DrillResult:
        """Run it to its end.

        Raises DrillRefused and NodeUnreachable before anything was changed, and StoreError, JournalError and DecodeError if what is
        there before the fault cannot be read.
        """
        require_free(self.machines, self.options.node)
        fault = self._fault()
        self.watch.begin()
        require_free(self.machines, self.options.node)  # the rest took a while, and a job may have started
        self.say(f"If this process is killed, this undoes the fault: {self.commands.typed(fault.undo)}")
        begun, clean = self.clock(), False
        try:
            if not self.stop.number:
                self._follow(fault, begun)
        except Exception as error:
            LOG.debug("a drill ended early", exc_info=True)
            self._why = f"the drill ended early: {type(error).__name__}: {one_line(str(error), 300)}"
            self._problems.append(self._why)
        finally:
            clean = self._undone(fault, self.limits.clean_s)
            self._end_gate()
        return self._result(fault, begun, clean)

    def _fault(self) -> Fault:
        """The commands of the fault, made of what the node says. Raises DrillRefused, NodeUnreachable."""
        ran = self.commands.run(self.drill.fault.probe(self.options), PROBE_S)
        if ran.code:
            raise DrillRefused(f"{self.options.node} cannot be prepared for {self.drill.name}: {ran.said}")
        return self.drill.fault.make(self.options, ran.out)

    def _follow(self, fault: Fault, begun: float) -> None:
        """Make the fault, and watch until everything was reached, something is late, or a signal comes."""
        if not self._injected(fault):
            return
        if self.start_gate is not None:
            self._gate = self.start_gate()
        while not self.stop.number:
            code = self._gate.code() if self._gate else None
            if self._next_at is not None and self.clock() >= self._next_at and not self._injected(fault):
                return
            if self._injected_at is not None:
                self.watch.look()
                self._problems[:] = self.watch.problems
                self._note(fault)
            if self._ends(code, begun):
                return
            self.stop.wait(self.limits.poll_s)

    def _injected(self, fault: Fault) -> bool:
        """Make the fault, or make it again; False if that cannot be done."""
        now = self.clock()
        ran = self.commands.run(fault.inject, fault.inject_s)
        if ran.code == NOT_YET:
            self._next_at = now
            return True
        if ran.code:
            self._why = f"the fault could not be made: {ran.said}"
            self._problems.append(self._why)
            return False
        if self._injected_at is None:
            self._injected_at = now
            self.say(f"{self.drill.name} was injected on {self.options.node}")
        self._next_at = now + fault.repeat_s if fault.repeat_s else None
        return True

    def _note(self, fault: Fault) -> None:
        """Note what was reached now, and undo the fault if it was there for long enough."""
        after = self.clock() - (0.0 if self._injected_at is None else self._injected_at)
        for milestone in Milestone:
            if milestone in self.watch.reached and milestone not in self._reached_s:
                self._reached_s[milestone] = after
                self.say(f"{milestone.value} after {self._reached_s[milestone]:.1f} s")
        if self.undo_after in self.watch.reached and not self.watch.healed:
            self._next_at = None
            self.watch.healed = self._undone(fault, 0.0)

    def _ends(self, code: int | None, begun: float) -> bool:
        """Whether there is nothing more to wait for."""
        if set(self.expected) <= self.watch.reached and self._injected_at is not None:
            return True
        elapsed = self.clock() - (begun if self._injected_at is None else self._injected_at)
        for milestone in self.expected:
            limit = self.limits.within_s[milestone]
            if milestone not in self.watch.reached and elapsed > limit:
                what = (
                    "there was nothing to inject it into"
                    if self._injected_at is None
                    else f"not {milestone.value}"
                )
                self._why = f"{what} within {limit:g} s"
                return True
        return self._gate_missed_it(code)

    def _gate_missed_it(self, code: int | None) -> bool:
        """Whether the gate that the drill started has ended and did not name the fault, which nobody else can notice."""
        alone = self.drill.seen_by is SeenBy.GATE or self._injected_at is None
        if code is None or not alone or Milestone.DETECTED in self.watch.reached or self.watch.problems:
            return False
        self._why = f"the gate ended with exit code {code}, and did not name the fault"
        if code not in (Exit.GO, Exit.NO_GO, Exit.CANNOT_TELL):
            self._problems.append(f"the gate could not check: exit code {code}")
        elif not self.watch.tested:
            self._problems.append(
                f"no gate has a report of {self.options.node}. Let the gate file declare all nodes."
            )
        return True

    def _end_gate(self) -> None:
        """Let the gate that was started end by itself, because it may still have to page; end it if that takes too long."""
        if self._gate is None:
            return
        deadline = self.clock() + GATE_END_S
        patient = not self._problems
        while patient and not self.stop.number and self._gate.code() is None and self.clock() < deadline:
            self.stop.wait(self.limits.poll_s)
        self._gate.end()

    def _undone(self, fault: Fault, seconds: float) -> bool:
        """Undo the fault; a node that does not answer is tried again for so long. Whether nothing of the fault is left."""
        deadline = self.clock() + seconds
        while True:
            try:
                ran = self.commands.run(fault.undo, UNDO_S)
                if not ran.code:
                    return True
                said = ran.said
            except NodeUnreachable as error:
                said = str(error)
            self.say(f"the fault on {self.options.node} is not undone yet: {one_line(said, 300)}")
            if self.clock() >= deadline:
                return False
            self.stop.rest(CLEAN_PAUSE_S)

    def _result(self, fault: Fault, begun: float, clean: bool) -> DrillResult:
        return DrillResult(
            self.drill.name,
            self.options.node,
            self.expected,
            self.limits,
            None if self._injected_at is None else dict(self._reached_s),
            self.clock() - begun,
            clean,
            self.stop.number,
            self._why,
            tuple(self.watch.details),
            tuple(dict.fromkeys(self._problems)),
            fault.stays if self._injected_at is not None else "",
            "" if clean else self.commands.typed(fault.undo),
            left_as(self.machines, self.options.node),
        )


def require_free(machines: Machines, node: str) -> Machine:
    """The machine, which serves and runs no job. Raises DrillRefused."""
    try:
        machine = machines.look().get(node)
    except MachineError as error:
        raise DrillRefused(
            f"the engine does not say whether {node} runs a job: {one_line(str(error), 300)}"
        ) from error
    if machine is None:
        raise DrillRefused(
            f"the engine knows no node {node!r:.80}. prelaunch machines lists those that it knows."
        )
    shown = one_line(machine.words, 200)
    if machine.jobs:
        jobs = one_line(", ".join(machine.jobs), 200)
        raise DrillRefused(
            f"{node} runs {jobs}. A drill would disturb it. Wait until it has ended, or choose another node."
        )
    if machine.service is Service.UNKNOWN:
        raise DrillRefused(
            f"the engine does not say what state {node} is in ({shown or 'no words'}), so no drill may run there."
        )
    if machine.service is not Service.SERVING or machine.holder is not Holder.NOBODY:
        raise DrillRefused(
            f"{node} is {machine.service.value} ({shown}). A drill runs only on a node that serves."
        )
    return machine


def left_as(machines: Machines, node: str) -> str:
    """What a person has to know of the node after a drill; "" if it serves as before."""
    try:
        machine = machines.look().get(node)
    except MachineError as error:
        return f"the engine does not say what state {node} is in now: {one_line(str(error), 200)}"
    if machine is None:
        return f"the engine does not know {node} now"
    if machine.service is Service.SERVING and machine.holder is Holder.NOBODY:
        return ""
    said = f"{node} is {machine.service.value} now ({one_line(machine.words, 200)})"
    mark = machine.mark
    command = machines.command(Rung.RETURN, node, mark) if mark and machine.holder is Holder.PRELAUNCH else ""
    return f"{said}. This gives it back unproven: {command}" if command else said
