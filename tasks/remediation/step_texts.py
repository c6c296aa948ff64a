"""Remediation in words: why something is not done, what a step is, and the plan for a case (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tasks.machines.base import Machines, Mark, Rung
from tasks.remediation.ladder import AFTER, required
from tasks.remediation.model import Case, Why
from tasks.remediation.steps import Kind, Step

WHY: Mapping[Why, str] = {
    Why.SUSPECT_POLICY: "the gate condemned so many nodes that the policy or the image is more likely to be wrong",
    Why.STALE: "the verdict is too old to act on. Run the gate again",
    Why.BEFORE_BREAKER: "the verdict is older than the moment at which the breaker was closed. Run the gate again",
    Why.BREAKER_OPEN: "the breaker is open, because too much was repaired in too short a time. Look into the cause, then close it",
    Why.RETURNED_BY_OTHER: "somebody returned it to service before it was proven",
    Why.NOT_SEEN: "the engine does not show it",
    Why.TOO_MANY_OUT: "too few nodes would serve if it were taken out of service",
    Why.NOT_ALLOWED: "nobody allowed the repair in time",
    Why.TRIED_ALL: "every repair was tried",
    Why.ACT_REFUSED: "the engine refused",
    Why.ACT_FAILED: "it is not known whether the repair was done, or it was not",
    Why.NOT_PROVEN: "its re-tests did not prove that it is well",
    Why.REPAIR_NEEDED: "a person has to look at it",
}


# What a step of a plan does for which there is no command.
STEPS: Mapping[Rung, str] = {
    Rung.RECHECK: "the checks that had failed run again; if they pass, the node is returned",
    Rung.PAGE: "a person is called if the finding repeats, and follows its remedy in the report",
    Rung.RETURN: "the node serves again, once a gate on it has proven it",
}


def step_text(case: Case, step: Step) -> str:
    """One line for people about a step of a case."""
    why = f": {WHY.get(step.why, step.why.value)}" if step.why is not None else ""
    if step.kind is Kind.DO and step.rung is not None and step.rung is not Rung.PAGE:
        said = f" (allowed by {step.allowed_by})" if step.allowed_by else ""
        return f"{case.node}: {step.rung.value}{said}"
    if step.kind is Kind.SETTLE and step.act is not None and step.state is not None:
        return f"{case.node}: {step.act.rung.value} {step.state.value}{why}"
    if step.kind is Kind.ASK and step.rung is not None:
        return f"{case.node}: waiting for somebody to allow {step.rung.value}"
    words = {Kind.CLOSE: "ends", Kind.WAIT: "waits", Kind.OPEN_BREAKER: "opens the breaker"}
    return f"{case.node}: {words.get(step.kind, 'calls a person')}{why}"


def planned(cases: Iterable[Case], machines: Machines) -> Iterator[tuple[Case, tuple[tuple[Rung, str], ...]]]:
    """What could be done for each case, in order, and the command that a person would type for it."""
    for case in cases:
        mark = Mark(case.gate_id, case.blames[0].check if case.blames else "")
        repairs = tuple(_repairs(case))
        gpus = tuple(dict.fromkeys(gpu for blame in case.blames for gpu in blame.gpus))
        rungs = (
            Rung.FENCE,
            *(() if _is_hard(case) else (Rung.RECHECK,)),
            *(repairs or (Rung.PAGE,)),
            Rung.RETURN,
        )
        lines = ((rung, machines.command(rung, case.node, mark, gpus)) for rung in rungs)
        yield case, tuple(lines)


def _repairs(case: Case) -> Iterator[Rung]:
    """All that could be tried, one after the other."""
    rung = required(case) or Rung.PAGE
    while rung is not Rung.PAGE:
        yield rung
        rung = AFTER[rung]


def _is_hard(case: Case) -> bool:
    return any(blame.hard for blame in case.blames)
