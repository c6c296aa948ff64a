"""`prelaunch node`: the commands that run on a node. Containers and launchers call the same commands `python -m checks`.

`prelaunch node pack` writes the file that nodes run which have nothing but Python.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from checks import cli
from checks.exit_codes import Exit
from flows.cli.output import write_stderr, write_stdout
from tasks.launchers.base import LaunchError
from tasks.launchers.node_code import node_zipapp

PACK = "pack"
FILE = "prelaunch.pyz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One of the commands, with its own arguments."""
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="list | run | judge | modules | gate | prolog | healthcheck | pack",
        help="the command and its options; `prelaunch node COMMAND --help` shows them",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    try:
        if arguments.words[:1] == [PACK]:
            return _pack(arguments.words[1:])
        return cli.main(arguments.words, prog="prelaunch node")
    except SystemExit as ended:  # wrong usage, or --help
        return int(ended.code or 0)


def _pack(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"prelaunch node {PACK}",
        description="Write one file with which nodes check themselves: srun -N4 python3 prelaunch.pyz check --instance-type T",
    )
    parser.add_argument("--out", type=Path, default=Path(FILE), help=f"the file to write (default {FILE})")
    out: Path = parser.parse_args(words).out
    try:
        data = node_zipapp()
        out.write_bytes(data)
        out.chmod(0o755)
    except LaunchError as error:
        write_stderr(f"prelaunch: {error}")
        return int(Exit.REJECTED)
    except OSError as error:
        write_stderr(f"prelaunch: {out}: {error.strerror}")
        return int(Exit.REJECTED)
    write_stdout(f"{out}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}\n")
    return int(Exit.GO)
