"""`prelaunch serve slack [CONFIG]`: handles the buttons and /prelaunch of one Slack workspace until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path

from checks.command_line import InputError
from checks.exit_codes import Exit
from flows.cli.output import write_stderr
from flows.cli.prefect_server import NO_SERVER
from tasks.orchestration.server.settings import configured_api_url
from tasks.slackbot.config import Config, read_config

DEFAULT = "deployments/slack.toml"
# A person waits for an answer: what a dead server costs is one try of ten seconds.
SETTINGS = {
    "PREFECT_CLIENT_MAX_RETRIES": "1",
    "PREFECT_API_REQUEST_TIMEOUT": "10",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[CONFIG] --check."""
    parser.description = (
        "Connects to Slack by Socket Mode (no inbound port) and to the Prefect server of PREFECT_API_URL. It serves the "
        "buttons of questions and the command /prelaunch, starts deployments from the list in CONFIG, and runs no gate "
        "itself. It ends on SIGTERM or SIGINT."
    )
    parser.epilog = (
        "exit codes: 0 CONFIG is valid (--check), 2 the configuration is wrong, 5 Slack or Prefect cannot be reached, 130 and 143 "
        "ended by SIGINT or SIGTERM"
    )
    text = f"the file that lists gates and who may start them (default {DEFAULT})"
    parser.add_argument("config", nargs="?", default=DEFAULT, metavar="CONFIG", help=text)
    parser.add_argument("--check", action="store_true", help="only check CONFIG and the files that it names")


def run(arguments: argparse.Namespace) -> int:
    """Serve; returns only where it could not."""
    config = read_config(Path(arguments.config))
    if arguments.check:
        write_stderr(f"prelaunch: {arguments.config} is valid: {len(config.gates)} gate(s)")
        return int(Exit.GO)
    if not configured_api_url(os.environ, Path.cwd()):
        raise InputError("serve slack", NO_SERVER)
    os.environ.update({key: value for key, value in SETTINGS.items() if key not in os.environ})
    return _serve(config)


def _serve(config: Config) -> int:
    from tasks.slackbot.process import SlackAppError, SlackProcess, log_to_stderr

    log_to_stderr()
    never = threading.Event()
    try:
        with SlackProcess(config):
            while True:
                never.wait(3600)
    except SlackAppError as error:
        write_stderr(f"prelaunch: {error}")
        return int(Exit.REJECTED if error.rejected else Exit.NO_CAPACITY)
