"""`prelaunch plan FILE`: what a gate would run, as text, or as the requests themselves. It starts nothing and writes nothing."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Sequence

from checks.bundle import plan_of
from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.model import Planned, Skip
from flows.cli.output import json_text, write_stderr, write_stdout
from flows.cli.shared_arguments import add_gate_file, add_set, gate_file
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.forecast import forecast
from tasks.gate.jobs import answer_wait_s, planned_jobs
from tasks.gate_file.placeholders import examples_of, require_own_values
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import Advanced, GateRequest
from tasks.launchers.base import ApiCall, LaunchRejected, Plan, PreflightCheck, PreflightResult, Request
from tasks.launchers.preflight import preflight
from tasks.notifiers.base import Audience
from tasks.paging.notifier_secrets import notifier_reach

# With what a gate would end before anything started; the first one counts.
REFUSED = {PreflightResult.WRONG: Exit.REJECTED, PreflightResult.NO_CAPACITY: Exit.NO_CAPACITY}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GATE_FILE --set a.b=value --format text|json|shell --offline --verbose."""
    add_gate_file(parser)
    add_set(parser)
    text = "format of stdout (default text); shell prints what is submitted: the batch scripts of Slurm, else commands"
    parser.add_argument("--format", choices=("text", "json", "shell"), default="text", help=text)
    text = "read only the gate file: no credentials, no network, no preflight"
    parser.add_argument("--offline", action="store_true", help=text)
    text = "show every check, cost, example and condition"
    parser.add_argument("--verbose", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> int:
    """Print the requests of the jobs, and what was seen to be wrong; exit code 0, 2 where it is, 3 where the engine gave no answer, 5
    without machines.
    """
    advanced = Advanced(overrides=arguments.overrides)
    context = open_gate_context(GateRequest(gate_file=str(gate_file(arguments)), advanced=advanced))
    plans = plans_of(context, advanced.ask_minutes)
    unverified = tuple(dict.fromkeys(line for plan in plans for line in plan.unverified))
    lines = unverified if arguments.offline else (*_refused(context), *preflight(context.launcher, plans))
    notes = [example.text for example in examples_of(context.gate, os.environ)]
    if arguments.format == "json":
        write_stdout(json_text(_document(context, plans, lines, advanced.ask_minutes)))
    elif arguments.format == "shell":
        write_stdout("\n".join(_text(item) for plan in plans for item in plan.requests))
        for line in lines:
            if line.result in REFUSED or line.result is PreflightResult.WARNING:
                write_stderr(f"prelaunch: {line.text}")
        for note in notes:
            write_stderr(f"prelaunch: {note}")
    else:
        from flows.cli.plan_text import plan_text

        estimate = forecast(context, advanced.ask_minutes)
        write_stdout(plan_text(context, estimate, plans, lines, os.environ, arguments.verbose))
    return _code(lines)


def _document(
    context: GateContext, plans: Sequence[Plan], lines: Sequence[PreflightCheck], ask_minutes: int
) -> dict[str, object]:
    _, planned = plan_of(context.bundle("plan"))
    requests = [item for plan in plans for item in plan.requests]
    optional = {"preflight": plain(lines), "examples": plain(examples_of(context.gate, os.environ))}
    return {
        "checks": [_check(context, entry) for entry in planned],
        "estimate": plain(forecast(context, ask_minutes)),
        "requests": [dict(r.body) if isinstance(r, ApiCall) else plain(r) for r in requests],
        "notified": {
            side.value: plain(notifier_reach(context.gate.notify, side, os.environ)) for side in Audience
        },
        **{key: value for key, value in optional.items() if value},
    }


def _code(lines: Sequence[PreflightCheck]) -> int:
    results = {line.result for line in lines}
    unrefused = Exit.CANNOT_TELL if any(line.unreachable for line in lines) else Exit.GO
    return int(next((code for result, code in REFUSED.items() if result in results), unrefused))


def _refused(context: GateContext) -> tuple[PreflightCheck, ...]:
    """The line about values with which `prelaunch gate` refuses the file."""
    try:
        require_own_values(context.gate, context.file, os.environ)
    except GateFileError as error:
        subject = error.path if error.line is None else f"{error.path} (line {error.line})"
        return (PreflightCheck(subject, PreflightResult.WRONG, error.message, key=error.path),)
    return ()


def _check(context: GateContext, planned: Planned) -> dict[str, object]:
    """One check: on what it runs, whether the policy requires it, and why it does not run."""
    entry = context.policy.checks.get(planned.check)
    left_out = Skip.GATE_FILE if planned.check in context.gate.checks.skip else planned.skip
    return {
        "check": planned.check,
        "scope": planned.scope.value,
        "required": entry is not None and entry.required,
        "skip": None if left_out is None else left_out.value,
    }


def plans_of(context: GateContext, ask_minutes: int) -> tuple[Plan, ...]:
    """The plans of every job. Raises GateFileError, because what a launcher refuses here comes from the file."""
    jobs = planned_jobs(context, answer_wait_s(context, ask_minutes))
    try:
        return tuple(context.launcher.plan(job) for job in jobs)
    except LaunchRejected as error:
        raise GateFileError(context.file, "", str(error)) from error


def _text(request: Request | ApiCall) -> str:
    if isinstance(request, ApiCall) and request.service == "kubernetes":
        # Documents of YAML, of which JSON is a part, as kubectl reads them.
        return f"---\n{json_text(dict(request.body))}"
    if isinstance(request, ApiCall):
        command = re.sub(r"(?<!^)(?=[A-Z])", "-", request.operation).lower()
        body = shlex.quote(json_text(dict(request.body)).rstrip())
        return f"# {request.name}\naws {request.service} {command} --cli-input-json {body}\n"
    if request.script:
        return request.script
    environment = "".join(
        f"    {key}={shlex.quote(value)} \\\n" for key, value in request.environment.items()
    )
    command = shlex.join(request.argv)
    folder = shlex.quote(request.working_directory)
    where = f" on {request.node}" if request.node else ""
    return f"# {request.name}{where}\ncd {folder} && \\\n{environment}    {command}\n"
