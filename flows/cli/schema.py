"""`prelaunch site schema gate|policy|report|result`: prints the JSON Schema with which an editor or a script checks such a file."""

from __future__ import annotations

import argparse

from checks.exit_codes import Exit
from flows.cli.output import write_stdout

KINDS = ("gate", "policy", "report", "result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The kind of file."""
    parser.description = (
        "Prints the JSON Schema of a gate file, a policy, a report, or a result (what gate --format json prints). Editors find it "
        "by the first line of a TOML file: #:schema PATH. What only Prelaunch itself can refuse (two keys that contradict each "
        "other, a file that is missing) is found by prelaunch plan."
    )
    parser.add_argument("kind", choices=KINDS, help="the kind of file")


def run(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    from tasks.reports.schema import RESULT_PATH, SCHEMAS

    schema = arguments.kind
    write_stdout(RESULT_PATH.read_text(encoding="utf-8") if schema == "result" else SCHEMAS[schema][1]())
    return int(Exit.GO)
