"""`prelaunch plan FILE`: what a gate would run, as a person could start it. Starts and writes nothing."""

from __future__ import annotations

import argparse
import shlex

from checks.report import plain
from flows.cli.output import Exit, json_text, rejection, write_stderr, write_stdout
from tasks.gateread import GateFileError
from tasks.jobs import planned_jobs
from tasks.launchers.base import LaunchError, Request
from tasks.request import Advanced, GateRequest
from tasks.setting import open_setting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE --set a.b=value --format text|json."""
    add_gate_arguments(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="what stdout gets (default text)"
    )


def add_gate_arguments(parser: argparse.ArgumentParser) -> None:
    """What names a gate."""
    parser.add_argument("file", metavar="FILE", help="a gate file, such as deployments/gates/local.toml")
    parser.add_argument(
        "--set", action="append", default=[], metavar="A.B=VALUE", dest="overrides",
        help="change a value of the gate file; commands and paths cannot be changed",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Print the requests of both jobs; exit code 0, or 2 for a gate file that is wrong."""
    try:
        request = GateRequest(gate_file=arguments.file, advanced=Advanced(overrides=arguments.overrides))
        setting = open_setting(request)
        requests = [r for job in planned_jobs(setting) for r in setting.launcher.plan(job).requests]
    except (GateFileError, LaunchError) as error:
        return reject(arguments.format, error)
    if arguments.format == "json":
        write_stdout(json_text({"requests": plain(requests)}))
    else:
        write_stdout("\n".join(_text(item) for item in requests))
    return int(Exit.GO)


def reject(form: str, error: Exception) -> int:
    """Say why nothing was started: one line on stderr, and the document where JSON was asked."""
    if form == "json":
        if isinstance(error, GateFileError):
            document = rejection(error.file, error.path, error.message, error.nearest)
        else:
            document = rejection(None, None, str(error), None)
        write_stdout(json_text(document))
    write_stderr(f"prelaunch: {error}")
    return int(Exit.REJECTED)


def _text(request: Request) -> str:
    environment = "".join(
        f"    {key}={shlex.quote(value)} \\\n" for key, value in request.environment.items()
    )
    command = shlex.join(request.argv)
    folder = shlex.quote(request.working_directory)
    return f"# {request.name} on {request.node}\ncd {folder} && \\\n{environment}    {command}\n"
