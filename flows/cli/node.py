"""`prelaunch node`: the commands that run on a node. Containers and launchers call the same commands `python -m checks`."""

from __future__ import annotations

import argparse

from checks import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One of the commands, with its own arguments."""
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="list | run | judge | modules | gate",
        help="the command and its options; `prelaunch node COMMAND --help` shows them",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    try:
        return cli.main(arguments.words, prog="prelaunch node")
    except SystemExit as ended:  # wrong usage, or --help
        return int(ended.code or 0)
