"""`prelaunch gate FILE`: check, decide, then launch, ask or notify, in this process.

Everything that can be wrong with the request is found before Prefect is imported or a server started.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checks.exit_codes import Exit
from checks.process.collection import without_collection
from flows.cli import output, shared_arguments
from flows.cli.gate_output import interrupted, nothing_judged, show
from flows.cli.plan import plans_of
from flows.cli.prefect_server import fault_text, start_server, wait_for_server
from flows.cli.rejection import reject
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import Lease, LeaseError
from tasks.gate.outcome import GateOutcome, rejection_kind
from tasks.gate.progress import LiveProgress, live_progress
from tasks.gate.session import take_lease
from tasks.gate_file.placeholders import require_own_values
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import Advanced, GateRequest, Wait
from tasks.launchers.base import LaunchError, LaunchRejected, Plan, PreflightResult
from tasks.orchestration.foreground import (
    FlowInterrupted,
    Foreground,
    hold_signals,
    ignore_signals,
    release_signals,
)
from tasks.orchestration.run_state import run_is_final
from tasks.orchestration.server.server import EmbeddedServer, EnvironmentUnusable, ServerError, StateUnusable
from tasks.orchestration.server.settings import configured_api_url
from tasks.reports.command_line import OutputError, Terminated
from tasks.store.base import StoreError, StoreUnwritable
from tasks.text.inert import one_line

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

ASK_MINUTES = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE --set a.b=value --wait verdict|started|finished --timeout-minutes M, and the outputs."""
    shared_arguments.add_gate_file(parser)
    shared_arguments.add_set(parser)
    shared_arguments.add_launch(parser, " (default: finished for local, else started)")
    use = "end the gate and its jobs if it has not finished by then, and exit 3 (default: no limit)"
    shared_arguments.add_timeout(parser, use)
    shared_arguments.add_baseline(parser)
    output.add_output_arguments(parser)
    output.add_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the gate; returns its exit code, and prints one document whatever happens."""
    began, minutes = time.monotonic(), arguments.timeout_minutes
    try:
        request = _request(arguments)
        context = open_gate_context(request)
        output.require_writable(arguments)
        output.write_unjudged(arguments, context.gate.name, output.UNENDED)
        plans = plans_of(context, request.advanced.ask_minutes)
        require_own_values(context.gate, context.file, os.environ)
        context.store.probe()
        _require_local_nodes(context, plans)
        left_s = None if minutes is None else minutes * 60 - (time.monotonic() - began)
        hold_signals(left_s)  # a lock that is taken and not yet known here could not be released
        held = take_lease(context, request.launch, on_expired=_close, run_over=run_is_final)
    except (GateFileError, OutputError, StoreError, LeaseError, LaunchError) as error:
        release_signals()
        return _reject(arguments, error)
    try:
        return _run(arguments, context, held.lease.gate_id, _flow_request(arguments, context, request))
    finally:
        try:
            if left := leases.leave(context.store, held):  # only if no flow has taken it over
                output.write_stderr(f"prelaunch: {left}")
        except StoreError as error:
            output.write_stderr(
                f"prelaunch: the cluster's lock could not be released; it expires by itself: {error}"
            )


def _require_local_nodes(context: GateContext, plans: tuple[Plan, ...]) -> None:
    """Require what nodes on this machine need, such as PyTorch, before a server is started for nothing. Raises LaunchRejected."""
    if context.gate.cluster.launcher != "local":
        return
    lines = context.launcher.preflight(plans)
    wrong = [line.text.rstrip(".") for line in lines if line.result is PreflightResult.WRONG and not line.key]
    if wrong:
        raise LaunchRejected(f"nothing was started: {'; '.join(wrong)}.")


def _close(context: GateContext, lease: Lease, reason: str = "") -> None:
    """Keep the end of a gate whose question is over, and notify people of it."""
    # Prefect's client takes a second to import, and few gates need it.
    from tasks.expire import ENDED, close_expired_gate

    close_expired_gate(context, lease, reason or ENDED)


def _reject(arguments: argparse.Namespace, error: Exception) -> int:
    if not isinstance(error, OutputError):
        output.write_rejected(arguments, Path(arguments.file).stem, error, rejection_kind(error))
    return reject(arguments.format, error)


def _run(arguments: argparse.Namespace, context: GateContext, gate_id: str, request: GateRequest) -> int:
    server, number, failure = None, None, None
    with ExitStack() as stack:
        progress = stack.enter_context(live_progress())
        try:
            server = start_server(context.local, stack)
            number = 0 if Foreground(lambda: _flow(request, context, server, progress)).run() else None
        except (FlowInterrupted, KeyboardInterrupt) as error:
            ignore_signals()
            number = _signal_of(error)
        except Exception as error:  # noqa: BLE001 - reported below, once everything that was started is ended
            failure = error
    if number is not None:
        return interrupted(arguments, gate_id, number, context, progress)
    early = None if failure is None else _failed(arguments, context, gate_id, failure, server, progress)
    if early is not None:
        return early
    if progress.outcome is None:
        reason = "the flow ended without a result"
        return nothing_judged(arguments, context.gate.name, gate_id, reason, Exit.CANNOT_TELL)
    code, trained = _show(arguments, context, progress.outcome), progress.outcome.training
    output.write_logs(arguments, context.address, gate_id, trained.job_id if trained else "", code)
    return code


def _signal_of(error: BaseException) -> int:
    if isinstance(error, FlowInterrupted):
        return error.number
    return signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT


def _failed(
    arguments: argparse.Namespace,
    context: GateContext,
    gate_id: str,
    error: Exception,
    server: EmbeddedServer | None,
    progress: LiveProgress,
) -> int | None:
    """Report what failed before the gate had ended; None where it had. Raises an error of ours."""
    if isinstance(error, StateUnusable):
        return _reject(arguments, StoreUnwritable(str(error)))
    if isinstance(error, EnvironmentUnusable):
        return _reject(arguments, error)
    fault = str(error) if isinstance(error, ServerError) else fault_text(error, server)
    if progress.outcome is None and not fault:
        raise error
    if progress.outcome is None or isinstance(error, ServerError):
        return nothing_judged(arguments, context.gate.name, gate_id, fault)
    text = f"{type(error).__name__}: {one_line(str(error), 200)}"
    output.write_stderr(f"prelaunch: Prefect failed after the gate had ended: {text}")
    return None


def _show(arguments: argparse.Namespace, context: GateContext, outcome: GateOutcome) -> int:
    if outcome.code == Exit.REJECTED and outcome.key:
        error = GateFileError(context.file, outcome.key, outcome.reason)
        error.find_line()
        return _reject(arguments, error)
    if outcome.code == Exit.REJECTED:
        return _reject(arguments, LaunchError(outcome.reason))
    show(arguments, context.gate.name, outcome)
    return outcome.code


async def _flow(
    request: GateRequest, context: GateContext, server: EmbeddedServer | None, progress: LiveProgress
) -> bool:
    """Whether somebody cancelled the run; raises what the flow raised, unless it had said how it ended."""
    with without_collection():
        from prefect import tags

        from flows.gate import opened_gate  # 1.5 s, while the server starts
        from tasks.orchestration.runs import TAG

    wait_for_server(server)
    with tags(TAG):
        state: State[Any] = await opened_gate(context)(request, return_state=True)
    if progress.outcome is None and not state.is_cancelled():
        await state.aresult(raise_on_failure=True)
    return state.is_cancelled()


def _request(arguments: argparse.Namespace) -> GateRequest:
    """What was asked for. With the embedded server, which has no page and ends with this process, nobody is waited for."""
    minutes = ASK_MINUTES if configured_api_url(os.environ, Path.cwd()) else 0
    baseline = str(arguments.baseline.expanduser().absolute()) if arguments.baseline else ""
    return GateRequest(
        gate_file=str(shared_arguments.gate_file(arguments)),
        advanced=Advanced(overrides=arguments.overrides, baseline=baseline, ask_minutes=minutes),
        launch=not arguments.check_only,
    )


def _flow_request(arguments: argparse.Namespace, context: GateContext, request: GateRequest) -> GateRequest:
    """The flow's request, with absolute paths, so that a hook in another process finds the same lock."""
    default: Wait = "finished" if context.gate.cluster.launcher == "local" else "started"
    changes = {
        "gate_file": str(Path(request.gate_file).absolute()),
        "wait": arguments.wait or default,
        "advanced": request.advanced.model_copy(update={"store": context.address}),
    }
    return request.model_copy(update=changes)
