"""`prelaunch check`: runs this node's checks now, prints a line as each ends, and then the verdict."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from checks.command_line import InputError, PlaceError
from checks.exit_codes import Exit
from checks.facts import person_options
from checks.facts.builtin import builtin
from checks.model import Profile
from checks.runner.journal import ReportWriteError
from checks.value_types import DecodeError
from flows.cli.output import (
    add_output_arguments,
    report_failure,
    require_writable,
    text_of,
    wants_colour,
    write_files,
    write_stderr,
    write_stdout,
)
from flows.cli.shared_arguments import add_policy
from tasks.render.context import verdict_context
from tasks.reports.command_line import OutputError, write_file
from tasks.reports.local_check import check_node, undeclared_error
from tasks.reports.read import declared_of, default_policy_of, exit_code, policy_of, require_policy_for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--instance-type T --profile P --policy FILE --out FILE, and the outputs."""
    text = "required: the instance type that this machine should be, such as cpu or p5.48xlarge"
    parser.add_argument("--instance-type", metavar="T", help=text)
    names = [profile.value for profile in Profile]
    text = "how thoroughly to check (default quick)"
    parser.add_argument("--profile", choices=names, default=Profile.QUICK.value, help=text)
    add_policy(parser, "(default: the shipped policy of the type)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the report, as input for judge")
    person_options.add_arguments(parser)
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check and judge; the exit code is the verdict's. Ctrl-C ends every check."""
    if arguments.instance_type is None:
        raise undeclared_error()
    require_writable(arguments)
    if arguments.out is not None:
        write_file(arguments.out, None)
    declared = declared_of(arguments.instance_type, 1)
    typed = policy_of(arguments.policy)
    if typed:
        require_policy_for(declared, typed, arguments.policy)
    policy, chosen = (
        (typed, str(arguments.policy)) if typed else default_policy_of(declared.instance_type, declared)
    )
    profile = Profile(arguments.profile)
    try:
        policy = person_options.with_options(policy, profile, arguments.option, declared.gpus_per_node)
    except DecodeError as error:
        raise InputError(error.path, error.reason, "", error.nearest) from error
    write_stderr(f"policy: {chosen}")
    keep = partial(_keep, arguments.out)
    try:
        report, verdict = check_node(
            declared, profile, policy, write_stderr, wants_colour(sys.stderr), keep, tuple(arguments.option)
        )
    except (ReportWriteError, PlaceError) as error:
        return report_failure(arguments.format, str(error), Exit.CANNOT_TELL)
    if arguments.verbose:
        write_stderr("\n".join(person_options.lines_of(report)))
    name = report.nodes[0].name if report.nodes else declared.instance_type
    context = verdict_context(report, policy, verdict, "local", facts=builtin())
    write_stdout(text_of(report, verdict, name, arguments.format, context))
    try:
        write_files(arguments, report, verdict, name, context)
    except OutputError as error:
        write_stderr(f"prelaunch: {error}")
    return exit_code(verdict)


def _keep(out: Path | None, data: bytes) -> None:
    """Write the report before anything is judged. If the disk filled up meanwhile the file is missing, not the verdict."""
    try:
        if out is not None:
            write_file(out, data.decode())
    except OutputError as error:
        write_stderr(f"prelaunch: {error}")
