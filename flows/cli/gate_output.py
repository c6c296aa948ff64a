"""What `prelaunch gate` prints: one document for every exit code."""

from __future__ import annotations

import argparse
import signal
from dataclasses import replace

from checks.exit_codes import Exit
from checks.model import ANSWER_WORDS, Answer, Level
from checks.runner.deadline import limited
from flows.cli import output
from tasks.gate.context import GateContext
from tasks.gate.lease.lease import LeaseError, lease_of_cluster
from tasks.gate.lease.owner import this_process
from tasks.gate.outcome import (
    CANCELLED,
    SERVICE_ERROR,
    Ending,
    GateOutcome,
    cancelled_by,
    first_line,
    keep_outcome,
    outcome_json,
    unjudged_json,
    with_ending,
)
from tasks.gate.progress import LiveProgress, measured_text
from tasks.launchers.base import LaunchError
from tasks.orchestration.foreground import TIME_IS_UP
from tasks.render.context import NO_CONTEXT
from tasks.reports.command_line import OutputError
from tasks.store.base import StoreError
from tasks.store.layout import outcome_key
from tasks.text.inert import one_line

# GitHub kills a cancelled step ten seconds after it asked it to end.
KEEP_S = 5.0


def show(arguments: argparse.Namespace, name: str, outcome: GateOutcome) -> None:
    """Print the outcome, and write the files that were asked for. Of one that cannot be written stderr says so."""
    try:
        _show(arguments, name, outcome)
    except OutputError as error:
        output.write_stderr(f"prelaunch: {error}")


def _show(arguments: argparse.Namespace, name: str, outcome: GateOutcome) -> None:
    judged, line = with_ending(outcome, name).judged, first_line(outcome, name)
    failed = outcome.ending is Ending.JOB_FAILED and outcome.training is not None
    logs = output.logs_note(arguments) if failed else ()
    context = judged.context if judged is not None else NO_CONTEXT
    context = replace(context, notes=(*logs, *context.notes))
    if arguments.format == "json":
        output.write_stdout(output.json_text(outcome_json(outcome, name), by_name=False))
    elif judged is None:
        output.write_stdout(f"{one_line(line, 1000)}\n")
    else:
        output.write_stdout(output.text_of(judged.report, judged.verdict, name, arguments.format, context))
        if arguments.format == "text":
            output.write_stdout("".join(f"{line}\n" for line in _after(outcome)))
    if judged is not None:
        output.write_files(arguments, judged.report, judged.verdict, name, context)
    elif outcome.code == Exit.REJECTED:
        output.write_rejected(arguments, name, outcome.reason)
    elif outcome.ending is Ending.CANCELLED:
        output.write_cancelled(arguments, name, outcome.reason)
    else:
        output.write_unjudged(arguments, name, outcome.reason, line)
    # In a pipeline a page has it, which is shown or annotated; a log with the same sentence three times is hard to read.
    unsaid = arguments.format != "text" and arguments.summary is None
    if unsaid and (outcome.code in (Exit.JOB_FAILED, Exit.NO_CAPACITY) or outcome.ending is Ending.CANCELLED):
        output.write_stderr(f"prelaunch: {one_line(outcome.reason, 1000)}")
    if judged is not None and arguments.format != "text" and outcome.code in (Exit.NO_GO, Exit.CANNOT_TELL):
        output.write_remedy(judged.verdict, context)
    clean = judged is None or judged.verdict.level is Level.PASS
    output.annotate_end(line, outcome.code, (*context.doubts, *logs), clean)


def interrupted(
    arguments: argparse.Namespace, gate_id: str, number: int, context: GateContext, progress: LiveProgress
) -> int:
    """Print, and keep in the store, the end by a signal or by a cancelled run (number 0): what was started has been ended, or what was
    not, and what was judged. A gate that had ended before the signal came is shown as it ended.

    `progress` has the outcome, the last progress of its checks, and what could not be ended.
    """
    outcome = progress.outcome or GateOutcome(gate_id, Ending.CANCELLED, None, None, None, "")
    code, cancelled = _signal_exit(number), False
    if outcome.ending is not Ending.CANCELLED:
        code = outcome.code
    elif number or not outcome.reason:
        left = "; ".join(one_line(text, 500).rstrip(".") for text in progress.unended)
        reason = _end_reason(number, getattr(arguments, "timeout_minutes", None))
        outcome, cancelled = _stored(context, cancelled_by(outcome, reason, left), code), True
    show(arguments, context.gate.name, outcome)
    if outcome.judged is None and outcome.ending is Ending.CANCELLED:
        measured = measured_text(progress.measured)
        output.write_cancelled(arguments, context.gate.name, f"{outcome.reason}. {measured}")
        if arguments.format == "json":
            output.write_stderr(f"prelaunch: {measured}")
        else:
            output.write_stdout(f"{measured}\n")
    trained = outcome.training.job_id if outcome.training else ""
    output.write_logs(arguments, context.address, gate_id, trained, code)
    if cancelled:
        _show_in_messages(context, outcome)
    return int(code)


def _signal_exit(number: int) -> Exit:
    if number == TIME_IS_UP:
        return Exit.CANNOT_TELL
    return Exit.INTERRUPTED if number in (0, signal.SIGINT) else Exit.TERMINATED


def _end_reason(number: int, minutes: float | None) -> str:
    if number == TIME_IS_UP and minutes is not None:
        return f"its time was up ({minutes:g} minutes)"
    return f"cancelled by {signal.Signals(number).name}" if number else "cancelled in Prefect"


def _show_in_messages(context: GateContext, outcome: GateOutcome) -> None:
    """Let the messages about the gate say what its kept outcome says; last, because nobody waits for a service that hangs.

    Prefect's client is imported in this thread, as below: Python aborts (SIGABRT) where it ends while an abandoned thread imports.
    """
    try:
        if limited(KEEP_S, lambda: context.store.get(outcome_key(outcome.gate_id))) is None:
            return  # another run has adopted the gate, or nothing could be kept
        from tasks.page import show_cancelled

        limited(KEEP_S, lambda: show_cancelled(context, outcome))
    except (StoreError, TimeoutError) as error:
        output.write_stderr(
            f"prelaunch: the messages about the gate do not say that it was cancelled: {error}"
        )


def _stored(context: GateContext, outcome: GateOutcome, code: Exit) -> GateOutcome:
    """The outcome with the places of its report, after it was kept; who cancels a pipeline does not wait for a store that hangs."""

    def keep() -> GateOutcome:
        held = lease_of_cluster(context.store, context.gate.cluster.name)
        if held is not None and held.gate_id == outcome.gate_id and not held.owner.is_me(this_process()):
            return outcome  # another run has adopted the gate, and keeps how it ends
        if outcome.judged is None:
            keep_outcome(context.store, outcome, code, context.gate.cluster.name)
            return outcome
        # Prefect's client takes a second to import: the flow has done it.
        from tasks.cancel import keep_cancelled

        return keep_cancelled(context, outcome, code)

    try:
        return limited(KEEP_S, keep)
    except (StoreError, LeaseError, LaunchError, TimeoutError) as error:
        output.write_stderr(f"prelaunch: how the gate ended could not be stored completely: {error}")
        return outcome


def nothing_judged(
    arguments: argparse.Namespace,
    name: str,
    gate_id: str,
    reason: str,
    code: Exit = Exit.NO_CAPACITY,
    is_cancelled: bool = False,
) -> int:
    """Print that a service failed before anything was judged, that a run elsewhere was cancelled, or (CANNOT_TELL) that a gate ended
    without a result.
    """
    mark = SERVICE_ERROR if code is Exit.NO_CAPACITY else ANSWER_WORDS[Answer.CANNOT_TELL]
    line = f"{CANCELLED if is_cancelled else mark} {name}: {one_line(reason)}"
    if is_cancelled:
        output.write_cancelled(arguments, name, reason, elsewhere=True)
    else:
        output.write_unjudged(arguments, name, reason, line)
    if arguments.format == "json":
        output.write_stdout(output.json_text(unjudged_json(reason, line, gate_id), by_name=False))
        if arguments.summary is None:
            output.write_stderr(f"prelaunch: {one_line(reason, 1000)}")
    else:
        output.write_stdout(f"{line}\n")
    output.annotate_end(line, code)
    return int(code)


def _after(outcome: GateOutcome) -> list[str]:
    """What comes below the verdict: the decision, the training, the report."""
    training, decision = outcome.training, outcome.decision
    lines = [f"Decision: {decision.value.replace('_', ' ')}"] if decision else []
    if outcome.judged and outcome.judged.reused:
        lines.append(f"Reused:   the PASS of {outcome.judged.reused}, confirmed again on every machine")
    if (answer := outcome.answer) is not None:
        reason = "; ".join(filter(None, (answer.reason, answer.note)))
        lines.append(
            f"Answer:   {answer.action.value} by {answer.by}{f': {one_line(reason, 500)}' if reason else ''}"
        )
    if training is not None:
        # Where there is no cause, the first line about a training that failed has the detail.
        is_repeated = outcome.ending is Ending.JOB_FAILED and not training.cause
        detail = f" ({training.detail})" if training.detail and not is_repeated else ""
        lines.append(f"Training: {training.job_id} {training.state.value}{detail}")
    if outcome.placement is not None and (outcome.placement.proof or training is not None):
        lines.append(f"Machines: {one_line(str(outcome.placement), 500)}")
    if outcome.html:
        lines.append(f"Report:   {outcome.html}")
    return ["", *lines]
