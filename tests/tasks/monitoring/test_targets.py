"""The file of targets is written from declared nodes, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.gate_file.model import Gate
from tasks.gate_file.read import read_gate_file
from tasks.monitoring.targets import Target, TargetsError, document, targets_of

GATES = Path(__file__).parents[3] / "deployments" / "gates"


def gate(name: str) -> Gate:
    """A shipped gate file."""
    return read_gate_file(GATES / f"{name}.toml")


def test_the_local_launcher_names_its_nodes() -> None:
    """They are processes of this machine."""
    nodes = tuple(Target("127.0.0.1", "local", f"node-{number}", "cpu", 0, False) for number in range(2))
    assert nodes == targets_of(gate("local"))


@pytest.mark.parametrize("name", [path.stem for path in GATES.glob("s*.toml")])
def test_a_gate_file_that_does_not_say_which_nodes_is_refused(name: str) -> None:
    """And the refusal says how to name them."""
    with pytest.raises(TargetsError, match="--nodes"):
        targets_of(gate(name))


def test_named_nodes_have_the_declared_hardware() -> None:
    """Slurm's lists and single addresses; the table of instance types says what a p5 has."""
    found = targets_of(gate("slurm-p5"), "ip-10-0-0-[1-2], gpu-x=10.0.0.9 v6=[fd00::7]")

    own, named = [("ip-10-0-0-1",) * 2, ("ip-10-0-0-2",) * 2], [("gpu-x", "10.0.0.9"), ("v6", "[fd00::7]")]
    assert [*own, *named] == [(target.node, target.address) for target in found]
    has = {(target.cluster, target.instance_type, target.gpus, target.efa) for target in found}
    assert {("slurm-p5", "p5.48xlarge", 8, True)} == has


def test_machines_of_ones_own_have_what_their_gate_file_says() -> None:
    """An exporter of EFA that no node has would be down for ever."""
    assert {(8, False)} == {(target.gpus, target.efa) for target in targets_of(gate("slurm-ib"), "n[1-4]")}


def test_nodes_without_an_exporter_for_efa_have_none() -> None:
    """A person says so; DCGM has no such option, because then nobody would see a GPU."""
    [*found] = targets_of(gate("slurm-p5"), "n[1-4]", without_efa=True)

    assert {(8, False)} == {(target.gpus, target.efa) for target in found}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("n1,n2,n3", "declares 4 nodes of cluster slurm-p5, and --nodes names 3"),
        ("n[1-4", "bracket"),
        ("n[1-4]=10.0.0.1", "4 nodes one address"),
        ("n1=a b,n1=c,n3,n4", "n1 has two addresses"),
        ("n1=10.0.0.1:9402,n2,n3,n4", "without a port"),
        ("n1=http://x,n2,n3,n4", "without a port"),
        ("-n1,n2,n3,n4", "not the name of a node"),
        (" , ", "names no node"),
    ],
)
def test_a_list_that_is_wrong_is_refused(nodes: str, said: str) -> None:
    """Fewer nodes than were declared, too: what is not named is not missed."""
    with pytest.raises(TargetsError, match=said):
        targets_of(gate("slurm-p5"), nodes)


def test_the_document_is_prometheus_own_form() -> None:
    """One target each, ordered; what a node has is in labels that end in Prometheus."""
    rows = json.loads(document(targets_of(gate("slurm-p5"), "n[4,3,2,1]")))

    has = {"cluster": "slurm-p5", "node": "n1", "instance_type": "p5.48xlarge", "__gpus": "8", "__efa": "yes"}
    assert {"targets": ["n1"], "labels": has} == rows[0]
    assert ["n1", "n2", "n3", "n4"] == [row["labels"]["node"] for row in rows]


def test_a_node_that_two_files_declare_differently_is_refused() -> None:
    """Once each is fine."""
    one = targets_of(gate("slurm-p5"), "n[1-4]")
    document([*one, *one])
    with pytest.raises(TargetsError, match="n1 of cluster slurm-p5 is declared twice"):
        document([*one, *targets_of(gate("slurm-p5"), "n1=10.0.0.1,n[2-4]")])
