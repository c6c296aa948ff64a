"""`prelaunch site parallelcluster`: the configuration of a cluster of AWS ParallelCluster, and the commands that make the cluster."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
from pathlib import Path

from checks.command_line import InputError
from checks.exit_codes import Exit
from flows.cli.output import write_stderr, write_stdout
from tasks.launchers.node_code import node_zipapp
from tasks.parallelcluster.template import PATTERNS, TEMPLATE, TemplateError, cluster_commands, filled
from tasks.reports.command_line import write_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TEMPLATE, the cluster's name, and the file to write."""
    parser.description = (
        f"Fills a template with the variables of the environment ({', '.join(PATTERNS)} in the shipped one), and prints the commands "
        "that have ParallelCluster validate it and create the cluster. Exit codes: 0 written; 2 a variable is unset, empty or wrong."
    )
    text = "a copy of deployments/parallelcluster/cluster.yaml that you changed (default: the shipped one)"
    parser.add_argument("template", type=Path, nargs="?", default=TEMPLATE, metavar="TEMPLATE", help=text)
    text = "the cluster's name (default ml-cluster)"
    parser.add_argument("--name", default="ml-cluster", type=_name, help=text)
    text = "replace this file as a whole (default NAME.yaml)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=text)


def run(arguments: argparse.Namespace) -> int:
    """Write the configuration; returns the exit code."""
    name, file = arguments.name, arguments.out or Path(f"{arguments.name}.yaml")
    try:
        template = arguments.template.read_text(encoding="utf-8")
        write_file(file, filled(template, os.environ, hashlib.sha256(node_zipapp()).hexdigest()))
    except TemplateError as error:
        for problem in error.problems:
            write_stderr(f"prelaunch: {problem}")
        return int(Exit.REJECTED)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("site parallelcluster", str(error)) from error
    write_stdout(cluster_commands(name, file, os.environ))
    write_stderr(
        f"prelaunch: {file} was written. The printed dry run has ParallelCluster and AWS validate it."
    )
    return int(Exit.GO)


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,59}", text):
        message = f"{text!r:.80} is not a name of at most 60 letters, digits and hyphens"
        raise argparse.ArgumentTypeError(message)
    return text
