"""`prelaunch trend REPORT...|STORE`: which values get worse on which machine, over all reports that are given."""

from __future__ import annotations

import argparse

from checks.judge.trend.model import Trend
from checks.judge.trend.trend import trend
from checks.model import ANSWER_WORDS, Answer
from flows.cli.fleet import say_cluster
from flows.cli.options import add_cluster, add_format, add_reports
from flows.cli.output import json_text, write_stderr, write_stdout
from tasks.render.trend_text import trend_document, trend_text
from tasks.reports.baseline import UnreadableReport, reports_of
from tasks.reports.read import policy_of
from tasks.reports.trend import kept_trend, trend_code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """REPORT... --policy FILE --cluster C --format text|json."""
    parser.description = (
        "Follows each machine through reports of different times: speeds that fall, latencies and counters of faults "
        "that rise, parts that are gone. Exit codes: 0 nothing gets worse, 1 something does, 3 too few reports to tell, "
        "5 the store failed."
    )
    add_reports(parser, "says how numbers are compared", "*")
    add_cluster(parser)
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the trend; exit code 1 if something gets worse, 3 if nobody can tell."""
    made, bad, count = _followed(arguments)
    text = json_text(trend_document(made)) if arguments.format == "json" else trend_text(made)
    if bad and arguments.format != "json":
        unread = f"{len(bad)} of {len(bad) + count} files could not be read"
        text = f"{ANSWER_WORDS[Answer.CANNOT_TELL]}: {unread}. Everything below is about the files that could be read.\n\n{text}"
    write_stdout(text)
    for one in bad:
        write_stderr(f"prelaunch: {one.file}: it is not a report of Prelaunch: {one.reason}")
    say_cluster(arguments.reports, arguments.cluster)
    return trend_code(made, bad)


def _followed(arguments: argparse.Namespace) -> tuple[Trend, list[UnreadableReport], int]:
    """The trend, what is no report, and how many reports there are. Of one store what it keeps of each node is enough."""
    policy = policy_of(arguments.policy)
    kept = (
        kept_trend(arguments.reports[0], arguments.cluster)
        if policy is None and len(arguments.reports) == 1
        else None
    )
    if kept is not None:
        return kept, [], kept.reports
    dated, bad = reports_of(arguments.reports, policy, arguments.cluster)
    return trend(dated), bad, len(dated)
