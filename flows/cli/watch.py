"""`prelaunch watch RUN`: shows a run on a Prefect server live, and at its end the table and exit code that a gate here would have."""

from __future__ import annotations

import argparse
import signal
from uuid import UUID

from checks.exit_codes import Exit
from checks.process.collection import without_collection
from flows.cli.output import (
    UNENDED,
    add_logs,
    add_output_arguments,
    require_writable,
    write_stderr,
    write_unjudged,
)
from flows.cli.remote import NO_SERVER, has_server, no_verdict, refuse, show
from tasks.gate.progress import live_progress
from tasks.orchestration.foreground import Foreground, Interrupted
from tasks.orchestration.server.http_client import client_fault
from tasks.reports.command_line import OutputError

FOREVER_S = 366 * 86400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """RUN --timeout-minutes M, and the outputs."""
    parser.add_argument(
        "flow_run", metavar="RUN", help="the id of a flow run, or the address of its page in Prefect's UI"
    )
    add_timeout(parser)
    add_output_arguments(parser)
    add_logs(parser)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """How long to wait for the end."""
    parser.add_argument(
        "--timeout-minutes",
        type=float,
        metavar="M",
        help="wait at most this long (default: until the run ends). If the run has not finished by then, exit 3",
    )


def run(arguments: argparse.Namespace) -> int:
    """Follow the run, which continues if this command is interrupted."""
    found = run_id(arguments.flow_run)
    if found is None:
        return refuse(
            arguments,
            f"{arguments.flow_run!r:.200} is not a flow run. Give its id, or the address of its page in Prefect's UI.",
        )
    if said := NO_SERVER if not has_server() else client_fault():
        return refuse(arguments, said)
    try:
        limit_s = limit_of(arguments)
        require_writable(arguments)
        write_unjudged(arguments, "gate", UNENDED)
    except (OutputError, ValueError) as error:
        return refuse(arguments, str(error))
    with without_collection():
        from tasks.gate.progress import report_progress
        from tasks.orchestration.follow import FollowError, NoSuchRun, follow
        from tasks.orchestration.silence import late_requests

    try:
        with live_progress() as shown, late_requests(shown):
            ended = Foreground(lambda: follow(found, report_progress, limit_s), "the run continues").run()
    except NoSuchRun as error:
        return refuse(arguments, str(error))
    except FollowError as error:
        return no_verdict(arguments, str(error))
    except Interrupted as error:
        write_stderr(f"prelaunch: stopped watching; run {found} continues")
        return int(Exit.INTERRUPTED if error.number == signal.SIGINT else Exit.TERMINATED)
    return show(arguments, ended)


def run_id(text: str) -> UUID | None:
    """The id in an address or by itself; None for what holds none."""
    for part in reversed(text.rstrip("/").replace("?", "/").split("/")):
        try:
            return UUID(part)
        except ValueError:
            continue
    return None


def limit_of(arguments: argparse.Namespace) -> float:
    """The timeout in seconds. Raises ValueError."""
    minutes = arguments.timeout_minutes
    if minutes is None:
        return FOREVER_S
    if not 0 < minutes <= FOREVER_S / 60:
        raise ValueError(f"--timeout-minutes {minutes:g} must be greater than 0.")
    return float(minutes) * 60
