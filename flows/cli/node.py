"""`prelaunch node`: the commands that run on a node. Containers and launchers call the same commands `python -m checks`.

`prelaunch node pack` writes the file that nodes run which have nothing but Python.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from checks import cli
from checks.command_line import InputError
from checks.exit_codes import Exit
from checks.facts import own_machine
from flows.cli.output import write_stdout
from tasks.gate_file.folder import typed_path
from tasks.gate_file.read import read_gate_file
from tasks.launchers.base import LaunchError
from tasks.launchers.node_code import node_zipapp

FILE = "prelaunch.pyz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands, each with its own arguments."""
    verbs = cli.add_verbs(parser)
    packing = verbs.add_parser("pack", help="write prelaunch.pyz, with which a bare node checks itself")
    packing.description = "Write the file, and use it on nodes, such as with srun -N4 python3 prelaunch.pyz check --instance-type T"
    packing.add_argument("--out", type=Path, default=Path(FILE), help=f"the file to write (default {FILE})")
    packing.set_defaults(verb=_pack)
    describing = verbs.add_parser(
        "machine", help="print the file that describes a machine of your own, for --instance-type"
    )
    describing.description = "Print [cluster.machine] of a gate file as a file for --instance-type of the other commands on a node."
    describing.add_argument("file", metavar="GATE_FILE", help="the gate file that describes them")
    describing.set_defaults(verb=_machine)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    return cli.execute(arguments)


def _machine(arguments: argparse.Namespace) -> int:
    declared = read_gate_file(Path(typed_path(arguments.file))).declared(())
    if declared.machine is None:
        message = f"{declared.instance_type} is a known instance type: give it by its name"
        raise InputError(arguments.file, message)
    write_stdout(own_machine.text_of(declared, declared.machine).decode())
    return int(Exit.GO)


def _pack(arguments: argparse.Namespace) -> int:
    out: Path = arguments.out
    try:
        data = node_zipapp()
        out.write_bytes(data)
        out.chmod(0o755)
    except (LaunchError, OSError) as error:
        raise InputError(out, f"it cannot be written ({error})") from error
    write_stdout(f"{out}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}\n")
    return int(Exit.GO)
