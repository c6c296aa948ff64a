"""What happens next for one case: a pure function of the case, the journal, the engine's picture and the time.

The order is: fence, check again in place, reset, reboot, replace, page. A repair is requested only for a node that is fenced under the
case's own mark and runs nothing, on evidence that is fresh; a node is returned only after a re-test that measured all that had failed,
on a machine that shows the repair. Whatever does not fit is left to a person, with the node as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tasks.machines.base import REPAIRS, Holder, Machine, Rung, ServiceState, Settled
from tasks.remediation.ladder import next_repair, obstacle, required, shows_repair, tried, trips
from tasks.remediation.model import (
    DAY_S,
    Act,
    ActState,
    Case,
    Journal,
    Permission,
    Proof,
    Reason,
    RepairMode,
    RepairQuestion,
    RepairSettings,
)
from tasks.remediation.proof import partners_needed

# A re-test that could not tell is made again, so often in a row: a node that has just started has not logged for long enough.
# One whose process was ended is no try. But one that ends its process each time must not be repeated for ever without a person.
RECHECKS, LOST_RECHECKS = 3, 10
RECHECK_AFTER_S = 60.0
# One of two clocks may be ahead of the other by this much.
SKEW_S = 120.0


class StepKind(StrEnum):
    """What a step is. SETTLE gives an act its final state; OPEN_BREAKER stops all acts; CLOSE ends the case."""

    WAIT = "wait"
    SETTLE = "settle"
    ASK = "ask"
    DO = "do"
    OPEN_BREAKER = "open_breaker"
    CLOSE = "close"


@dataclass(frozen=True)
class Step:
    """The next step. `rung` is set for DO and ASK, `act` and `state` for SETTLE, `reason` for what is not done and for pages."""

    action: StepKind
    rung: Rung | None = None
    reason: Reason | None = None
    act: Act | None = None
    state: ActState | None = None
    allowed_by: str = ""


@dataclass(frozen=True)
class Engine:
    """What the back end can do, and what its picture of the cluster is now."""

    machines: Mapping[str, Machine]
    rungs: frozenset[Rung]
    fence_is: Rung
    settled: Mapping[str, Settled] = field(default_factory=dict)
    """What the engine shows of each act that is not final, by the act's id."""


@dataclass(frozen=True)
class Situation:
    """All that the next step of a case depends on, at the time `at`. `acts` are the case's, without those that were never sent."""

    case: Case
    acts: tuple[Act, ...]
    journal: Journal
    machine: Machine
    engine: Engine
    settings: RepairSettings
    at: float

    @property
    def last(self) -> Act:
        """The latest act of a case that has one."""
        return self.acts[-1]


def next_step(case: Case, journal: Journal, engine: Engine, settings: RepairSettings, now: float) -> Step:
    """What happens next for the case: it ends without a page only where its node is proven, or not under its mark. Pure."""
    step, machine = _next(case, journal, engine, settings, now), engine.machines.get(case.node)
    is_over = step.reason is Reason.PROVEN or any(act.rung is Rung.PAGE for act in journal.acts_of(case))
    if step.action is StepKind.CLOSE and not is_over and machine is not None and machine.bears(case.gate_id):
        return Step(StepKind.DO, Rung.PAGE, step.reason)
    if step == Step(StepKind.DO, Rung.RECHECK) and partners_of(case, engine.machines, 0) is None:
        # A training may have every node that could help, for weeks: after a day a person has to know.
        if case.partners and now - journal.acts_of(case)[-1].changed_at <= DAY_S:
            return Step(StepKind.WAIT, Rung.RECHECK, Reason.JOBS_RUN)
        return Step(StepKind.DO, Rung.PAGE, Reason.JOBS_RUN)
    return step


def partners_of(case: Case, machines: Mapping[str, Machine], retests: int) -> tuple[str, ...] | None:
    """Nodes that the gate found healthy and that are free now, as many as a re-test needs; None if they are too few. After so many
    re-tests of the case they are others, as far as there are any, because a partner may be bad itself.
    """
    free: list[str] = []
    for name in case.partners:
        machine = machines.get(name, Machine(name, ServiceState.GONE))
        if machine.service is ServiceState.SERVING and machine.holder is Holder.NOBODY and not machine.jobs:
            free.append(name)
    needed = partners_needed(case)
    start = retests * needed % max(len(free), 1)
    return tuple((free[start:] + free[:start])[:needed]) if len(free) >= needed else None


def _next(case: Case, journal: Journal, engine: Engine, settings: RepairSettings, now: float) -> Step:
    all_acts = journal.acts_of(case)
    if all_acts and _never_sent(all_acts[-1]) and 0 <= now - all_acts[-1].changed_at < RECHECK_AFTER_S:
        return Step(StepKind.WAIT, reason=Reason.NOT_SEEN)
    acts = tuple(act for act in all_acts if not _never_sent(act))
    last = acts[-1] if acts else None
    if last is not None and last.rung is Rung.PAGE:
        is_sent = last.state.final
        return Step(StepKind.CLOSE if is_sent else StepKind.DO, None if is_sent else Rung.PAGE, last.why)
    if last is not None and last.rung is Rung.RETURN and last.state is ActState.DONE:
        return Step(StepKind.CLOSE, reason=Reason.PROVEN)
    if last is not None and not last.state.final:
        return _unsettled(last, engine, settings, now)
    if last is not None and last.rung is not Rung.RECHECK and last.state is not ActState.DONE:
        return _leave(Reason.ACT_REFUSED if last.state is ActState.REFUSED else Reason.ACT_FAILED)
    if reason := _forbidden(case, settings):
        return _leave(reason)
    machine = engine.machines.get(case.node, Machine(case.node, ServiceState.GONE))
    if machine.service in (ServiceState.UNKNOWN, ServiceState.GONE):
        since = max(last.changed_at if last is not None else case.judged_at, machine.unknown_since or 0.0)
        was_never_seen = last is None and machine.service is ServiceState.GONE
        forgotten = was_never_seen or now - since > settings.limits.unseen_s
        return _leave(Reason.NOT_SEEN) if forgotten else Step(StepKind.WAIT, reason=Reason.NOT_SEEN)
    situation = Situation(case, acts, journal, machine, engine, settings, now)
    is_fenced = any(act.rung is Rung.FENCE and act.state is ActState.DONE for act in acts)
    return _further(situation) if is_fenced else _first(situation)


def _forbidden(case: Case, settings: RepairSettings) -> Reason | None:
    """Why no machine may be touched for this case at all."""
    if settings.mode in (RepairMode.OFF, RepairMode.PLAN):
        return Reason.MODE
    if case.suspect_policy:
        return Reason.SUSPECT_POLICY
    return None if required(case) is not None else Reason.NO_REPAIR


def _leave(reason: Reason) -> Step:
    """A case for which nothing is done: people who have to know are paged, for the others it ends."""
    return Step(StepKind.DO, Rung.PAGE, reason) if reason in PAGED else Step(StepKind.CLOSE, reason=reason)


# What a person has to know of, in words. The rest is as its owner wants it, or is over.
PAGED: Mapping[Reason, str] = {
    Reason.SUSPECT_POLICY: "the gate condemned so many nodes that the policy or the image is more likely to be wrong",
    Reason.STALE: "the verdict is too old to act on. Run the gate again",
    Reason.BEFORE_BREAKER: "the verdict is older than the moment at which repairs were allowed again. Run the gate again",
    Reason.BREAKER_OPEN: "all repairs were stopped after too many in a short time. Find the cause, then use --close-breaker",
    Reason.RETURNED_BY_OTHER: "somebody returned it to service before it was proven",
    Reason.NOT_SEEN: "the scheduler does not list it, or does not say how it is",
    Reason.TOO_MANY_OUT: "taking it out of service would leave too few nodes",
    Reason.NOT_ALLOWED: "nobody allowed the repair in time",
    Reason.TRIED_ALL: "every repair was tried, and none was proven to help",
    Reason.ACT_REFUSED: "the scheduler refused the last step",
    Reason.ACT_FAILED: "the repair failed, or it is not known whether it was done",
    Reason.NOT_PROVEN: "its re-tests did not prove that it is healthy",
    Reason.REPAIR_NEEDED: "no automatic repair fits its finding",
}
# The other reasons, for who follows a repair.
_OTHERS: Mapping[Reason, str] = {
    Reason.MODE: "the gate file allows no repair",
    Reason.NO_REPAIR: "its findings call for no repair",
    Reason.OTHER_BOOT: "it was restarted after it was measured",
    Reason.HELD_BY_OTHER: "a person or another system holds it",
    Reason.DOMAIN_BUSY: "a node beside it is being repaired",
    Reason.JOBS_RUN: "jobs still run on it, or on every node that could help to test it",
    Reason.IN_FLIGHT: "the last step has not ended yet",
    Reason.PROVEN: "it passed its re-test and was returned",
    Reason.OTHER_CASE: "another gate's repair holds it",
}


def reason_text(reason: Reason) -> str:
    """The reason in words."""
    return PAGED.get(reason) or _OTHERS[reason]


# Why a person has to know of a node under our mark whose case ends for another reason.
UNPROVEN = "it stays out of service without a passed re-test, and Prelaunch does nothing more for it"


def _unsettled(act: Act, engine: Engine, settings: RepairSettings, now: float) -> Step:
    """An act whose end is not known is never done again: the engine is asked, until its time is up."""
    settled = engine.settled.get(act.id, Settled.PENDING)
    if settled is Settled.DONE:
        return Step(StepKind.SETTLE, act=act, state=ActState.DONE)
    late = (
        now - act.intended_at > settings.limits.act_s.get(act.rung, 300.0) or now < act.intended_at - SKEW_S
    )
    if settled is Settled.FAILED or late:
        return Step(StepKind.SETTLE, act=act, state=ActState.FAILED, reason=Reason.ACT_FAILED)
    return Step(StepKind.WAIT, reason=Reason.IN_FLIGHT, act=act)


def _first(now: Situation) -> Step:
    """The step of a case whose node is not fenced yet."""
    machine = now.machine
    if machine.holder is Holder.OTHER:
        return Step(StepKind.CLOSE, reason=Reason.HELD_BY_OTHER)
    if machine.holder is Holder.PRELAUNCH and not machine.bears(now.case.gate_id):
        return Step(StepKind.CLOSE, reason=Reason.OTHER_CASE)
    if machine.service is ServiceState.CHANGING:
        return Step(StepKind.CLOSE, reason=Reason.HELD_BY_OTHER)
    if reason := _void(now, now.case.judged_at, now.case.identity.boot_id):
        return _leave(reason)
    return _capacity(now, Rung.FENCE)


def _never_sent(act: Act) -> bool:
    """Whether the engine was silent before it was asked for the act, so that it may be tried again."""
    return act.state is ActState.REFUSED and act.why is Reason.NOT_SEEN


def _void(now: Situation, evidence_at: float, boot_id: str) -> Reason | None:
    """Why evidence of that time and boot does not count any more. A clock that was set back makes old evidence look new."""
    if evidence_at <= now.journal.breaker.closed_at:
        return Reason.BEFORE_BREAKER
    fresh = -SKEW_S <= now.at - evidence_at <= now.settings.limits.max_verdict_s
    if now.at < now.journal.written_at - SKEW_S or not fresh:
        return Reason.STALE
    return Reason.OTHER_BOOT if _booted_since(now.machine, evidence_at, boot_id) else None


def _booted_since(machine: Machine, measured_at: float, boot_id: str) -> bool:
    """Whether the engine says that the machine started after something was measured on it: by the time, or by another boot id."""
    later = machine.booted_at is not None and machine.booted_at >= measured_at
    return later or bool(machine.boot_id and boot_id and machine.boot_id != boot_id)


def _capacity(now: Situation, rung: Rung) -> Step:
    """Do this act, which takes capacity, if every limit allows it; ask before if a person has to allow it."""
    if now.journal.breaker.is_open:
        return _leave(Reason.BREAKER_OPEN)
    reason = obstacle(now.case, rung, now.journal, now.engine.machines, now.settings.limits)
    if reason is Reason.DOMAIN_BUSY:
        return Step(StepKind.WAIT, reason=reason)
    if reason is not None:
        return _leave(reason)
    if trips(now.journal, now.at, now.settings.limits):
        return Step(StepKind.OPEN_BREAKER, reason=Reason.BREAKER_OPEN)
    means = now.engine.fence_is if rung is Rung.FENCE else rung
    if means is Rung.FENCE:
        return Step(StepKind.DO, rung)
    if now.settings.mode is RepairMode.ACT and means in now.settings.freely:
        return Step(StepKind.DO, rung, allowed_by="the gate file")
    return _ask(now, rung)


def _ask(now: Situation, rung: Rung) -> Step:
    question = _question(now, rung)
    if question is None:
        return Step(StepKind.ASK, rung)
    if question.permission is Permission.ALLOWED:
        return Step(StepKind.DO, rung, allowed_by=question.by)
    if question.permission is Permission.DENIED or now.at > question.deadline:
        return _leave(Reason.NOT_ALLOWED)
    return Step(StepKind.WAIT, rung, Reason.NOT_ALLOWED)


def act_number(case: Case, rung: Rung, journal: Journal) -> int:
    """The number that the next act of this kind has in its case, from 1 on."""
    return 1 + sum(act.rung is rung for act in journal.acts_of(case))


def _question(now: Situation, rung: Rung) -> RepairQuestion | None:
    key = (now.case.gate_id, now.case.node, rung, act_number(now.case, rung, now.journal))
    return next((question for question in now.journal.questions if question_key(question) == key), None)


def question_key(question: RepairQuestion) -> tuple[str, str, Rung, int]:
    """What a question is about: the numbered repair of one case."""
    return question.gate_id, question.node, question.rung, question.number


def _further(now: Situation) -> Step:
    """The step of a case whose node was fenced: check, repair, return, or page."""
    if (step := _not_ours(now)) is not None:
        return step
    if now.machine.service is ServiceState.CHANGING:
        return Step(StepKind.WAIT, reason=Reason.IN_FLIGHT)
    if now.machine.jobs:
        return Step(StepKind.WAIT, reason=Reason.JOBS_RUN)
    if now.last.rung is Rung.RECHECK:
        return _after_recheck(now)
    if now.last.rung is Rung.FENCE and not tried(now.acts) and any(blame.hard for blame in now.case.blames):
        return _repair(now)
    return Step(StepKind.DO, Rung.RECHECK)


def _not_ours(now: Situation) -> Step | None:
    """What to do if the node is not ours any more; None while it is."""
    machine = now.machine
    if machine.holder is Holder.OTHER:
        return Step(StepKind.CLOSE, reason=Reason.HELD_BY_OTHER)
    if machine.holder is Holder.PRELAUNCH:
        return None if machine.bears(now.case.gate_id) else Step(StepKind.CLOSE, reason=Reason.OTHER_CASE)
    if now.last.rung in REPAIRS and now.last.state is ActState.DONE:
        # The engine gave the repaired node back by itself, and nobody has proven it yet.
        return Step(StepKind.DO, Rung.FENCE)
    return _leave(Reason.RETURNED_BY_OTHER)


def _after_recheck(now: Situation) -> Step:
    acts, last = now.acts, now.last
    if last.proof is Proof.PASSED and shows_repair(now.case, acts, last.found):
        if not _outdated(now, last.measured_at, last.found.boot_id):
            return Step(StepKind.DO, Rung.RETURN)
        again = len(acts) > 1 and acts[-2].proof is Proof.PASSED
        return _leave(Reason.STALE) if again else Step(StepKind.DO, Rung.RECHECK)
    if last.proof is Proof.PASSED and tried(acts):
        return _leave(Reason.NOT_PROVEN)
    if last.proof in (Proof.PASSED, Proof.FAILED):
        return _repair(now)
    tries, lost = _unproven(acts)
    if tries >= RECHECKS or lost >= LOST_RECHECKS:
        return _leave(Reason.NOT_PROVEN)
    soon = 0 <= now.at - last.changed_at < RECHECK_AFTER_S and not _lost(last)
    return Step(StepKind.WAIT, reason=Reason.NOT_PROVEN) if soon else Step(StepKind.DO, Rung.RECHECK)


def _unproven(acts: Sequence[Act]) -> tuple[int, int]:
    """How many re-tests in a row, up to now, ended and proved nothing, and how many were lost with their process."""
    tries = lost = 0
    for act in reversed(acts):
        if act.rung is not Rung.RECHECK or act.proof in (Proof.PASSED, Proof.FAILED):
            break
        tries, lost = (tries, lost + 1) if _lost(act) else (tries + 1, lost)
    return tries, lost


def _lost(recheck: Act) -> bool:
    """Whether the process of a re-test was ended before the re-test ended."""
    return recheck.state is ActState.FAILED and recheck.proof is None


def _outdated(now: Situation, measured_at: float, boot_id: str) -> bool:
    """Whether a proof does not count any more: it is old, the node was booted since, or another gate condemned it again."""
    newer = any(case.node == now.case.node and case.judged_at > measured_at for case in now.journal.cases)
    booted = _booted_since(now.machine, measured_at, boot_id)
    return newer or booted or now.at - measured_at > now.settings.limits.max_verdict_s


def _repair(now: Situation) -> Step:
    """The next repair, on fresh evidence and within the limits; a page if there is none."""
    rung = next_repair(now.case, now.acts, now.journal, now.engine.rungs, now.settings.limits, now.at)
    if rung is Rung.PAGE:
        return _leave(Reason.TRIED_ALL if tried(now.acts) else Reason.REPAIR_NEEDED)
    question = _question(now, rung)
    if question is not None and question.permission is Permission.PENDING and now.at <= question.deadline:
        return Step(StepKind.WAIT, rung, Reason.NOT_ALLOWED)
    measured = [(act.measured_at, act.found.boot_id) for act in now.acts if act.proof is Proof.FAILED]
    reason = _void(now, *max([(now.case.judged_at, now.case.identity.boot_id), *measured]))
    if reason is Reason.BEFORE_BREAKER:
        return _leave(reason)
    if reason is not None:
        # The evidence is too old, or of another boot: it is measured again, unless it just was.
        return Step(StepKind.DO, Rung.RECHECK) if now.last.rung is not Rung.RECHECK else _leave(Reason.STALE)
    return _capacity(now, rung)
