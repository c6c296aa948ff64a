"""`prelaunch serve forms`: gate, commission, reap and remedy for the configured Prefect server, from this machine and this terminal.

It is for a laptop or for a trial: no work pool and no worker are needed. When it ends, its runs are cancelled and their jobs ended.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checks.exit_codes import Exit
from flows.cli.output import write_stderr, write_stdout
from flows.cli.prefect_server import NO_SERVER
from tasks.gate_file.folder import VARIABLE, folder_of, names_in
from tasks.orchestration.foreground import FlowInterrupted, Foreground, ignore_signals
from tasks.orchestration.server.http_client import client_fault, service_fault
from tasks.orchestration.server.settings import configured_api_url

if TYPE_CHECKING:
    from prefect.runner import Runner

NAME = "here"
LIMIT = 4
# What deployments/server/runner.env says to a worker: a run that is silent for three heartbeats is taken for dead.
SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_RUNNER_POLL_FREQUENCY": "2",
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--gates DIR, --limit N."""
    text = f"the gate files that the form offers (default: ${VARIABLE}, else deployments/gates)"
    parser.add_argument("--gates", metavar="DIR", type=Path, help=text)
    text = f"how many runs may run at the same time (default {LIMIT})"
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=text)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal ends it; returns 130 or 143 then, and 2 if it could not begin."""
    gates = {} if arguments.gates is None else {VARIABLE: str(arguments.gates.expanduser().absolute())}
    if message := _wrong(folder_of({**os.environ, **gates}), arguments.limit):
        write_stderr(f"prelaunch: {message}")
        return int(Exit.REJECTED)
    os.environ.update({**SETTINGS, **os.environ, **gates})  # for the processes of the runs
    try:
        # Prefect's runner keeps files in a folder of one name for all users of a machine: here it gets a folder of its own.
        with tempfile.TemporaryDirectory(prefix="prelaunch-serve-", ignore_cleanup_errors=True) as folder:
            tempfile.tempdir = folder
            Foreground(lambda: _serve(arguments.limit)).run()
    except FlowInterrupted as error:
        ignore_signals()
        write_stderr(
            "prelaunch: stopped serving. What still ran was cancelled, and its jobs were ended; what is ordered from now on waits "
            "for the next prelaunch serve forms"
        )
        return int(error.code)
    except Exception as error:
        if service_fault(error) is None:
            raise
        locked = getattr(getattr(error, "response", None), "status_code", 0) in (401, 403)
        reason = "the server requires a password. Set PREFECT_API_AUTH_STRING." if locked else error
        write_stderr(f"prelaunch: the Prefect server at {_url()} failed: {reason}")
        return int(Exit.NO_CAPACITY)
    finally:
        tempfile.tempdir = None
    return int(Exit.GO)


def _wrong(folder: Path | None, limit: int) -> str:
    """Why nothing can be served, with the remedy; "" if it can."""
    if not names_in(folder):
        return f"there is no gate file in {folder or 'no folder'}: name the folder of gate files with --gates DIR"
    if limit < 1:
        return f"--limit {limit}: at least one run at a time"
    return client_fault() if _url() else NO_SERVER


def _url() -> str | None:
    return configured_api_url(os.environ, Path.cwd())


async def _serve(limit: int) -> None:
    """Register the deployments and run what is ordered. Cancelled: cancel the runs, wait for them, and end."""
    from prefect.runner import Runner

    runner = Runner(name=NAME, limit=limit, pause_on_shutdown=False)
    for name, page in (await _deployments(runner)).items():
        write_stdout(f"{name}  {page}\n")
    sys.stdout.flush()
    write_stderr("prelaunch: serving. Ctrl-C stops it, and cancels all runs")
    serving = asyncio.create_task(runner.start())
    try:
        await asyncio.wait({serving})
    except asyncio.CancelledError:
        await _end(runner, serving)
        raise
    await serving


async def _deployments(runner: Runner) -> dict[str, str]:
    """The page of each deployment, by its name."""
    from prefect.types.entrypoint import EntrypointType
    from prefect.utilities.urls import url_for

    from flows.commission import commission
    from flows.gate import gate
    from flows.reap import reap
    from flows.remedy import remedy

    pages = {}
    flows: tuple[Any, ...] = (gate, commission, reap, remedy)
    for flow in flows:
        spec = await flow.ato_deployment(
            NAME, tags=["prelaunch", "served"], entrypoint_type=EntrypointType.MODULE_PATH
        )
        spec.entrypoint = (
            f"prelaunch.{flow.fn.__name__}"  # where a run begins, another package may be called flows
        )
        spec.work_pool_name = spec.work_queue_name = None  # said, so that an earlier pool is forgotten
        # Not runner.add_flow: that hands the flow's process a pickle of the function, without the types of its parameters.
        added_id = await runner.aadd_deployment(spec)
        pages[f"{flow.name}/{NAME}"] = url_for("deployment", obj_id=added_id) or str(added_id)
    return pages


async def _end(runner: Runner, serving: asyncio.Task[None]) -> None:
    """Cancel every run with its jobs, also one that is just being started."""
    if runner.started:
        await runner.astop()
    else:
        serving.cancel()
    await asyncio.wait({serving})
