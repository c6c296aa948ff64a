"""`prelaunch run follow RUN`: shows a run on a Prefect server, and at its end the table and exit code that a gate here would have.

`prelaunch run start` shows the run that it has started in the same way.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from checks.exit_codes import Exit, RejectionKind
from checks.model import Level
from checks.process.collection import without_collection
from flows.cli import output
from flows.cli.gate_output import nothing_judged
from flows.cli.prefect_server import NO_SERVER, QUIET
from flows.cli.shared_arguments import FOREVER, add_timeout
from tasks.gate.progress import live_progress
from tasks.launchers.base import JobState
from tasks.orchestration.foreground import FlowInterrupted, Foreground
from tasks.orchestration.server.http_client import client_fault
from tasks.orchestration.server.settings import configured_api_url
from tasks.reports.command_line import OutputError, write_file
from tasks.store.base import StoreError
from tasks.text.inert import one_line

if TYPE_CHECKING:
    from tasks.orchestration.follow import FollowedRun
    from tasks.orchestration.status import RunStatus

TIMEOUT = "wait at most this long (default: until the run ends). If the run has not finished by then, exit 3"
# The codes of gates whose verdict let the training go on, and whose training did not.
NOT_TRAINED = (Exit.JOB_FAILED, Exit.NO_CAPACITY)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """RUN --timeout-minutes M, and the outputs."""
    parser.add_argument(
        "flow_run", metavar="RUN", help="the id of a flow run, or the address of its page in Prefect's UI"
    )
    add_timeout(parser, TIMEOUT)
    output.add_output_arguments(parser)
    output.add_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Follow the run, which continues if this command is interrupted."""
    flow_run_id = run_id(arguments.flow_run)
    if flow_run_id is None:
        return refuse(
            arguments,
            f"{arguments.flow_run!r:.200} is not a flow run. Give its id, or the address of its page in Prefect's UI.",
        )
    if message := obstacle(arguments):
        return refuse(arguments, message)
    with without_collection():
        from tasks.gate.progress import report_progress
        from tasks.orchestration.follow import FollowError, NoSuchRun, follow

    try:
        with live_progress():
            ended = Foreground(
                lambda: follow(flow_run_id, report_progress, limit_s(arguments)), "the run continues"
            ).run()
    except NoSuchRun as error:
        return refuse(arguments, str(error))
    except FollowError as error:
        return no_verdict(arguments, str(error))
    except FlowInterrupted as error:
        output.write_stderr(f"prelaunch: stopped watching; run {flow_run_id} continues")
        return int(error.code)
    return show(arguments, ended)


def run_id(text: str) -> UUID | None:
    """The id in an address or by itself; None for what holds none."""
    for segment in reversed(text.rstrip("/").replace("?", "/").split("/")):
        try:
            return UUID(segment)
        except ValueError:
            continue
    return None


def limit_s(arguments: argparse.Namespace) -> float:
    """How long to wait."""
    minutes = FOREVER if arguments.timeout_minutes is None else arguments.timeout_minutes
    return float(minutes) * 60


def obstacle(arguments: argparse.Namespace) -> str:
    """Why no run can be started or followed; "" if it can. Then the files say that nothing has ended yet."""
    os.environ.update({key: value for key, value in QUIET.items() if key not in os.environ})
    if configured_api_url(os.environ, Path.cwd()) is None:
        return NO_SERVER
    if fault := client_fault():
        return fault
    try:
        output.require_writable(arguments)
    except OutputError as error:
        return str(error)
    output.write_unjudged(arguments, "gate", output.UNENDED)
    return ""


def refuse(arguments: argparse.Namespace, message: str) -> int:
    """Report that nothing was started or followed."""
    output.write_rejected(arguments, "gate", message)
    return output.report_failure(arguments.format, message, Exit.REJECTED)


def no_verdict(
    arguments: argparse.Namespace, reason: str, code: Exit = Exit.CANNOT_TELL, cancelled: bool = False
) -> int:
    """Report that nobody can say how the run ended, that a service failed before there was one, or that it was cancelled."""
    return nothing_judged(arguments, "gate", "", reason, code, cancelled)


def show(arguments: argparse.Namespace, followed: FollowedRun) -> int:
    """Print how the run ended, write the files that were asked for, and return the gate's own exit code.

    Without a verdict that can be read the code is 3, whatever Prefect calls the state.
    """
    status = followed.announced
    if not followed.final:
        return no_verdict(
            arguments, f"run {followed.run} has not ended; its state is {followed.state}. {followed.message}"
        )
    if status is None or status.code is None or status.document is None:
        reason = followed.problem or "the run ended without a result"
        reason += f". Prefect says: {followed.message}" if followed.message else ""
        ended = f"run {followed.run} ended {followed.state}, without a verdict: {reason}"
        return no_verdict(arguments, ended, cancelled=followed.cancelled)
    trained, state = _training(status.document)
    written = output.write_logs(arguments, status.store, status.gate_id, trained, status.code)
    notes = output.logs_note(arguments) if written and state == JobState.FAILED.value else ()
    try:
        _print(arguments, status, status.document, notes)
    except OutputError as error:
        output.write_stderr(f"prelaunch: {error}")
    if status.code != Exit.GO and arguments.format == "json" and arguments.summary is None:
        output.write_stderr(f"prelaunch: {one_line(str(status.document.get('reason')), 1000)}")
    first = str(status.document.get("first_line") or status.document.get("reason"))
    output.annotate_end(
        first, status.code, notes, status.verdict is None or status.verdict.level is Level.PASS
    )
    return status.code


def _training(document: Mapping[str, object]) -> tuple[str, str]:
    """The training's job and its state as it was last seen; "" for what there is not."""
    training = document.get("training")
    if not isinstance(training, Mapping):
        return "", ""
    return str(training.get("job_id") or ""), str(training.get("state") or "")


def _print(
    arguments: argparse.Namespace, status: RunStatus, document: Mapping[str, object], notes: tuple[str, ...]
) -> None:
    if arguments.format == "json":
        output.write_stdout(output.json_text(document, by_name=False))
    if status.verdict is None:
        # A request that was rejected early has no gate yet.
        gate, reason = status.gate or "gate", str(document.get("reason"))
        rejected = status.code == Exit.REJECTED
        if rejected:
            busy = document.get("rejected") == RejectionKind.BUSY.value
            output.write_rejected(arguments, gate, reason, RejectionKind.BUSY if busy else None)
        else:
            output.write_unjudged(arguments, gate, reason)
        if arguments.format != "json":
            output.write_stdout(f"{one_line(str(document.get('first_line') or reason), 1000)}\n")
        return
    from tasks.orchestration.follow import kept_report, kept_text
    from tasks.render.context import VerdictContext
    from tasks.store.layout import html_key, summary_key

    report, missing = kept_report(status)
    failed = one_line(str(document.get("reason")), 900) if status.code in NOT_TRAINED else ""
    lines = (*notes, *status.lines)
    context = VerdictContext(notes=lines, first_line=str(document.get("first_line") or ""), failed=failed)
    if missing:
        output.write_stderr(f"prelaunch: {missing}")
    if status.left_out:
        output.write_stderr(f"prelaunch: {status.left_out} more findings are only in the store")
    if arguments.format != "json":
        output.write_stdout(output.text_of(report, status.verdict, status.gate, arguments.format, context))
    if arguments.format == "text":
        output.write_stdout("".join(f"{line}\n" for line in _after(status, document)))
    # The gate's own pages if its store can be read, else pages made from the verdict alone.
    left = argparse.Namespace(**vars(arguments))
    for name, key in (("summary", summary_key(status.gate_id)), ("html", html_key(status.gate_id))):
        path = getattr(arguments, name)
        text = kept_text(status, key) if path is not None else None
        if text is not None:
            write_file(path, text)
            setattr(left, name, None)
    output.write_files(left, report, status.verdict, status.gate, context)


def _after(status: RunStatus, document: Mapping[str, object]) -> list[str]:
    """What comes below the verdict: decision, training with the place of the logs of one that failed, report."""
    from tasks.store.layout import logs_folder
    from tasks.store.open import open_store

    job, state = _training(document)
    decision = str(document.get("decision") or "").replace("_", " ")
    lines = [f"Decision: {one_line(decision, 80)}"] if decision else []
    if job:
        with suppress(StoreError):
            location = open_store(status.store).location(logs_folder(status.gate_id, job))
            state += f" (logs: {location})" if state == JobState.FAILED.value else ""
        lines.append(f"Training: {one_line(f'{job} {state}', 500)}")
    if document.get("html"):
        lines.append(f"Report:   {one_line(str(document['html']), 500)}")
    return ["", *lines]
