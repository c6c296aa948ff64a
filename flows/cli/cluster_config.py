"""`prelaunch cluster-config`: the configuration of a cluster of AWS ParallelCluster, and the commands that make the cluster."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
from pathlib import Path

from checks.exit_codes import Exit
from flows.cli.output import write_stderr, write_stdout
from tasks.launchers.base import LaunchError
from tasks.launchers.node_code import node_zipapp
from tasks.parallelcluster.template import PATTERNS, TEMPLATE, TemplateError, cluster_commands, filled
from tasks.parallelcluster.validation import pcluster_python, validated
from tasks.reports.command_line import write_file
from tasks.reports.read import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TEMPLATE, the cluster's name, and the file to write."""
    parser.description = (
        f"Fills a template with the variables of the environment ({', '.join(PATTERNS)} in the shipped one), has "
        "aws-parallelcluster's own schema validate it without a call to AWS, and prints the commands that create the cluster. "
        "Exit codes: 0 written and validated; 1 ParallelCluster refuses it, and nothing was written; 2 a variable is unset, empty or "
        "wrong; 3 written, but nothing could validate it."
    )
    parser.add_argument(
        "template", type=Path, nargs="?", default=TEMPLATE, metavar="TEMPLATE",
        help="a copy of deployments/parallelcluster/cluster.yaml that you changed (default: the shipped one)",
    )  # fmt: skip
    parser.add_argument(
        "--name", default="ml-cluster", type=_name, help="the cluster's name (default ml-cluster)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="replace this file as a whole (default NAME.yaml)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the configuration; returns the exit code."""
    name, file = arguments.name, arguments.out or Path(f"{arguments.name}.yaml")
    try:
        template = arguments.template.read_text(encoding="utf-8")
        text = filled(template, os.environ, hashlib.sha256(node_zipapp()).hexdigest())
        write_file(file, None)
        validation = validated(text, name, pcluster_python(os.environ))
        if not validation.refused:
            write_file(file, text)
    except TemplateError as error:
        for problem in error.problems:
            write_stderr(f"prelaunch: {problem}")
        return int(Exit.REJECTED)
    except (LaunchError, OSError, UnicodeDecodeError) as error:
        raise InputError("cluster-config", str(error)) from error
    for problem in validation.refused:
        write_stderr(f"prelaunch: {validation.package} refuses: {problem}")
    if validation.refused:
        older = " The file of that name is an older one." if file.exists() else ""
        write_stderr(f"prelaunch: {file} was not written.{older}")
        return int(Exit.NO_GO)
    write_stdout(cluster_commands(name, file, os.environ))
    if not validation.package:
        write_stderr(f"prelaunch: {file} was written, and was NOT validated: {validation.unknown}")
        return int(Exit.CANNOT_TELL)
    write_stderr(
        f"prelaunch: {file}: the schema of {validation.package} accepts it. --dryrun true asks AWS for the rest."
    )
    return int(Exit.GO)


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,59}", text):
        raise argparse.ArgumentTypeError(
            f"{text!r:.80} is not a name of at most 60 letters, digits and hyphens"
        )
    return text
