"""Remediation in words: what a step is, and the plan for a case (pure)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from tasks.machines.base import Machines, Mark, Rung
from tasks.remediation.ladder import AFTER, required
from tasks.remediation.model import Case, Reason
from tasks.remediation.steps import Step, StepKind, reason_text
from tasks.render.remedy_commands import RESET

# What a person does in a step of a plan.
STEPS: Mapping[Rung, str] = {
    Rung.FENCE: "Take the node out of service, so that no job starts on it",
    Rung.RECHECK: "Run `prelaunch check` on the node. If the checks that failed pass now, go to the last step",
    Rung.RESET: "When no job runs on it, reset its GPUs. Then run `prelaunch check` on the node",
    Rung.REBOOT: "Restart the node. When it is back, run `prelaunch check` on it",
    Rung.REPLACE: "Replace the node, and run `prelaunch check` on the new one",
    Rung.PAGE: "If the finding repeats, follow its remedy in the report of the gate",
    Rung.RETURN: "When its checks have passed, return the node to service, and run the gate again",
}


def step_text(case: Case, step: Step) -> str:
    """One line for people about a step of a case."""
    reason = f": {reason_text(step.reason)}" if step.reason is not None else ""
    if step.action is StepKind.DO and step.rung is not None and step.rung is not Rung.PAGE:
        by = f" (allowed by {step.allowed_by})" if step.allowed_by else ""
        return f"{case.node}: {step.rung.value}{by}"
    if step.action is StepKind.SETTLE and step.act is not None and step.state is not None:
        return f"{case.node}: {step.act.rung.value} {step.state.value}{reason}"
    asks = step.action is StepKind.ASK or (step.action, step.reason) == (StepKind.WAIT, Reason.NOT_ALLOWED)
    if asks and step.rung is not None:
        return f"{case.node}: waits until somebody allows the {step.rung.value}"
    verbs = {StepKind.CLOSE: "ends", StepKind.WAIT: "waits", StepKind.OPEN_BREAKER: "is left as it is"}
    return f"{case.node}: {verbs.get(step.action, 'calls a person')}{reason}"


def planned(cases: Iterable[Case], machines: Machines) -> Iterator[tuple[Case, tuple[tuple[Rung, str], ...]]]:
    """What could be done for each case, in order, and the command that a person would type for it."""
    for case in cases:
        mark = Mark(case.gate_id, case.blames[0].check if case.blames else "")
        repairs = tuple(_repairs(case))
        gpus = tuple(dict.fromkeys(gpu for blame in case.blames for gpu in blame.gpus))
        rungs = (
            Rung.FENCE,
            *(() if any(blame.hard for blame in case.blames) else (Rung.RECHECK,)),
            *(repairs or (Rung.PAGE,)),
            Rung.RETURN,
        )
        lines = {rung: machines.command(rung, case.node, mark, gpus) for rung in rungs}
        if lines.get(
            Rung.RESET
        ):  # Prelaunch's own reset is a job in a reservation, which a person does not have
            lines[Rung.RESET] = (
                f"ssh {shlex.quote(case.node)} sudo {RESET.format(gpu=','.join(map(str, gpus)))}"
            )
        yield case, tuple(lines.items())


def _repairs(case: Case) -> Iterator[Rung]:
    """All that could be tried, one after the other."""
    rung = required(case) or Rung.PAGE
    while rung is not Rung.PAGE:
        yield rung
        rung = AFTER[rung]
