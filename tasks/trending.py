"""Reports over time, as a command line names them: which machines get worse, and the exit code that says so."""

from __future__ import annotations

from collections.abc import Sequence

from checks.courses import Trend
from checks.decode import DecodeError
from checks.policy import Policy
from checks.report import digest, load
from checks.trend import Dated
from tasks.baselining import Unreadable
from tasks.exits import Exit
from tasks.inputs import default_of, no_report, read_input


def dated_of(files: Sequence[str], policy: Policy | None) -> tuple[list[Dated], list[Unreadable]]:
    """The reports, and what is none. Raises InputError for a file that is not there."""
    dated: list[Dated] = []
    bad: list[Unreadable] = []
    for file in files:
        path, data = read_input(file)
        try:
            report = load(data)
        except DecodeError as error:
            bad.append(Unreadable(path, no_report(data, error)))
            continue
        rules = policy or default_of(report.declared.instance_type)[0]
        dated.append(Dated(report, digest(data), rules))
    return dated, bad


def trend_code(trend: Trend, bad: Sequence[Unreadable]) -> int:
    """1 where something gets worse; else 3 where of some machine, or some file, nobody can tell; else 0."""
    if any(machine.worse for machine in trend.machines):
        return int(Exit.NO_GO)
    unknown = bad or not trend.machines or any(not machine.told for machine in trend.machines)
    return int(Exit.CANNOT_TELL if unknown else Exit.GO)
