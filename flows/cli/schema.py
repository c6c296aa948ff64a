"""`prelaunch schema gate|policy|report`: prints the JSON Schema with which an editor completes and checks such a file."""

from __future__ import annotations

import argparse

from checks.exit_codes import Exit
from flows.cli.output import write_stdout

KINDS = ("gate", "policy", "report")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The kind of file."""
    parser.description = (
        "Prints the JSON Schema of a gate file, a policy or a report. Editors find it by the first line of a TOML file: "
        "#:schema PATH. What only Prelaunch itself can refuse (two keys that contradict each other, a file that is missing) "
        "is found by prelaunch plan."
    )
    parser.add_argument("kind", choices=KINDS, help="the kind of file")


def run(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    from tasks.reports.schema import SCHEMAS

    write_stdout(SCHEMAS[arguments.kind][1]())
    return int(Exit.GO)
