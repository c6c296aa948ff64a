"""`prelaunch repair run GATE_FILE`: repair what a gate condemned, prove it and give it back, as the gate file allows.

With [remediation] mode "plan" it prints what could be done, and starts nothing.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from checks.command_line import InputError
from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.process.collection import without_collection
from flows.cli.output import json_text, write_stderr, write_stdout
from flows.cli.prefect_server import start_server, wait_for_server
from flows.cli.shared_arguments import add_format, add_gate_file, gate_file
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.progress import LISTENER, LiveProgress
from tasks.gate_file.request import GateRequest, RemedyRequest
from tasks.launchers.base import LaunchError
from tasks.machines.base import REPAIRS, MachineError, Rung
from tasks.orchestration.foreground import FlowInterrupted, Foreground, hold_signals, ignore_signals
from tasks.orchestration.server.server import EmbeddedServer, ServerError
from tasks.paging.repair_messages import allow_in_advance, terminal_user
from tasks.remediation.drive import close_breaker
from tasks.remediation.model import Act, RepairMode
from tasks.remediation.records import JournalError, Records
from tasks.remediation.settings import settings_of
from tasks.remediation.step_texts import STEPS, planned
from tasks.text.inert import one_line

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

CODES = {
    "Repaired": Exit.GO,
    "Planned": Exit.GO,
    "NothingToDo": Exit.GO,
    "NotRepaired": Exit.NO_GO,
    "Rejected": Exit.REJECTED,
    "Waiting": Exit.CANNOT_TELL,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GATE_FILE --gate ID --allow RUNG --close-breaker --format text|json."""
    parser.epilog = (
        "exit codes: 0 every node was returned, the plan was printed, or nothing is open, 1 a person is needed, 2 rejected, 3 not "
        "finished: run it again, 5 the store failed, 130 and 143 interrupted"
    )
    add_gate_file(parser)
    text = "the id of the gate (default: continue open cases, or else take the cluster's last refused gate)"
    parser.add_argument("--gate", metavar="ID", default="", help=text)
    text = "a repair to do without asking a person; may be given several times"
    parser.add_argument(
        "--allow", action="append", default=[], choices=[rung.value for rung in REPAIRS], help=text
    )
    text = "allow repairs again after the breaker stopped them, and do nothing else; earlier verdicts are never acted on"
    parser.add_argument("--close-breaker", action="store_true", help=text)
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan, or follow the repairs; returns the exit code."""
    try:
        context = open_gate_context(GateRequest(gate_file=str(gate_file(arguments)), launch=False))
        if (
            settings_of(context.gate).mode in (RepairMode.OFF, RepairMode.PLAN)
            and not arguments.close_breaker
        ):
            return _plan(arguments, context)
        context.store.probe()
        if arguments.close_breaker:
            return _close(context)
        return _repair(arguments, context)
    except (LaunchError, MachineError, JournalError) as error:
        raise InputError(arguments.file, str(error)) from error


def _close(context: GateContext) -> int:
    cluster = context.gate.cluster.name
    close_breaker(Records(context.store, cluster), terminal_user(), time.time())
    write_stderr(
        f"prelaunch: repairs of cluster {cluster} are allowed again. Run the gate again: earlier verdicts are not acted on."
    )
    return int(Exit.GO)


def _plan(arguments: argparse.Namespace, context: GateContext) -> int:
    """Print what could be done, and the commands for it."""
    from tasks.remedy import REJECTIONS, nothing_condemned, open_work

    try:
        work = open_work(_request(arguments, context), "", _never)
    except REJECTIONS as error:
        raise InputError(arguments.file, str(error)) from error
    plans = list(planned(work.cases, work.remediation.machines))
    mode = work.remediation.settings.mode.value
    if arguments.format == "json":
        cases = [
            {"node": entry.node, "gate_id": entry.gate_id, "steps": [{"rung": r.value, "command": c} for r, c in steps]}
            for entry, steps in plans
        ]  # fmt: skip
        write_stdout(json_text({"mode": mode, "cases": cases}))
        return int(Exit.GO)
    if not plans:
        write_stdout(f"{nothing_condemned(context)}\n")
    for case, steps in plans:
        blame = case.blames[0]
        cause = f"gate {case.gate_id} found by {blame.check}: {one_line(blame.message, 300)}"
        write_stdout(
            f"Take {case.node} out of service and repair it in {len(steps)} steps, because {cause}\n"
        )
        write_stdout(
            "Do the steps in this order. As soon as the checks pass on the node, go to the last step.\n"
        )
        for number, (rung, command) in enumerate(steps, 1):
            write_stdout(f"  {number}. {STEPS[rung]} ({rung.value}){f': {command}' * bool(command)}\n")
    write_stderr(
        f'prelaunch: [remediation] mode is "{mode}", so nothing was done: type the commands yourself'
    )
    return int(Exit.GO)


def _never(*_: object) -> Any:
    raise AssertionError("a plan tests nothing")


def _request(arguments: argparse.Namespace, context: GateContext) -> RemedyRequest:
    file = str(gate_file(arguments).absolute())
    return RemedyRequest(gate_file=file, gate_id=arguments.gate, store=context.address)


def _repair(arguments: argparse.Namespace, context: GateContext) -> int:
    begun = time.time()
    states: list[State[Any]] = []
    with ExitStack() as stack:
        try:
            hold_signals()
            server = start_server(context.local, stack)
            allowed = [Rung(name) for name in arguments.allow]
            Foreground(lambda: _flow(arguments, context, server, allowed, states)).run()
        except FlowInterrupted as error:
            ignore_signals()
            stack.close()
            write_stderr(
                "prelaunch: interrupted; what was requested goes on, and the next `prelaunch repair run` takes it up"
            )
            return int(error.code)
        except ServerError as error:
            stack.close()
            raise InputError("Prefect", str(error)) from error
    if not states:
        write_stderr("prelaunch: the flow ended without a result")
        return int(Exit.CANNOT_TELL)
    state = states[0]
    code = CODES.get(state.name or "", Exit.CANNOT_TELL)
    if code is Exit.REJECTED:
        raise InputError(arguments.file, state.message or "")
    records = Records(context.store, context.gate.cluster.name)
    _show(arguments, state, [act for act in records.acts() if act.changed_at >= begun - 1])
    return int(code)


async def _flow(
    arguments: argparse.Namespace,
    context: GateContext,
    server: EmbeddedServer | None,
    allowed: list[Rung],
    states: list[State[Any]],
) -> bool:
    with without_collection():
        from prefect import tags

        from flows.remedy import remedy
        from tasks.orchestration.runs import TAG

    wait_for_server(server)
    LISTENER.set(LiveProgress(None))
    with tags(TAG), allow_in_advance(allowed):
        states.append(await remedy(_request(arguments, context), return_state=True))
    return states[0].is_cancelled()


def _show(arguments: argparse.Namespace, state: State[Any], acts: list[Act]) -> None:
    if arguments.format == "json":
        document = {"ended": state.name, "message": state.message or "", "acts": [plain(act) for act in acts]}
        write_stdout(json_text(document))
        return
    for act in acts:
        text = one_line(act.said, 200)
        by = f", allowed by {act.allowed_by}" if act.allowed_by else ""
        took = f" after {act.changed_at - act.intended_at:.0f} s" if act.changed_at > act.intended_at else ""
        write_stdout(
            f"{act.node}  {act.rung.value}  {act.state.value}{took}{by}{f': {text}' if text else ''}\n"
        )
    write_stdout(f"{state.name}: {one_line(state.message or '', 500)}\n")
