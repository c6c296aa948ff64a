"""`prelaunch site slurm`: what a Slurm cluster can do for jobs: srun, enroot and pyxis, each run on some nodes."""

from __future__ import annotations

import argparse

from checks.command_line import InputError
from checks.exit_codes import Exit
from flows.cli.output import json_text, write_stdout
from flows.cli.shared_arguments import add_format, whole_number
from tasks.launchers.slurm.cluster_checks import IMAGE, NAMES, SlurmOutcome, run_checks
from tasks.launchers.slurm.commands import MissingCommand

# The worst counts, in this order. What is not installed could not be checked.
CODES = {
    SlurmOutcome.FAILS: Exit.NO_GO,
    SlurmOutcome.MISSING: Exit.CANNOT_TELL,
    SlurmOutcome.UNSEEN: Exit.CANNOT_TELL,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[CHECK...] --nodes N --partition P --account A --image I --format text|json."""
    parser.epilog = (
        "exit codes: 0 all checks passed, 1 one failed, 2 Slurm is not installed here, 3 one could not run"
    )
    add = parser.add_argument
    add("checks", nargs="*", metavar="CHECK", default=[], help=f"{', '.join(NAMES)} (default: all of them)")
    add("-N", "--nodes", type=whole_number, default=2, metavar="N", help="on how many nodes (default 2)")
    add("-p", "--partition", default="", metavar="P", help="the partition (default: Slurm's)")
    add("-A", "--account", default="", metavar="A", help="the account (default: Slurm's)")
    add("--image", default=IMAGE, metavar="IMAGE", help=f"the image that pyxis starts (default {IMAGE})")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print a line per check; exit code 1 if one fails, 3 if one could not run, 2 if this is no machine with Slurm."""
    unknown = [name for name in arguments.checks if name not in NAMES]
    if unknown:
        message = f"{unknown[0]!r:.80} is no check of a cluster. The checks are: {', '.join(NAMES)}"
        raise InputError("command line", message)
    options = {"partition": arguments.partition, "account": arguments.account}
    flags = tuple(f"--{name}={value}" for name, value in options.items() if value)
    checks = []
    try:
        for check in run_checks(arguments.checks or NAMES, arguments.nodes, flags, arguments.image):
            checks.append(check)
            if arguments.format == "text":
                write_stdout(f"{check.text}\n")
    except MissingCommand as error:
        raise InputError("Slurm", str(error)) from error
    if arguments.format == "json":
        entries = [{**vars(check), "outcome": check.outcome.value} for check in checks]
        write_stdout(json_text({"checks": entries}))
    outcomes = {check.outcome for check in checks}
    return int(next((code for outcome, code in CODES.items() if outcome in outcomes), Exit.GO))
