"""`prelaunch site monitoring`: what Prometheus needs."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from checks.command_line import InputError
from checks.exit_codes import Exit
from flows.cli.output import write_stderr, write_stdout
from flows.cli.shared_arguments import host_port
from tasks.gate_file.folder import typed_path
from tasks.gate_file.read import read_gate_file
from tasks.monitoring.config import SECRET, ConfigError, MonitoringSettings, ScrapeJob, rendered
from tasks.monitoring.targets import TargetsError, document, targets_of
from tasks.reports.command_line import OutputError, write_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions."""
    parser.description = "Writes what Prometheus needs to watch the declared nodes of a cluster. Exit codes: 0 written; 2 rejected."
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True, dest="action")
    text = "write the declared nodes as Prometheus' file of targets"
    _add_targets(actions.add_parser("targets", help=text, allow_abbrev=False))
    text = "write prometheus.yml, alertmanager.yml and the rules with your addresses"
    _add_config(actions.add_parser("config", help=text, allow_abbrev=False))


def _add_targets(parser: argparse.ArgumentParser) -> None:
    text = "gate files, or their names in the folder of gate files; one for each cluster"
    parser.add_argument("files", nargs="+", metavar="GATE_FILE", help=text)
    text = "the nodes of the cluster, also those that are down: NAME[=ADDRESS],... or Slurm's lists (ip-10-0-0-[1-4])"
    parser.add_argument("--nodes", default="", metavar="LIST", help=text)
    text = "no exporter for EFA runs on the nodes, though they have EFA devices"
    parser.add_argument("--without-efa", action="store_true", help=text)
    text = "replace this file as a whole (default: print it)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=text)
    parser.set_defaults(run_action=_targets)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write to")
    usual = MonitoringSettings
    addresses = (
        ("--prometheus", usual.prometheus, f"where Prometheus itself answers (default {usual.prometheus})"),
        ("--alertmanager", usual.alertmanager, f"default {usual.alertmanager}"),
        ("--exporter", usual.exporter, f"where prelaunch serve exporter answers (default {usual.exporter})"),
        ("--slurm", None, "the exporter of Slurm (default: none)"),
    )
    for name, address, text in addresses:
        parser.add_argument(name, type=host_port, default=address, metavar="HOST:PORT", help=text)
    for name, whom in (("on-call", "whoever repairs machines"), ("owner", "whoever runs the monitoring"),
                       ("heartbeat", "the service that notices when the heartbeat stops")):  # fmt: skip
        parser.add_argument(f"--{name}", required=True, metavar="URL", help=f"the webhook of {whom}")
    text = "also send to this address, such as AMPRemoteWriteURL"
    parser.add_argument("--remote-write", default="", metavar="URL", help=text)
    parser.add_argument("--region", default="", metavar="REGION", help="the AWS region of --remote-write")
    text = "another port than the usual one, such as efa=9100"
    parser.add_argument("--port", action="append", default=[], type=_port, metavar="JOB=PORT", help=text)
    parser.set_defaults(run_action=_config)


def run(arguments: argparse.Namespace) -> int:
    """Write the files."""
    try:
        return int(arguments.run_action(arguments))
    except (TargetsError, ConfigError) as error:
        raise InputError("site monitoring", str(error)) from error


def _targets(arguments: argparse.Namespace) -> Exit:
    if arguments.nodes and len(arguments.files) > 1:
        message = "--nodes is the list of one cluster. Write the targets of each gate file by itself."
        raise TargetsError(message)
    targets = [
        target
        for file in arguments.files
        for target in targets_of(
            read_gate_file(Path(typed_path(file))), arguments.nodes, arguments.without_efa
        )
    ]
    text = document(targets)
    if arguments.out is None:
        write_stdout(text)
        return Exit.GO
    write_file(arguments.out, text)
    write_stdout(f"{arguments.out}: {len(targets)} nodes\n")
    return Exit.GO


def _config(arguments: argparse.Namespace) -> Exit:
    files = rendered(
        MonitoringSettings(
            on_call=arguments.on_call, owner=arguments.owner, heartbeat=arguments.heartbeat,
            prometheus=arguments.prometheus, alertmanager=arguments.alertmanager, exporter=arguments.exporter,
            slurm=arguments.slurm or "",
            remote_write=arguments.remote_write, region=arguments.region, ports=dict(arguments.port),
        )
    )  # fmt: skip
    for name, text in files.items():
        path = arguments.out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(path.parent, f"it cannot be made ({error.strerror}).") from error
        write_file(path, text, 0o600 if name in SECRET else 0o644)
    written = [str(arguments.out / name) for name in files]
    write_stdout("".join(f"{name}\n" for name in written))
    write_stderr(
        f"prelaunch: write the targets to {arguments.out / 'targets'}: prelaunch site monitoring targets"
    )
    return Exit.GO


def _port(text: str) -> tuple[ScrapeJob, int]:
    job, _, port = text.partition("=")
    if job not in list(ScrapeJob) or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        message = f"{text!r:.40} is not JOB=PORT, where JOB is one of {', '.join(ScrapeJob)}"
        raise argparse.ArgumentTypeError(message)
    return ScrapeJob(job), int(port)
