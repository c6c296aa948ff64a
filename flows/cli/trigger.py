"""`prelaunch run start DEPLOYMENT`: start a run of a deployment on a Prefect server, and follow it to its exit code.

It is for pipelines: the gate runs where the cluster can be reached, and the pipeline waits. If the pipeline is interrupted the
run is cancelled, with the training that it has started; `prelaunch run follow` never cancels.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from checks.command_line import Parser
from checks.exit_codes import Exit
from checks.process.collection import without_collection
from flows.cli.output import add_logs, add_output_arguments, write_stderr
from flows.cli.shared_arguments import add_launch, add_set, add_timeout
from flows.cli.watch import TIMEOUT, limit_s, no_verdict, obstacle, refuse, show
from tasks.gate.progress import live_progress
from tasks.orchestration.foreground import FlowInterrupted, Foreground, ignore_signals

if TYPE_CHECKING:
    from tasks.orchestration.follow import FollowedRun


def add_arguments(parser: Parser) -> None:
    """DEPLOYMENT, what to change of its request, and the outputs."""
    parser.unexpected_hint = "The gate file is named by an option: --gate NAME."
    text = 'name of the deployment, "gate/NAME" (see prefect deployment ls)'
    parser.add_argument("deployment", metavar="DEPLOYMENT", help=text)
    text = "use this gate file instead of the deployment's own; the deployment's form must offer it"
    parser.add_argument("--gate", metavar="NAME", help=text)
    add_set(parser)
    add_launch(parser)
    text = "start only one run for this key, deployment and request, even if the command is repeated (such as a pipeline's id)"
    parser.add_argument("--once", metavar="KEY", default="", help=text)
    add_timeout(parser, TIMEOUT)
    add_output_arguments(parser)
    add_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Start the run and follow it; the exit code is the gate's."""
    if arguments.deployment.count("/") != 1:
        return refuse(
            arguments,
            f"{arguments.deployment!r:.200} is not the name of a deployment. Write it as gate/NAME; "
            "another gate file than the deployment's own is named by --gate NAME.",
        )
    if message := obstacle(arguments):
        return refuse(arguments, message)
    with without_collection():
        from tasks.gate.progress import report_progress
        from tasks.orchestration.follow import FollowError, Unreachable, follow, page_of, start

    started: list[UUID] = []
    order = (arguments.deployment, _request(arguments), arguments.once or f"trigger-{uuid4()}")

    async def followed() -> FollowedRun:
        started.append(await start(*order))
        write_stderr(begun(started[0], arguments.deployment, page_of(started[0])))
        return await follow(started[0], report_progress, limit_s(arguments))

    try:
        with live_progress():
            ended = Foreground(followed, "cancelling the run").run()
        if not ended.final:
            reason = f"run {ended.run} had not ended at the time limit; its state was {ended.state}. {ended.message}".strip()
            text = f"{reason.rstrip('.')}. {_cancelled(started, order)}"
            return no_verdict(arguments, text, cancelled=True)
    except Unreachable as error:
        # The server may have started the run before it fell silent.
        text = str(error) if started else f"{str(error).rstrip('.')}; {_cancelled(started, order)}"
        return no_verdict(arguments, text, Exit.CANNOT_TELL if started else Exit.NO_CAPACITY)
    except FollowError as error:
        return refuse(arguments, str(error))
    except FlowInterrupted as error:
        ignore_signals()
        by = signal.Signals(error.number).name
        text = f"cancelled by {by}: {_cancelled(started, order)}"
        return no_verdict(arguments, text, error.code, cancelled=True)
    return show(arguments, ended)


def begun(run: UUID, deployment: str, page: str) -> str:
    """The first line: which run was started, and what ends with this command."""
    title = f"run {run} of {deployment} {page}".rstrip()
    return f"{title} (if this command is ended, the run and its training are cancelled; prelaunch run follow {run} only shows the run)"


def _request(arguments: argparse.Namespace) -> dict[str, object]:
    request: dict[str, object] = {}
    if arguments.gate:
        request["gate_file"] = arguments.gate
    if arguments.wait:
        request["wait"] = arguments.wait
    if arguments.check_only:
        request["launch"] = False
    if arguments.overrides:
        request["advanced"] = {"overrides": list(arguments.overrides)}
    return request


def _cancelled(started: list[UUID], order: tuple[str, dict[str, object], str]) -> str:
    """What became of the run; one whose id was not heard of yet is looked for, so that it launches nothing by itself."""
    from httpx import HTTPError

    from tasks.orchestration.follow import cancel, find_started

    try:
        run = started[0] if started else asyncio.run(find_started(*order))
        return asyncio.run(cancel(run)) if run else "no run is known to have been started"
    except HTTPError:
        return "the Prefect server does not answer, so it is not known whether a run was started. Look for the run in Prefect's UI."
