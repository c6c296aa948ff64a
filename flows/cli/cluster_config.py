"""`prelaunch cluster-config`: the configuration of a cluster of AWS ParallelCluster, and the commands that make the cluster."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from checks.documents.report import plain
from checks.exit_codes import Exit
from flows.cli.output import json_text, rejection, write_stderr, write_stdout
from flows.cli.rejection import report_rejection
from tasks.launchers.base import LaunchError
from tasks.launchers.node_code import node_zipapp
from tasks.parallelcluster.commands import Command, cluster_commands
from tasks.parallelcluster.document import cluster_yaml
from tasks.parallelcluster.settings import INPUTS, ClusterSettings, Part, SettingsError, cluster_settings
from tasks.parallelcluster.validation import (
    OPTION,
    VALIDATION_S,
    VARIABLE,
    InterpreterError,
    State,
    Validation,
    pcluster_python,
    validated,
)
from tasks.reports.command_line import OutputError, write_file
from tasks.reports.read import InputError

REPLACEMENT = (
    "ParallelCluster replaces a static node as soon as it is drained and idle. "
    "Copy what you need from a node before you drain it."
)
_STATES = {
    State.PASSED: Exit.GO,
    State.REFUSED: Exit.NO_GO,
    State.NOT_VALIDATED: Exit.CANNOT_TELL,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """An option for each value, and what the cluster lacks."""
    parser.description = (
        "Writes the configuration of a cluster of AWS ParallelCluster that is ready for a gate, has aws-parallelcluster's own schema "
        "validate it without a call to AWS, and prints the commands that create the cluster. Each value comes from an option or from "
        "the variable that is named with it; where both are set they must be equal. "
        "Exit codes: 0 written and validated; 1 ParallelCluster refuses it, and nothing was written; 2 a value is unset, empty, wrong "
        "or contradicts another; 3 written, but nothing could validate it."
    )
    for item in INPUTS:
        source = f" (variable {item.variable})" if item.variable else ""
        default = f" (default {item.default})" if item.default else ""
        parser.add_argument(item.option, metavar="VALUE", help=f"{item.meaning}{source}{default}")
    parser.add_argument(
        "--without", action="append", default=[], choices=[part.value for part in Part],
        help="the cluster has no such part, and its variable must not be set; can be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--capacity-block", action="store_true", help="the reservation is a Capacity Block for ML"
    )
    parser.add_argument(
        "--rollback-on-failure", choices=("true", "false"),
        help="print this option of create-cluster as well; false keeps what a failed creation has made, so that you can look at it",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="replace this file as a whole (default NAME.yaml)"
    )
    parser.add_argument(
        OPTION, default="", metavar="FILE",
        help=f"the Python of aws-parallelcluster (variable {VARIABLE}; default: that of the `pcluster` on PATH)",
    )  # fmt: skip
    parser.add_argument(
        "--deadline-s", type=_seconds, default=VALIDATION_S, metavar="SECONDS",
        help=f"how long the validation may take (default {VALIDATION_S:g})",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="format of stdout (default text)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the configuration; returns the exit code."""
    try:
        settings = cluster_settings(
            {item.field: getattr(arguments, item.field) for item in INPUTS},
            os.environ,
            frozenset(Part(name) for name in arguments.without),
            arguments.capacity_block,
        )
        python = pcluster_python(arguments.pcluster_python, os.environ)
        text = cluster_yaml(settings, hashlib.sha256(node_zipapp()).hexdigest())
        file = arguments.out or Path(f"{settings.name}.yaml")
        write_file(file, None)
        validation = validated(text, settings.name, python, arguments.deadline_s)
        if validation.state is not State.REFUSED:
            write_file(file, text)
    except SettingsError as error:
        return _reject(arguments.format, error)
    except (InterpreterError, LaunchError) as error:
        return report_rejection(arguments.format, InputError("cluster-config", str(error)))
    except OutputError as error:
        return report_rejection(arguments.format, error)
    _report(arguments, settings, file, validation)
    return int(_STATES[validation.state])


def _reject(form: str, error: SettingsError) -> int:
    """One line for each value; returns exit code 2."""
    if form == "json":
        write_stdout(json_text(rejection(None, None, str(error))))
    for problem in error.problems:
        write_stderr(f"prelaunch: {problem}")
    return int(Exit.REJECTED)


def _report(
    arguments: argparse.Namespace, settings: ClusterSettings, file: Path, validation: Validation
) -> None:
    rollback = {"true": True, "false": False}.get(arguments.rollback_on_failure)
    is_written = validation.state is not State.REFUSED
    commands = cluster_commands(settings, file, rollback) if is_written else ()
    if arguments.format == "json":
        document = {
            "written": str(file) if is_written else None,
            "validation": plain(validation),
            "commands": [{"purpose": command.purpose, "line": command.line} for command in commands],
            "error": None,
        }
        write_stdout(json_text(document))
    else:
        write_stdout(_text(commands))
    for line in _remarks(settings, file, validation):
        write_stderr(f"prelaunch: {line}")


def _text(commands: Sequence[Command]) -> str:
    return "\n".join(f"# {command.purpose}\n{command.line}\n" for command in commands)


def _remarks(settings: ClusterSettings, file: Path, validation: Validation) -> list[str]:
    """What a person has to know, one sentence or two in a line."""
    if validation.state is State.REFUSED:
        refusals = [f"{validation.package} refuses: {problem}" for problem in validation.problems]
        older = " The file of that name is an older one." if file.exists() else ""
        return [*refusals, f"{file} was not written.{older}"]
    lines = [f"warning of {validation.package}: {warning}" for warning in validation.warnings]
    lines.append(f"{file}: {settings.nodes} nodes of {settings.instance_type}. {_evidence(validation)}")
    if not settings.scripts:
        lines.append("Without scripts, no prolog checks a node before a job, and no watch runs on the nodes.")
    return [*lines, REPLACEMENT]


def _evidence(validation: Validation) -> str:
    if validation.state is State.NOT_VALIDATED:
        return f"It was NOT validated: {' '.join(validation.problems)}"
    if validation.passed is None:
        return f"The schema of {validation.package} accepts it. This version's further rules were not run; --dryrun true runs them."
    return (
        f"The schema of {validation.package} and {validation.passed} of its rules accept it. "
        f"What needs an answer of AWS was not asked ({len(validation.unasked)} rules); --dryrun true asks it."
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number of seconds from 1 to 600")
    return seconds
