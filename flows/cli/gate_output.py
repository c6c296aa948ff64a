"""What `prelaunch gate` prints: one document for every exit code."""

from __future__ import annotations

import argparse
import signal

from checks.exit_codes import Exit
from flows.cli.output import (
    json_text,
    text_of,
    write_cancelled,
    write_files,
    write_rejected,
    write_stderr,
    write_stdout,
    write_unjudged,
)
from tasks.gate.context import GateContext
from tasks.gate.outcome import (
    CANCELLED,
    ENDING_WORDS,
    Ending,
    Outcome,
    ending_json,
    first_line,
    kept_verdict,
    outcome_json,
    with_ending,
)
from tasks.gate.progress import LiveProgress, measured_text
from tasks.render.context import NO_CONTEXT
from tasks.text.inert import one_line


def show(arguments: argparse.Namespace, name: str, outcome: Outcome) -> None:
    """Print the outcome, and write the files that were asked for. Raises OutputError."""
    judged, line = with_ending(outcome, name).judged, first_line(outcome, name)
    context = judged.context if judged is not None else NO_CONTEXT
    if arguments.format == "json":
        write_stdout(json_text(outcome_json(outcome, name), by_name=False))
    elif judged is None:
        write_stdout(f"{one_line(line, 1000)}\n")
    else:
        write_stdout(text_of(judged.report, judged.verdict, name, arguments.format, context))
        if arguments.format == "text":
            write_stdout("".join(f"{line}\n" for line in _after(outcome)))
    if judged is not None:
        write_files(arguments, judged.report, judged.verdict, name, context)
    elif outcome.code == Exit.REJECTED:
        write_rejected(arguments, name, outcome.reason)
    else:
        write_unjudged(arguments, name, outcome.reason, line)
    if outcome.code in (Exit.JOB_FAILED, Exit.NO_CAPACITY):
        write_stderr(f"prelaunch: {one_line(outcome.reason, 1000)}")


def interrupted(
    arguments: argparse.Namespace, gate_id: str, number: int, setting: GateContext, shown: LiveProgress
) -> int:
    """Print the end by a signal or a cancelled run (number 0): what was started has been ended, or what was not, and what was judged.

    `shown` has the last progress of its checks, and what could not be ended.
    """
    word = f"by {signal.Signals(number).name}" if number else "in Prefect"
    left = "; ".join(one_line(said, 500).rstrip(".") for said in shown.unended)
    reason = f"cancelled {word}; {left or 'the jobs that it had started were ended'}"
    kept, line = kept_verdict(setting, gate_id), f"{CANCELLED} {setting.gate.name}: {reason}"
    if arguments.format != "json":
        write_stdout(f"{line}\n")
    if kept is None:
        _cancelled(arguments, setting.gate.name, gate_id, reason, line, measured_text(shown.measured))
    else:
        verdict, report, html = kept
        if arguments.format == "json":
            made = ending_json(None, verdict, None, report, html, gate_id, reason, line)
            write_stdout(json_text(made, by_name=False))
        write_stderr(f"prelaunch: {reason}. The verdict was already known: {report}")
    return int(Exit.INTERRUPTED if number in (0, signal.SIGINT) else Exit.TERMINATED)


def _cancelled(
    arguments: argparse.Namespace, name: str, gate_id: str, reason: str, line: str, measured: str
) -> None:
    said = f"{reason}. {measured}"
    write_cancelled(arguments, name, said)
    if arguments.format == "json":
        write_stdout(json_text(ending_json(None, None, None, None, None, gate_id, said, line), by_name=False))
        write_stderr(f"prelaunch: {one_line(said, 1000)}")
    else:
        write_stdout(f"{measured}\n")


def nothing_judged(arguments: argparse.Namespace, name: str, gate_id: str, reason: str) -> int:
    """Print that a service failed before anything was judged."""
    line = f"{ENDING_WORDS[Ending.NO_CAPACITY]} {name}: {one_line(reason)}"
    if arguments.format != "json":
        write_stdout(f"{line}\n")
    _empty(arguments, name, gate_id, reason, line)
    return int(Exit.NO_CAPACITY)


def _empty(arguments: argparse.Namespace, name: str, gate_id: str, reason: str, line: str) -> None:
    write_unjudged(arguments, name, reason, line)
    if arguments.format == "json":
        made = ending_json(None, None, None, None, None, gate_id, reason, line)
        write_stdout(json_text(made, by_name=False))
    write_stderr(f"prelaunch: {one_line(reason, 1000)}")


def _after(outcome: Outcome) -> list[str]:
    """What comes below the verdict: the decision, the training, the report."""
    training, decision = outcome.training, outcome.decision
    lines = [f"Decision: {decision.value.replace('_', ' ')}"] if decision else []
    if outcome.judged and outcome.judged.reused:
        lines.append(f"Reused:   the PASS of {outcome.judged.reused}, confirmed again on every machine")
    if (answer := outcome.answer) is not None:
        why = "; ".join(filter(None, (answer.reason, answer.note)))
        lines.append(
            f"Answer:   {answer.action.value} by {answer.by}{f': {one_line(why, 500)}' if why else ''}"
        )
    if training is not None:
        detail = f" ({training.detail})" if training.detail else ""
        lines.append(f"Training: {training.job_id} {training.state.value}{detail}")
    if outcome.placement is not None and (outcome.placement.proof or training is not None):
        lines.append(f"Machines: {one_line(str(outcome.placement), 500)}")
    if outcome.html:
        lines.append(f"Report:   {outcome.html}")
    return ["", *lines]
