"""`prelaunch repair machines GATE_FILE`: the machines of a cluster, by their engine and by our records, in one table."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence

from checks.command_line import InputError
from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.model import NODE_NAME
from flows.cli.output import json_text, write_stderr, write_stdout
from flows.cli.shared_arguments import add_format, add_gate_file, gate_file
from tasks.gate_file.model import Gate
from tasks.machines.base import Machine, MachineError, Machines
from tasks.machines.registry import UnknownMachines
from tasks.remediation.model import Act
from tasks.remediation.records import JournalError, Records
from tasks.remediation.settings import machines_of
from tasks.reports.machines.rows import MachineRow, machine_rows
from tasks.reports.machines.table import machines_text, node_text, row_table
from tasks.reports.store_argument import named_gate
from tasks.store.base import BadAddress
from tasks.store.open import absolute, open_store
from tasks.text.inert import one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE --node N --format text|json."""
    parser.description = (
        "Lists the machines of the cluster of a gate file: their state by the engine and by the records of remediation (the last act, "
        "and the last re-test with its age), who holds each and since when, its jobs, and the command that opens a shell there. Where "
        "the engine and the records contradict each other, the column `disagreement` says how. Nothing is changed. Exit codes: 0 "
        "listed, 2 rejected, 3 the engine did not answer or a record could not be read (what is known is printed), 5 the store failed."
    )
    add_gate_file(parser)
    parser.add_argument(
        "--node", default="", metavar="N",
        help="only this node, with every act: verdict, command, who allowed it, the engine's words, proof",
    )  # fmt: skip
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; exit code 3 if the engine or a record could not be read."""
    require_node_name(arguments.node)
    gate, machines, records = opened(arguments)
    problems: list[str] = []
    found = _machine_states(machines, problems)
    acts = _acts(records, arguments.node, problems)
    if arguments.node:
        found = None if found is None else {key: one for key, one in found.items() if key == arguments.node}
    rows = machine_rows(found, acts, machines)
    if arguments.node and not rows and not problems:
        message = f"neither the engine nor the records know a node {arguments.node!r:.80} of cluster {gate.cluster.name}."
        raise InputError("command line", message, "--node")
    _show(arguments, rows, found is not None, problems)
    if not rows and machines.name == "log":
        write_stderr(
            'prelaunch: machines of [remediation] is "log" (the default), which asks no engine. Write the engine\'s name there to '
            "list its nodes; `prelaunch fleet list` lists those that gates know."
        )
    return int(Exit.CANNOT_TELL if problems else Exit.GO)


def require_node_name(node: str, option: str = "--node") -> None:
    """Raise InputError for what cannot be the name of a node; "" is none."""
    if node and not re.fullmatch(NODE_NAME, node[:300]):
        raise InputError("command line", f"{node!r:.80} is not the name of a node.", option)


def opened(arguments: argparse.Namespace) -> tuple[Gate, Machines, Records]:
    """The gate of a file, the machines of its cluster, and their records. Raises InputError."""
    file = str(gate_file(arguments))
    try:
        gate = named_gate(file)
        machines = machines_of(gate)
        store = open_store(absolute(gate.store.path))
    except UnknownMachines as error:
        raise InputError(file, str(error), "remediation") from error
    except BadAddress as error:
        raise InputError(file, str(error), "store.path") from error
    return gate, machines, Records(store, gate.cluster.name)


def _machine_states(machines: Machines, problems: list[str]) -> Mapping[str, Machine] | None:
    try:
        return machines.by_name()
    except MachineError as error:
        problems.append(
            f"the engine did not answer, so only our own records are shown: {one_line(str(error), 500)}"
        )
        return None


def _acts(records: Records, node: str, problems: list[str]) -> Sequence[Act] | None:
    """The acts of all nodes, or of one. Raises StoreError."""
    try:
        return records.acts(node)
    except JournalError as error:
        problems.append(f"only what the engine shows is listed: {one_line(str(error), 500)}")
        return None


def _show(
    arguments: argparse.Namespace, rows: Sequence[MachineRow], reached: bool, problems: Sequence[str]
) -> None:
    now = time.time()
    if arguments.format == "json":
        listed = [row_table(row, now, reached) for row in rows]
        acts = {"records": plain([act for row in rows for act in row.acts])} if arguments.node else {}
        ends = {"answered": reached, "problems": list(problems), "error": None}
        write_stdout(json_text({"machines": listed, **acts, **ends}))
    elif arguments.node and rows:
        write_stdout("\n".join(node_text(row, now, reached) for row in rows))
    else:
        write_stdout(machines_text(rows, now, reached))
    for problem in problems:
        write_stderr(f"prelaunch: {problem}")
