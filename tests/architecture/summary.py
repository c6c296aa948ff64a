"""What stands at the end of each run of the tests: the fault corpus, and the time of each folder."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Iterable

import pytest

from tests.architecture.corpus_count import counted

CPU = "cpu_s"
_spent: list[float] = []  # at the last report


def cpu_s() -> float:
    """The CPU time of this process, with that of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_runtest_logstart() -> None:
    """Before the first test this process has collected them all, which is no test's time."""
    if not _spent:
        _spent.append(cpu_s())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the CPU time since the report before."""
    report = yield
    _spent.append(cpu_s())
    report.user_properties.append((CPU, _spent[-1] - _spent.pop(0)))
    return report


def seconds_by_folder(reports: Iterable[pytest.TestReport]) -> tuple[str, ...]:
    """The seconds that the tests of each folder below tests/ took, set-up and teardown included, and those of CPU; the most CPU first.

    Of tests that ran side by side the sum is longer than the run. Programs that left their parent, such as a daemon, are in no sum.
    """
    seconds, tests, spent = (
        defaultdict[str, float](float),
        defaultdict[str, set[str]](set),
        defaultdict[str, float](float),
    )
    for report in reports:
        parts = report.nodeid.partition("::")[0].split("/")
        folder = "/".join(parts[1:3]) if parts[1] in ("checks", "flows", "tasks") else parts[1]
        folder = folder.removesuffix(f"/{parts[-1]}")
        seconds[folder] += report.duration
        spent[folder] += sum(float(str(value)) for name, value in report.user_properties if name == CPU)
        tests[folder].add(report.nodeid)
    rows = sorted(seconds, key=lambda folder: -spent[folder])
    return tuple(
        f"{seconds[folder]:8.1f} s {spent[folder]:8.1f} s of CPU {len(tests[folder]):6d} tests  {folder}"
        for folder in rows
    )


def what_long_tests_prove(items: Iterable[pytest.Item]) -> tuple[str, ...]:
    """What `make test` leaves to `make test-long`: each long test with the first line of its docstring."""
    said: dict[str, str] = {}
    for item in items:
        if item.get_closest_marker("long") and isinstance(item, pytest.Function):
            said[item.nodeid.partition("[")[0]] = (item.function.__doc__ or "").partition("\n")[0]
    return tuple(f"{name}: {line}" for name, line in said.items())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print it."""
    all_reports = [
        report
        for outcome in ("passed", "failed", "skipped", "")
        for report in terminalreporter.stats.get(outcome, [])
        if isinstance(report, pytest.TestReport)
    ]
    ran = [report for report in all_reports if report.when == "call" and not report.skipped]
    if line := counted(ran):
        terminalreporter.write_line(line)
    session = getattr(terminalreporter, "_session", None)
    if terminalreporter.config.getoption("markexpr") == "long" and session is not None:
        terminalreporter.section("what make test does not cover")
        for line in what_long_tests_prove(session.items):
            terminalreporter.write_line(line)
    if len(ran) > 1:
        terminalreporter.section("seconds by folder")
        for line in seconds_by_folder(all_reports):
            terminalreporter.write_line(line)
