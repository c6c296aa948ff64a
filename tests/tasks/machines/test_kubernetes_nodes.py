"""What of a node of Kubernetes is read, and which repairs its back end can do, without a cluster."""

from __future__ import annotations

import pytest

from tasks.machines.base import Rung
from tasks.machines.kubernetes_nodes import machine_of
from tasks.machines.registry import UnknownMachines, machines_for


def test_the_options_of_the_back_end() -> None:
    """HyperPod repairs only where the file says that it is there."""
    assert machines_for("kubernetes", {}).rungs == frozenset()
    assert machines_for("kubernetes", {"hyperpod": True}).rungs == {Rung.REBOOT, Rung.REPLACE}
    for wrong in ({"hyperpod": "api"}, {"cluster": "c", "region": "us-west-2"}, {"nodes": ()}):
        with pytest.raises(UnknownMachines):
            machines_for("kubernetes", wrong)


def test_a_node_shows_its_instance() -> None:
    """By its provider id; HyperPod has it in the node's name."""
    spec = {"providerID": "aws:///us-east-1a/i-0123456789abcdef1"}
    assert machine_of({"metadata": {"name": "n"}, "spec": spec}).instance_id == "i-0123456789abcdef1"
    named = machine_of({"metadata": {"name": "hyperpod-i-0123456789abcdef0"}})
    assert named.instance_id == "i-0123456789abcdef0"
    assert machine_of({"metadata": {"name": "ip-10-0-0-1"}}).instance_id == ""
