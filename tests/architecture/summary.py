"""What stands at the end of each run of the tests: the fault corpus, the healthy worlds, and the time of each folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

from tests.architecture.corpus_count import counted
from tests.worlds import table


def seconds_by_folder(reports: Iterable[pytest.TestReport]) -> tuple[str, ...]:
    """The seconds that the tests of each folder below tests/ took, set-up and teardown included; the longest first.

    Of tests that ran side by side the sum is longer than the run.
    """
    seconds, tests = defaultdict[str, float](float), defaultdict[str, set[str]](set)
    for report in reports:
        parts = report.nodeid.partition("::")[0].split("/")
        folder = "/".join(parts[1:3]) if parts[1] in ("checks", "flows", "tasks") else parts[1]
        folder = folder.removesuffix(f"/{parts[-1]}")
        seconds[folder] += report.duration
        tests[folder].add(report.nodeid)
    rows = sorted(seconds, key=lambda folder: -seconds[folder])
    return tuple(f"{seconds[folder]:8.1f} s {len(tests[folder]):6d} tests  {folder}" for folder in rows)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print it."""
    all_reports = [
        report
        for outcome in ("passed", "failed", "skipped", "")
        for report in terminalreporter.stats.get(outcome, [])
        if isinstance(report, pytest.TestReport)
    ]
    ran = [report for report in all_reports if report.when == "call" and not report.skipped]
    for line in (counted(ran), *table.printed(ran)):
        if line:
            terminalreporter.write_line(line)
    if len(ran) > 1:
        terminalreporter.section("seconds by folder")
        for line in seconds_by_folder(all_reports):
            terminalreporter.write_line(line)
