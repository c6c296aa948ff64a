"""What a gate file leaves out is not run on a node, and its report says so for each node and rank."""

from __future__ import annotations

from pathlib import Path

from checks import bundle as bundles
from checks.exchange import secret_key
from checks.facts.builtin import builtin
from checks.model import Declared, Outcome, Profile, Skip
from checks.roster import Member, Roster
from checks.runner.node_context import NodeContext, write_node_context
from checks.runner.node_run import left_out
from tests.checks.local_policy import local_policy

LEFT_OUT = ("disk.io", "collective.all_gather", "nccl.tests")


def node_context(folder: Path) -> NodeContext:
    """The second of two nodes of two ranks, with a bundle that leaves three checks out."""
    declared = Declared("cpu", 2, 0, 2, ("node-0", "node-1"))
    made = bundles.make("left-out", declared, Profile.STANDARD, local_policy(), builtin(), skip=LEFT_OUT)
    members = tuple(Member(name, "127.0.0.1", 1000 + at) for at, name in enumerate(declared.node_names))
    roster = Roster(members, 2000, "lo")
    return write_node_context(folder, made, roster, "node-1", secret_key.make())


def test_what_is_left_out_is_not_run(tmp_path: Path) -> None:
    """The others are."""
    planned = {check.name for check in node_context(tmp_path).planned()}

    assert not planned & {*LEFT_OUT}
    assert {"memory.stress", "collective.all_reduce"} <= planned


def test_what_is_left_out_is_observed_as_skipped(tmp_path: Path) -> None:
    """Of the node, or of each of its ranks; what does not apply to the machine is not spoken of."""
    rows = left_out(node_context(tmp_path))

    assert [
        ("disk.io", "node-1"),
        ("collective.all_gather", "node-1/rank-2"),
        ("collective.all_gather", "node-1/rank-3"),
    ] == [(row.check, row.subject) for row in rows]
    assert {(Outcome.SKIPPED, Skip.GATE_FILE)} == {(row.outcome, row.skip) for row in rows}
