"""`prelaunch history STORE NODE`: everything that is kept of one node over time."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from flows.cli.fleet import add_store_and_age, read, say_cluster, say_problems
from flows.cli.machines import require_node_name
from flows.cli.output import json_text, write_stdout
from tasks.gate.record.end import kept_ends
from tasks.reports.command_line import write_file
from tasks.reports.fleet.model import Fleet, GateMark
from tasks.reports.fleet.text import fleet_code, node_document, node_text
from tasks.reports.read import InputError
from tasks.reports.store_argument import (
    NamedStore,
    chosen_cluster,
    open_named_store,
    require_known_node,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """STORE NODE --fresh HOURS --format text|json --html FILE."""
    parser.description = (
        "Says what is known of one node: its state, its gates, every open finding, what changed on it, what gets worse, and what was "
        "done to it. Every machine that has or had the name is listed. Exit codes: 0 the node is proven, 1 it is condemned or gets "
        "worse, 2 rejected (also: no gate knows the name), 3 anything else is not known or not fresh, 5 the store or the index failed."
    )
    add_store_and_age(parser)
    parser.add_argument("node", metavar="NODE", help="the name of the node")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write an HTML page")


def run(arguments: argparse.Namespace) -> int:
    """Print the node, and write its page."""
    require_node_name(arguments.node, "NODE")
    if arguments.html is not None:
        write_file(arguments.html, None)
    named = open_named_store(arguments.store)
    found = read(arguments, named, chosen_cluster(named, None), arguments.node)
    found = _with_failures(named, found)
    nodes = [*found.nodes, *found.replaced]
    if not nodes:
        require_known_node(named, arguments.node, arguments.store)
        message = f"cluster {named.cluster} has no node {arguments.node!r:.80}, and another cluster has it. Name the store."
        raise InputError(named.address, message)
    if arguments.html is not None:
        from tasks.reports.fleet.page import node_page

        write_file(arguments.html, node_page(arguments.node, found))
    if arguments.format == "json":
        document = {
            "machines": [node_document(node, whole=True) for node in found.nodes],
            "replaced": [node_document(node, whole=True) for node in found.replaced],
            "problems": list(found.problems),
            "error": None,
        }
        write_stdout(json_text(document))
    else:
        write_stdout("\n".join(node_text(node, found) for node in nodes))
    say_problems(found)
    say_cluster([arguments.store], None)
    return fleet_code(found)


def _with_failures(named: NamedStore, found: Fleet) -> Fleet:
    """The same, in which the gates whose training failed on a node say so. Raises StoreError."""
    gates = {mark.gate_id for node in (*found.nodes, *found.replaced) for mark in node.gates}
    ends = kept_ends(named.store, sorted(gates))

    def marked(mark: GateMark) -> GateMark:
        end = ends.get(mark.gate_id)
        return replace(mark, failure=end.failure) if end and end.failure and end.node == mark.node else mark

    nodes, replaced = (
        tuple(replace(node, gates=tuple(map(marked, node.gates))) for node in some)
        for some in (found.nodes, found.replaced)
    )
    return replace(found, nodes=nodes, replaced=replaced)
