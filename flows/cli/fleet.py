"""`prelaunch fleet list STORE`: which nodes are proven, which are not and why, the worst first; and all that is kept of one node."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from checks.command_line import InputError, number
from flows.cli.output import json_text, write_stderr, write_stdout
from flows.cli.shared_arguments import add_cluster, add_format, add_store, require_node_name
from tasks.gate.record.end import kept_ends
from tasks.reports import store_argument
from tasks.reports.command_line import write_file
from tasks.reports.fleet.fleet import Fleet, GateMark
from tasks.reports.fleet.reading import FRESH_S, page_link, read_fleet
from tasks.reports.fleet.states import HOUR_S
from tasks.reports.fleet.text import fleet_code, fleet_document, fleet_text, node_text
from tasks.store.history import kept_gates
from tasks.store.layout import html_key

if TYPE_CHECKING:
    from tasks.machines.base import Machines

LOG = "log"  # the back end that knows no engine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """STORE --cluster C --node NODE --fresh HOURS --format text|json --html FILE."""
    parser.description = (
        "A node is proven if its newest gate measured everything that the policy requires, within --fresh hours, and no finding is "
        "open. Lists every node, the worst first: its state, last proof, open findings, what gets worse, what changed, what was done "
        "to it, and its last gates. With a gate file only its cluster is shown, and, if [remediation] names an engine, the state "
        "that the engine reports for each node. Exit codes: 0 every node is proven, 1 a node is condemned or gets worse, "
        "2 rejected, 3 a node is not proven, or something could not be read, 5 the store failed."
    )
    add_store(parser)
    text = f"for how many hours a proof counts (default {FRESH_S / HOUR_S:g})"
    hours = number(0, 1_000_000, "hours")
    parser.add_argument("--fresh", type=hours, default=FRESH_S / HOUR_S, metavar="HOURS", help=text)
    add_format(parser)
    add_cluster(parser, "nodes")
    parser.add_argument(
        "--node", default="", metavar="NODE",
        help="show everything about this node: its gates, open findings, changes, acts and numbers, for every machine that has or "
        "had this name",
    )  # fmt: skip
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write an HTML page")


def run(arguments: argparse.Namespace) -> int:
    """Print the fleet or one node, and write its page."""
    require_node_name(arguments.node)
    if arguments.html is not None:
        write_file(arguments.html, None)
    source = store_argument.open_named_store(arguments.store)
    cluster = store_argument.chosen_cluster(source, arguments.cluster)
    fleet = read(arguments, source, cluster)
    if arguments.node:
        fleet = _with_failures(source, fleet)
        # Where the engine does not reply nobody knows whether there is such a node.
        if fleet.has_reply is not False and not fleet.nodes and not fleet.replaced:
            store_argument.require_known_node(source, arguments.node, arguments.store)
            message = f"no gate of this cluster knows a node {arguments.node!r:.80}, and another cluster has it. Name the store."
            raise InputError(source.address, message)
    if arguments.html is not None:
        _write_page(arguments.html, source, fleet, cluster, arguments.node)
    if arguments.format == "json":
        write_stdout(json_text({**fleet_document(fleet, whole=bool(arguments.node)), "error": None}))
    elif arguments.node:
        write_stdout("\n".join(node_text(node, fleet) for node in (*fleet.nodes, *fleet.replaced)))
    else:
        write_stdout(fleet_text(fleet))
    for problem in fleet.problems:
        write_stderr(f"prelaunch: {problem}")
    say_cluster([arguments.store], arguments.cluster)
    return fleet_code(fleet)


def _with_failures(source: store_argument.NamedStore, fleet: Fleet) -> Fleet:
    """The returned fleet says of each gate whether its training failed on the node. Raises StoreError."""
    gates = {mark.gate_id for node in (*fleet.nodes, *fleet.replaced) for mark in node.gates}
    ends = kept_ends(source.store, sorted(gates))

    def marked(mark: GateMark) -> GateMark:
        end = ends.get(mark.gate_id)
        return replace(mark, failure=end.failure) if end and end.failure and end.node == mark.node else mark

    nodes, replaced = (
        tuple(replace(node, gates=tuple(map(marked, node.gates))) for node in some)
        for some in (fleet.nodes, fleet.replaced)
    )
    return replace(fleet, nodes=nodes, replaced=replaced)


def _write_page(
    path: Path, source: store_argument.NamedStore, fleet: Fleet, cluster: str | None, node: str
) -> None:
    """The HTML page, with a link to the page of each gate that has one; or that of a node. Raises OutputError."""
    from tasks.reports.fleet.page import fleet_page, node_page

    if node:
        write_file(path, node_page(node, fleet))
        return
    keys = {key for some in kept_gates(source.store).values() for key in some}

    def link(gate_id: str) -> str:
        key = html_key(gate_id)
        return page_link(source.store, key) if key in keys else ""

    write_file(path, fleet_page(fleet, link, f"Fleet {cluster}" if cluster else "Fleet"))


def read(arguments: argparse.Namespace, source: store_argument.NamedStore, cluster: str | None) -> Fleet:
    """The fleet of the store, with the engine of the gate file that names it. Raises InputError, StoreError."""
    engine = engine_of(source)
    if engine is not None and cluster not in (None, engine[0]):
        engine = None  # that of another cluster
    if engine is None:
        store_argument.require_gates(source)
    return read_fleet(source.store, time.time(), arguments.fresh * HOUR_S, cluster, arguments.node, engine)


def engine_of(source: store_argument.NamedStore) -> tuple[str, Machines] | None:
    """The cluster of a gate file and its machines; None for what names a store alone, or no engine. Raises InputError."""
    gate = source.gate
    if gate is None or gate.remediation.machines == LOG:
        return None
    from tasks.machines.registry import UnknownMachines
    from tasks.remediation.settings import machines_of

    try:
        return gate.cluster.name, machines_of(gate)
    except UnknownMachines as error:
        raise InputError(source.argument, str(error), "remediation") from error


def say_cluster(stores: Sequence[str], cluster: str | None) -> None:
    """A note on stderr says that a gate file shows its own cluster alone."""
    for note in store_argument.cluster_notes(stores, cluster):
        write_stderr(f"prelaunch: {note}")
