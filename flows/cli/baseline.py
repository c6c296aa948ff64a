"""`prelaunch baseline learn REPORT... --out FILE` and `baseline show FILE`: what this site's own machines showed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from checks.bands import Baseline, digest_of
from checks.learn import LEAST_VALUES
from checks.report import plain
from flows.cli.output import Exit, OutputError, json_text, rejection, write_stderr, write_stdout
from flows.cli.rejected import rejected
from tasks.baselining import cases_of, learned, read_baseline, require_free, write_baseline
from tasks.inputs import InputError, policy_of
from tasks.render.bands import baseline_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two actions."""
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True, dest="action")
    learn = actions.add_parser("learn", help="make a baseline of reports", allow_abbrev=False)
    learn.description = (
        "Learns a band for every speed and latency, each with its median. Nodes and checks that failed are not learned "
        "from; they and all outliers are named. Exit codes: 0 learned, 2 rejected, 3 nothing written: a file is no "
        "report, or nothing could be learned."
    )
    learn.add_argument(
        "reports", nargs="+", metavar="REPORT", help="a file, a folder that holds one, - for stdin"
    )
    learn.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where the baseline goes (JSON)"
    )
    learn.add_argument("--force", action="store_true", help="replace FILE")
    learn.add_argument(
        "--policy", type=Path, metavar="FILE",
        help="TOML or JSON: who is fit to be learned from (default: the shipped one of the declared type)",
    )  # fmt: skip
    show = actions.add_parser("show", help="what a baseline knows", allow_abbrev=False)
    show.add_argument("file", type=Path, metavar="FILE", help="a baseline")
    for action, run_action in ((learn, _learn), (show, _show)):
        action.add_argument(
            "--format", choices=("text", "json"), default="text", help="what stdout gets (default text)"
        )
        action.set_defaults(run_action=run_action)


def run(arguments: argparse.Namespace) -> int:
    """Learn or show."""
    try:
        return int(arguments.run_action(arguments))
    except (InputError, OutputError) as error:
        return rejected(arguments.format, error)


def _learn(arguments: argparse.Namespace) -> int:
    require_free(arguments.out, arguments.force)
    cases, bad = cases_of(arguments.reports, policy_of(arguments.policy))
    for one in bad:
        write_stderr(f"prelaunch: {one.file}: it is no report of Prelaunch: {one.reason}")
    if bad:
        return _nothing(
            arguments,
            bad[0].file,
            f"it is no report of Prelaunch: {bad[0].reason}. Leave it out, or measure again.",
        )
    made = learned(cases)
    if not any(group.bands for group in made.groups):
        if arguments.format == "text":
            write_stdout(baseline_text(made))
        said = f"nothing could be learned. A band needs {LEAST_VALUES} values of machines that are fit: give more reports."
        return _nothing(arguments, None, said)
    write_baseline(arguments.out, made)
    _print(arguments, made)
    write_stderr(f"baseline: {arguments.out}, SHA-256 {digest_of(made)}")
    return int(Exit.GO)


def _show(arguments: argparse.Namespace) -> int:
    _print(arguments, read_baseline(arguments.file))
    return int(Exit.GO)


def _print(arguments: argparse.Namespace, baseline: Baseline) -> None:
    as_json = arguments.format == "json"
    write_stdout(json_text(cast(dict[str, object], plain(baseline))) if as_json else baseline_text(baseline))


def _nothing(arguments: argparse.Namespace, file: str | None, message: str) -> int:
    if arguments.format == "json":
        write_stdout(json_text(rejection(file, None, message)))
    write_stderr(f"prelaunch: no baseline was written: {message}")
    return int(Exit.CANNOT_TELL)
