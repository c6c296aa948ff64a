"""Baselines for the command line: the reports that they are learned from, and the file that they are written to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from checks.command_line import InputError
from checks.documents.report import digest
from checks.documents.report import load as load_report
from checks.facts.builtin import builtin
from checks.judge.baseline.learn import ReportCase
from checks.judge.verdict import decide
from checks.policy import Policy
from checks.value_types import DecodeError
from tasks.reports.command_line import write_file
from tasks.reports.read import default_policy_of, not_a_report, policy_of
from tasks.reports.store_argument import inputs_of


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
