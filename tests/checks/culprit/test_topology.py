"""Switches of nodes: from each of the formats that people have, to what a report holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.culprit.topology import (
    SWITCHES,
    Topology,
    by_address,
    by_name,
    grouped,
    judge,
    switches_of,
    why_no_expression,
)
from checks.culprit.topology_file import TopologyError, expand, parse
from checks.exchange import secret_key
from checks.facts.builtin import builtin
from checks.model import Cause, Declared, Level, Profile, Report
from checks.roster import Member, Roster
from checks.runner import node_run
from checks.runner.node_context import uplink, write_node_context
from tests.sample_reports import POLICY, healthy

TREE = {
    "n0": ("leaf0", "spine"), "n1": ("leaf0", "spine"), "n2": ("leaf1", "spine"), "n3": ("leaf1", "spine"),
}  # fmt: skip
# As Slurm 22.05.8 printed it, of the topology.conf below it.
SCONTROL = """SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[0-1]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[2-3]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=leaf[0-1]
"""
CONF = """# the racks
SwitchName=leaf0 Nodes=n[0-1]   # left
switchname=leaf1 \\
  nodes=n[2-3]
SwitchName=spine Switches=leaf[0-1]
"""
EC2 = {
    "Instances": [
        {
            "InstanceId": "i-0a1b2c3d4e5f60718",
            "InstanceType": "p5.48xlarge",
            "NetworkNodes": ["nn-top", "nn-middle", "nn-bottom"],
            "AvailabilityZone": "us-west-2a",
            "CapacityBlockId": None,
        }
    ]
}


def _found(report: Report, *switches: str | None) -> Report:
    """The report whose nodes found these; None is a node to which nobody described any."""
    nodes = (
        replace(node, identity={**node.identity, **({} if found is None else {SWITCHES: found})})
        for node, found in zip(report.nodes, switches, strict=True)
    )
    return replace(report, nodes=tuple(nodes))


@pytest.mark.parametrize(
    "text",
    [
        SCONTROL,
        "\n".join(reversed(SCONTROL.splitlines())),
        CONF,
        "node,leaf,spine\nn0,leaf0,spine\n\nn1, leaf0,spine # x\nn2,leaf1,spine\nn3,leaf1,spine\n",
    ],
)
def test_slurm_and_csv_say_the_same(text: str) -> None:
    """Nearest first, whoever printed it."""
    assert parse(text) == TREE


def test_ec2_lists_its_layers_from_the_top() -> None:
    """Its last network node is the one that the instance hangs on."""
    assert parse(json.dumps(EC2)) == {"i-0a1b2c3d4e5f60718": ("nn-bottom", "nn-middle", "nn-top")}


def test_a_block_is_a_switch_and_two_leaves_are_two() -> None:
    """topology/block has blocks; a host with two NICs may hang on two leaves, and a spine may be above one of them."""
    text = "BlockName=b0 BlockIndex=0 Nodes=n[08-10]\nBlockSizes=4\nSwitchName=x Nodes=n08\nSwitchName=y Switches=x\n"

    assert parse(text) == {"n08": ("b0", "x", "y"), "n09": ("b0",), "n10": ("b0",)}


def test_a_ring_of_switches_ends() -> None:
    """A file that is wrong must not hang the gate."""
    text = "SwitchName=a Nodes=n0\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b\n"

    assert parse(text) == {"n0": ("a", "b", "c")}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n0", ["n0"]),
        ("n[0-2,7],m1", ["n0", "n1", "n2", "n7", "m1"]),
        ("gpu[098-101]", ["gpu098", "gpu099", "gpu100", "gpu101"]),
        ("r[0-1]n[2-3].x", ["r0n2.x", "r0n3.x", "r1n2.x", "r1n3.x"]),
        ("", []),
    ],
)
def test_slurms_lists_of_hosts(text: str, names: list[str]) -> None:
    """Brackets, zeros in front, and more than one of them."""
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no node"),
        ("{", "not valid JSON"),
        ('{"Instances": {}}', 'no list "Instances"'),
        ('{"Instances": [{"InstanceId": "i-1", "NetworkNodes": []}]}', "Instances[0]"),
        ('{"Instances": [], "NextToken": "abc"}', "only a part"),
        ("SwitchName=a Nodes=n[0-\n", "line 1"),
        ("SwitchName=a Nodes=n[3-1]\n", "line 1"),
        ("SwitchName=a Nodes=n[0-999999999]\n", "more than"),
        ("SwitchName=a Nodes=n[0-99999]n[0-99999]\n", "more than"),
        ("SwitchName=a\nNodes=n0\n", "line 2"),
        ("SwitchName=a Nodes n0\n", "Key=value"),
        ("n0,a\nn1\n", "line 2"),
        ("n0,a\nn0,b\n", "was under a before"),
        ("switches:\n  - switch: s0\n", "line 1"),
        ("n0,\x1b[31m\n", "cannot be the name"),
        ("n0," + ",".join(f"s{i}" for i in range(20)), "under 20 switches"),
    ],
)
def test_topology_reader_rejects_text_without_switches(text: str, said: str) -> None:
    """With the line, so that it can be found."""
    with pytest.raises(TopologyError, match=said.replace("[", "\\[").replace("(", "\\(")):
        parse(text)


@pytest.mark.parametrize(
    ("address", "pattern", "known", "switches"),
    [
        ("spine.leaf0.n0", "switch.switch.node", ["n0"], ("leaf0", "spine")),  # captured: Slurm 22.05.8
        ("spine.leaf0.n0", "switch.switch.node", ["node-0", "n0.cluster.local"], ("leaf0", "spine")),
        ("s[0,2].leaf0.n0.lan", "switch.switch.node", ["N0.lan"], ("leaf0", "s[0+2]")),
        ("b1.n0", "block.node", ["n0"], ("b1",)),
        ("n0", "node", ["n0"], None),
        ("", "", ["n0"], None),
        ("spine.leaf0.n0", "switch.switch.node", ["n1"], None),  # forwarded from the first node
        ("leaf0.n0", "switch.switch.node", ["n0"], None),
    ],
)  # fmt: skip
def test_slurms_address_of_a_node(
    address: str, pattern: str, known: list[str], switches: tuple[str, ...] | None
) -> None:
    """It leads from the top down to the node, which has to be this one."""
    assert by_address(address, pattern, known) == switches


@pytest.mark.parametrize(
    ("expression", "name", "switches"),
    [
        (r"rack(\d+)", "gpu-rack12-3", ("rack12",)),
        (r"^gpu\d+-([a-z]+)-", "gpu7-left-2", ("left",)),
        (r"rack(?:-)(\d+)", "rack-12", ("12",)),
        (r"rack(\d+)", "gpu-3", ()),
        (r"rack(\d+)|pod(x)", "podx", ()),
        (r"(", "rack1", ()),
        ("", "rack1", ()),
    ],
)
def test_names_that_say_their_rack(expression: str, name: str, switches: tuple[str, ...]) -> None:
    """The group tells switches apart; the letters before it make its name readable."""
    assert by_name(expression, name) == switches


def test_an_expression_needs_one_group() -> None:
    """Else nobody knows what the switch is called."""
    assert [bool(why_no_expression(text)) for text in (r"rack(\d+)", r"rack\d+", r"(a)(b)", "(")] == [
        False, True, True, True,
    ]  # fmt: skip


def test_a_node_is_found_by_any_of_its_names() -> None:
    """The file may know it by its instance id or its host's full name; the expression is for the others."""
    tree = {"i-0a": ("l0", "s"), "HOST-1.lan": ("l1", "s"), "a.x": ("l2",), "a.y": ("l3",), "b": ("l4",)}
    topology = Topology(grouped(tree), "rack(.)")
    nodes = (["n0", "i-0a"], ["n1", "host-1"], ["a.y"], ["a"], ["a.z"], ["B.lan"], ["n2", "q-rack7"])

    assert [topology.switches(names) for names in nodes] == [
        ("l0", "s"), ("l1", "s"), ("l3",), (), (), ("l4",), ("rack7",),
    ]  # fmt: skip


def test_a_node_says_what_it_found(tmp_path: Path) -> None:
    """By the bundle before Slurm; nothing where nobody described anything."""
    tag = tmp_path / "sys/class/dmi/id/board_asset_tag"
    tag.parent.mkdir(parents=True)
    tag.write_text("i-0a1b2c3d4e5f60718\n")
    slurm = {"SLURM_TOPOLOGY_ADDR": "spine.leaf0.n0", "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"}
    described = Topology(grouped(parse(json.dumps(EC2))))

    assert [
        uplink("node-0", described, slurm, tmp_path),
        uplink("node-0", described, {}, tmp_path / "elsewhere"),
        uplink("n0", None, slurm, tmp_path),
        uplink("node-0", None, {**slurm, "SLURMD_NODENAME": "n0"}, tmp_path),
        uplink("node-0", None, {}, tmp_path),
    ] == [
        {SWITCHES: "nn-bottom,nn-middle,nn-top"}, {SWITCHES: ""},
        {SWITCHES: "leaf0,spine"}, {SWITCHES: "leaf0,spine"}, {},
    ]  # fmt: skip


def test_another_boards_tag_is_no_instance(tmp_path: Path) -> None:
    """Firmware writes all kinds of things there."""
    tag = tmp_path / "sys/class/dmi/id/board_asset_tag"
    tag.parent.mkdir(parents=True)
    tag.write_text("Default string\n")

    assert uplink("n", Topology({"leaf": ("Default string",)}), {}, tmp_path) == {SWITCHES: ""}


def test_a_report_holds_the_switches_of_its_nodes() -> None:
    """Reports from before have none, and a node that is under none is under none."""
    report = _found(healthy(3, 1), "leaf0,spine,leaf0", "", None)

    assert switches_of(report) == {"node-0": ("leaf0", "spine"), "node-1": (), "node-2": ()}


def test_a_topology_that_names_no_node_is_a_warning() -> None:
    """Silence would look as if no switch were suspect."""
    (finding,) = judge(_found(healthy(2, 1), "", ""))

    assert (finding.level, finding.cause) == (Level.WARN, Cause.EVIDENCE)
    assert "names none of the 2 nodes" in finding.message
    assert "host node-1" in finding.evidence


def test_only_what_was_described_can_be_missing() -> None:
    """One node of three is named; without any description nothing is said, as for one that names all."""
    partly = judge(_found(healthy(3, 1), "l0", "", "l1"))

    assert [finding.message for finding in partly] == ["the topology leaves out 1 of 3 nodes (node-1)"]
    assert judge(healthy(3, 1)) == ()
    assert judge(_found(healthy(2, 1), "l0", "l0")) == ()


def test_a_nodes_report_opens_with_its_switches(tmp_path: Path) -> None:
    """Whatever becomes of the node afterwards."""
    names = ("gpu-rack0-0", "gpu-rack1-0")
    roster = Roster(tuple(Member(name, "127.0.0.1", 1) for name in names), 2, "")
    topology = Topology({"leaf9": (names[1],)}, r"rack(\d)")
    declared = Declared("cpu", 2, 0, 1)
    bundle = bundles.make("gate-1", declared, Profile.QUICK, POLICY, builtin(), topology=topology)
    found = {}
    for name in names:
        node_context = write_node_context(tmp_path / name, bundle, roster, name, secret_key.make())
        found[name] = node_run.first_report(node_context, "attempt-1").node.identity[SWITCHES]

    assert found == {"gpu-rack0-0": "rack0", "gpu-rack1-0": "leaf9"}
