"""`prelaunch fleet baseline learn REPORT... --out FILE` and `show FILE`: the values that this site's own machines reached."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from checks.command_line import InputError
from checks.documents.report import digest, plain_table
from checks.documents.report import load as load_report
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.judge.baseline.bands import Baseline, digest_of, dump
from checks.judge.baseline.learn import LEAST_VALUES, ReportCase, learn
from checks.judge.verdict import decide
from checks.policy import Policy
from checks.value_types import DecodeError
from flows.cli.fleet import say_cluster
from flows.cli.output import json_text, rejection, write_result, write_stderr, write_stdout
from flows.cli.shared_arguments import add_cluster, add_force, add_format, add_reports
from tasks.gate_file.references import read_baseline
from tasks.reports.command_line import write_file
from tasks.reports.listings import baseline_text
from tasks.reports.read import default_policy_of, not_a_report, policy_of
from tasks.reports.store_argument import NoReports, inputs_of, policy_notes, require_reports


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two actions."""
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True, dest="action")
    teach = actions.add_parser("learn", help="learn a baseline from reports", allow_abbrev=False)
    teach.description = (
        "Learns the usual range and the median of every speed and latency. Failed nodes and checks are left "
        "out; they and all outliers are listed. Exit codes: 0 learned, 2 rejected (also: a file is not a report), 3 nothing "
        "written: nothing could be learned, 5 the store failed."
    )
    add_reports(teach, "decides which nodes are healthy")
    teach.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where to write the baseline (JSON)"
    )
    add_force(teach)
    add_cluster(teach)
    show = actions.add_parser("show", help="print a baseline", allow_abbrev=False)
    show.add_argument("file", type=Path, metavar="FILE", help="a baseline file")
    for action, run_action in ((teach, _learn), (show, _show)):
        add_format(action)
        action.set_defaults(run_action=run_action)


def run(arguments: argparse.Namespace) -> int:
    """Learn or show."""
    return int(arguments.run_action(arguments))


def _learn(arguments: argparse.Namespace) -> int:
    require_free(arguments.out, arguments.force)
    try:
        require_reports(arguments.reports)
    except NoReports as error:
        text = f"{error} Each range needs {LEAST_VALUES} values from healthy machines: run gates first, or name reports."
        return _nothing(arguments, error.file, text)
    cases = cases_of(arguments.reports, policy_of(arguments.policy), arguments.cluster)
    say_cluster(arguments.reports, arguments.cluster)
    for line in () if arguments.policy else policy_notes(arguments.reports):
        write_stderr(line)
    baseline = learn(cases)
    if not any(group.bands for group in baseline.groups):
        if arguments.format == "text":
            write_stdout(baseline_text(baseline))
        text = f"nothing could be learned. Each range needs {LEAST_VALUES} values from healthy machines. Give more reports."
        return _nothing(arguments, None, text)
    write_file(arguments.out, dump(baseline).decode())
    _print(arguments, baseline)
    write_stderr(f"baseline: {arguments.out}, SHA-256 {digest_of(baseline)}")
    return int(Exit.GO)


def _show(arguments: argparse.Namespace) -> int:
    _print(arguments, read_baseline(arguments.file))
    return int(Exit.GO)


def _print(arguments: argparse.Namespace, baseline: Baseline) -> None:
    write_result(arguments.format, plain_table(baseline), baseline_text(baseline))


def _nothing(arguments: argparse.Namespace, file: str | None, message: str) -> int:
    if arguments.format == "json":
        write_stdout(json_text(rejection(file, None, message)))
    write_stderr(f"prelaunch: no baseline was written: {message}")
    return int(Exit.CANNOT_TELL)


def cases_of(files: Sequence[str], policy: Policy | None, cluster: str | None = None) -> list[ReportCase]:
    """Each report, judged by this policy; without one by that of the gate file, or else the shipped one of its type. `cluster` is as
    in `inputs_of`. Raises InputError for what is not there or is no report, StoreError.
    """
    cases: list[ReportCase] = []
    for source in inputs_of(files, cluster):
        try:
            report = load_report(source.data)
        except DecodeError as error:
            message = f"it is not a report of Prelaunch: {not_a_report(source.data, error)}. Leave it out, or measure again."
            raise InputError(source.name, message) from error
        declared = report.declared
        rules = policy or policy_of(source.policy) or default_policy_of(declared.instance_type, declared)[0]
        cases.append(
            ReportCase(report, decide(report, rules, builtin(), report_digest=digest(source.data)), rules)
        )
    return cases


def require_free(path: Path, force: bool) -> None:
    """Raise InputError for a file that is there already, OutputError for one that could not be written."""
    if os.path.lexists(path) and not force:
        raise InputError(path, "the file exists already. Choose another --out, or replace it with --force.")
    write_file(path, None)
