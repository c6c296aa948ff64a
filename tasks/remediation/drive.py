"""Carries out what `steps` decides for the open cases of a cluster: one look at the engine, then one step for each case.

An act is first written to the journal, whose compare-and-set repeats the decision on what others have written meanwhile, then to
its audit record, and only then requested. Nothing that may have been requested is requested again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from checks.model import SCHEMA_VERSION
from tasks.machines.base import (
    REPAIRS,
    ActAmbiguous,
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    MachineError,
    Machines,
    Mark,
    Retest,
    Rung,
    ServiceState,
    Settled,
)
from tasks.remediation.model import (
    Act,
    ActState,
    Case,
    Identity,
    Journal,
    Permission,
    Proof,
    Reason,
    RepairQuestion,
    RepairSettings,
)
from tasks.remediation.records import JournalError, Records, act_id, forget, in_state, with_act, without_case
from tasks.remediation.steps import PAGED, Engine, Step, StepKind, act_number, next_step, partners_of

LOG = logging.getLogger("prelaunch")


@dataclass(frozen=True)
class Rechecked:
    """What a re-test showed, of which gate it is, the identity that was measured, and when, in Unix seconds of the node's clock."""

    proof: Proof
    identity: Identity = field(default_factory=Identity)
    gate_id: str = ""
    message: str = ""
    measured_at: float = 0.0


class People(Protocol):
    """Who is asked and told. Both are idempotent: a process that died in between is followed by one that does it again."""

    def ask(self, case: Case, rung: Rung, number: int, command: str) -> float:
        """Ask whether this may be done; returns the deadline in Unix seconds."""

    def answer(self, question: RepairQuestion) -> tuple[Permission, str]:
        """What was answered, and by whom; ASKED while nobody has."""

    def page(
        self, cases: Sequence[Case], reason: Reason, acts: Sequence[Act], machines: Mapping[str, Machine]
    ) -> None:
        """Call a person because of these cases of one gate; `machines` are the engine's, {} while it is silent."""

    def tell(self, act: Act) -> None:
        """Say what was done, where the gate's page was sent."""


class _Changed(Exception):
    """Others changed the journal so that the step is another one now."""


@dataclass
class Remediation:
    """The open cases of one cluster, driven by one process. `writer` is unique to it; `clock` is in Unix seconds."""

    records: Records
    machines: Machines
    settings: RepairSettings
    recheck: Callable[[Case, Retest], Rechecked]
    people: People
    writer: str
    clock: Callable[[], float]

    def round(self) -> tuple[tuple[Case, Step], ...]:
        """Take one step for each open case; returns the cases and what was done. Raises JournalError, StoreError.

        An engine that does not answer is asked again in the next round.
        """
        journal = self._heard(self.records.journal())
        steps: list[tuple[Case, Step]] = []
        pages: dict[tuple[str, Reason], list[Case]] = {}
        for case in journal.cases:
            try:
                machines = self.machines.by_name()
            except EngineSilent as error:
                LOG.warning("the engine does not answer, so nothing is done for %s: %s", case.node, error)
                steps.append((case, Step(StepKind.WAIT, reason=Reason.NOT_SEEN)))
                continue
            try:
                step = self._step(case, machines)
            except _Changed:
                step = Step(StepKind.WAIT, reason=Reason.IN_FLIGHT)
            steps.append((case, step))
            if step.rung is Rung.PAGE and step.reason is not None:
                pages.setdefault((case.gate_id, step.reason), []).append(case)
        for (_, reason), cases in pages.items():
            self._page(cases, reason)
        self._change_journal(lambda latest: forget(latest, self.clock()))
        return tuple(steps)

    def _heard(self, journal: Journal) -> Journal:
        """The journal with what people answered since. An answer that came after the deadline is none."""
        answers = {}
        for question in journal.questions:
            if question.permission is Permission.PENDING:
                permission, by = self.people.answer(question)
                if permission is not Permission.PENDING:
                    answers[question] = replace(question, permission=permission, by=by)
        if not answers:
            return journal
        return self._change_journal(
            lambda now: replace(now, questions=tuple(answers.get(each, each) for each in now.questions))
        )

    def _engine(self, case: Case, journal: Journal, machines: Mapping[str, Machine]) -> Engine:
        settled = {
            act.id: self._settled(act, machines) for act in journal.acts_of(case) if not act.state.final
        }
        return Engine(machines, self.machines.rungs, self.machines.fence_is, settled)

    def _settled(self, act: Act, machines: Mapping[str, Machine]) -> Settled:
        now = machines.get(act.node, Machine(act.node, ServiceState.GONE))
        if act.rung in REPAIRS:
            before = Machine(
                act.node,
                ServiceState.CHANGING if act.begun else ServiceState.OUT,
                booted_at=act.booted_at,
                boot_id=act.boot_id,
                instance_id=act.instance_id,
                status=act.before,
            )
            return self.machines.settled(act.rung, before, now)
        ours = now.holder is Holder.PRELAUNCH and now.bears(act.gate_id)
        if act.rung is Rung.FENCE:
            return Settled.DONE if ours else Settled.PENDING
        if act.rung is Rung.RETURN:
            free = now.service is ServiceState.SERVING and now.holder is Holder.NOBODY
            return Settled.DONE if free else Settled.PENDING
        # A re-test whose process is gone, or that was not ended: the lock keeps others from being at it.
        return Settled.DONE if act.proof else Settled.FAILED

    def _step(self, case: Case, machines: Mapping[str, Machine]) -> Step:
        now = self.clock()
        journal = self.records.journal()
        step = next_step(case, journal, self._engine(case, journal, machines), self.settings, now)
        lost = step.action is StepKind.SETTLE and step.act is not None and step.act.rung is Rung.RECHECK
        ending = step.reason if step.action is StepKind.CLOSE else Reason.PROVEN
        # An earlier re-test of this case may have left a partner fenced: its process was killed, or the engine refused.
        needs_partner = step.action is StepKind.WAIT and step.rung is Rung.RECHECK
        if lost or needs_partner or ending not in (Reason.PROVEN, *PAGED):
            self._end_retest(case)
        if step.action is StepKind.CLOSE:
            self._change_journal(lambda latest: without_case(latest, case))
        elif step.action is StepKind.WAIT and step.act is not None and _begins(step.act, machines):
            self._keep(replace(step.act, begun=True))
        elif step.action is StepKind.SETTLE and step.act is not None and step.state is not None:
            self._keep(
                in_state(replace(step.act, why=step.reason, after=_status(case, machines)), step.state, now)
            )
        elif step.action is StepKind.ASK and step.rung is not None:
            self._ask(case, step.rung, act_number(case, step.rung, journal))
        elif step.action is StepKind.OPEN_BREAKER:
            most, minutes = self.settings.limits.breaker_acts, self.settings.limits.breaker_s / 60
            reason = f"{most} acts within {minutes:g} minutes"
            self._change_journal(
                lambda latest: replace(latest, breaker=replace(latest.breaker, opened_at=now, why=reason))
            )
        elif step.action is StepKind.DO and step.rung is not None and step.rung is not Rung.PAGE:
            return self._do(case, step, step.rung, machines)
        return step

    def _ask(self, case: Case, rung: Rung, number: int) -> None:
        command = self.machines.command(rung, case.node, _mark(case), _gpus(case))
        deadline = self.people.ask(case, rung, number, command)
        question = RepairQuestion(
            case.gate_id, case.node, rung, number, Permission.PENDING, self.clock(), deadline
        )
        self._change_journal(lambda journal: replace(journal, questions=(*journal.questions, question)))

    def _do(self, case: Case, step: Step, rung: Rung, machines: Mapping[str, Machine]) -> Step:
        act = self._intend(case, step, rung, machines)
        if act is None:
            return Step(StepKind.WAIT, rung, Reason.IN_FLIGHT)
        try:
            ended = self._requested(case, act, partners_of(case, machines, act.number - 1) or ())
        except ActRefused as error:
            ended = replace(in_state(act, ActState.REFUSED, self.clock(), str(error)), why=Reason.ACT_REFUSED)
        except EngineSilent as error:
            ended = replace(in_state(act, ActState.REFUSED, self.clock(), str(error)), why=Reason.NOT_SEEN)
        except ActAmbiguous as error:
            ended = in_state(act, ActState.AMBIGUOUS, self.clock(), str(error))
        self._keep(ended)
        self.people.tell(ended)
        return step

    def _requested(self, case: Case, act: Act, partners: Sequence[str]) -> Act:
        """Call the engine, once; returns the act as it is then."""
        mark = _mark(case)
        if act.rung is Rung.RECHECK:
            return self._rechecked(case, act, partners)
        if act.rung is Rung.FENCE:
            return in_state(act, ActState.DONE, self.clock(), self.machines.fence(case.node, mark))
        if act.rung is Rung.RETURN:
            return in_state(act, ActState.DONE, self.clock(), self.machines.free(case.node, mark))
        reply = self.machines.act(act.rung, case.node, mark, _gpus(case))
        return in_state(act, ActState.ACCEPTED, self.clock(), reply)

    def _rechecked(self, case: Case, act: Act, partners: Sequence[str]) -> Act:
        mark = _mark(case)
        try:
            result = self.recheck(case, self.machines.open_retest(case.node, partners, mark))
        except BaseException:
            with suppress(MachineError):  # what it raises itself must not hide why
                self.machines.close_retest(case.node, mark)
            raise
        measured = replace(
            in_state(act, ActState.INTENDED, self.clock(), result.message),
            proof=result.proof, found=result.identity, gate=result.gate_id, measured_at=result.measured_at,
        )  # fmt: skip
        self._keep(measured)  # it counts however the re-test ends
        try:
            self.machines.close_retest(case.node, mark)
        except MachineError as error:
            LOG.warning("the re-test of %s has not ended, and it is ended again: %s", case.node, error)
            return in_state(measured, ActState.AMBIGUOUS, self.clock())
        state = ActState.FAILED if result.proof is Proof.FAILED else ActState.DONE
        return in_state(measured, state, self.clock())

    def _intend(self, case: Case, step: Step, rung: Rung, machines: Mapping[str, Machine]) -> Act | None:
        """Write the act to the journal and to its record; None if its record is there already, which nobody may act on."""
        act = self._change(case, step, rung, machines)
        if self.records.create(act):
            return act
        self._keep_in_journal(in_state(act, ActState.AMBIGUOUS, self.clock(), "its record was there already"))
        return None

    def _change(self, case: Case, step: Step, rung: Rung, machines: Mapping[str, Machine]) -> Act:
        acts: list[Act] = []

        def change(journal: Journal) -> Journal:
            engine, now = self._engine(case, journal, machines), self.clock()
            if case not in journal.cases or next_step(case, journal, engine, self.settings, now) != step:
                raise _Changed
            acts[:] = [self._new_act(case, step, rung, machines, act_number(case, rung, journal), now)]
            return with_act(journal, acts[0])

        self._change_journal(change)
        return acts[0]

    def _new_act(
        self, case: Case, step: Step, rung: Rung, machines: Mapping[str, Machine], number: int, now: float
    ) -> Act:
        machine = machines.get(case.node)
        return Act(
            SCHEMA_VERSION, act_id(case.gate_id, case.node, rung, number), case.cluster, case.node, case.gate_id, rung, number,
            ActState.INTENDED, now, now, self.writer, case.verdict, case.blames[0].check if case.blames else "",
            tuple(dict.fromkeys(blame.check for blame in case.blames)), case.domain, step.allowed_by,
            self.machines.command(rung, case.node, _mark(case), _gpus(case)), machine.status if machine else "",
            machine.booted_at if machine else None, machine.instance_id if machine else "", why=step.reason,
            boot_id=machine.boot_id if machine else "",
        )  # fmt: skip

    def _page(self, cases: Sequence[Case], reason: Reason) -> None:
        """Call a person once for all nodes of a gate; written before and after, so that it is done again if this process dies."""
        try:
            machines: Mapping[str, Machine] = self.machines.by_name()
        except EngineSilent:
            machines = {}
        step = Step(StepKind.DO, Rung.PAGE, reason)
        acts = []
        for case in cases:
            journal = self.records.journal()
            open_page = next((act for act in journal.acts_of(case) if act.rung is Rung.PAGE), None)
            number = act_number(case, Rung.PAGE, journal)
            acts.append(open_page or self._new_act(case, step, Rung.PAGE, machines, number, self.clock()))
            self._keep(acts[-1])
            self._end_retest(case)
        journal = self.records.journal()
        self.people.page(cases, reason, [act for case in cases for act in journal.acts_of(case)], machines)
        for act in acts:
            self._keep(in_state(act, ActState.DONE, self.clock()))

    def _end_retest(self, case: Case) -> None:
        """What kept the machine and its partners for a repair or a re-test is removed, and the machine stays fenced."""
        if not any(act.rung in (Rung.RECHECK, *REPAIRS) for act in self.records.journal().acts_of(case)):
            return
        try:
            self.machines.close_retest(case.node, _mark(case))
        except MachineError as error:
            LOG.warning("a reservation or a partner of %s may still be out of service: %s", case.node, error)

    def _keep(self, act: Act) -> None:
        """Write an act's new state to its record and to the journal."""
        self.records.keep(act)
        self._keep_in_journal(act)

    def _change_journal(self, change: Callable[[Journal], Journal]) -> Journal:
        return self.records.change(change, self.clock())

    def _keep_in_journal(self, act: Act) -> None:
        self._change_journal(lambda journal: with_act(journal, act))


def close_breaker(records: Records, person: str, now: float) -> Journal:
    """A person closes the breaker: what was judged before is never acted on. Raises JournalError, StoreError."""

    def change(journal: Journal) -> Journal:
        if not journal.breaker.is_open:
            raise JournalError(
                f"the breaker of cluster {records.cluster} is not open, so there is nothing to close"
            )
        return replace(journal, breaker=replace(journal.breaker, closed_at=now, closed_by=person))

    return records.change(change, now)


def _begins(act: Act, machines: Mapping[str, Machine]) -> bool:
    """Whether the engine is seen at this repair for the first time."""
    machine = machines.get(act.node)
    changing = machine is not None and machine.service is ServiceState.CHANGING
    return changing and act.rung in REPAIRS and not act.begun


def _mark(case: Case) -> Mark:
    return Mark(case.gate_id, case.blames[0].check if case.blames else "")


def _gpus(case: Case) -> tuple[int, ...]:
    return tuple(dict.fromkeys(gpu for blame in case.blames for gpu in blame.gpus))


def _status(case: Case, machines: Mapping[str, Machine]) -> str:
    machine = machines.get(case.node)
    return machine.status if machine else ""
