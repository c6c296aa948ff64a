"""The Prefect server of a command that runs a flow in its own process: the configured one, or an embedded one."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path

from tasks.gate.progress import STARTING, Progress, report_progress
from tasks.orchestration.server.http_client import ask_no_proxy, client_fault, service_fault
from tasks.orchestration.server.server import EmbeddedServer, EnvironmentUnusable
from tasks.orchestration.server.settings import configured_api_url

NO_SERVER = (
    "no Prefect server is configured. Name its API, such as PREFECT_API_URL=http://127.0.0.1:4200/api, or start one first "
    "(prefect server start, or docs/server.md)"
)
# The command shows progress and result itself; Prefect's own lines are in its server.
QUIET = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL", "DO_NOT_TRACK": "1"}
# A process that says nothing for three of these is looked at: deployments/prefect.yaml, prelaunch-silent.
HEARTBEAT = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}


def start_server(local: Path, stack: ExitStack) -> EmbeddedServer | None:
    """Start the embedded server if nobody configured another one. Raises ServerError."""
    os.environ.update({key: value for key, value in QUIET.items() if key not in os.environ})
    configured = configured_api_url(os.environ, Path.cwd())
    if message := client_fault(proxied=bool(configured)):
        raise EnvironmentUnusable(message)
    if configured:
        os.environ.update({key: value for key, value in HEARTBEAT.items() if key not in os.environ})
        os.environ["PREFECT_API_URL"] = configured  # Prefect is not asked again
        return None
    report_progress(
        Progress(STARTING, "no Prefect server is configured (PREFECT_API_URL): the gate starts its own")
    )
    # What this process could not tell a server that ends with it is in nobody's way: Prefect prints it in between.
    stack.callback(setattr, logging, "raiseExceptions", logging.raiseExceptions)
    logging.raiseExceptions = False
    server = EmbeddedServer(local)
    stack.callback(server.stop)
    server.start()
    os.environ.update(server.client_environment())
    return server


def wait_for_server(server: EmbeddedServer | None) -> None:
    """Once Prefect is imported: return when the embedded server, if this is one, answers. Raises ServerError."""
    if server is not None:
        ask_no_proxy()
        server.wait_ready()


def fault_text(error: BaseException, server: EmbeddedServer | None = None) -> str:
    """What is wrong with the Prefect server, where that failed and not our code; else ""."""
    fault = service_fault(error)
    url = configured_api_url(os.environ, Path.cwd()) or ""
    if fault is None or (server is None and not url):
        return "" if fault is None else f"the Prefect server failed: {fault}"
    if server is not None:
        return f"the command's own Prefect server failed: {fault}. Its log is {server.log}."
    from tasks.orchestration.follow import unanswered

    return unanswered(url, fault)
