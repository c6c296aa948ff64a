"""What the instance table says of types that were once left open.

And of a GPU's PCIe link: what somebody saw on such an instance, and nothing else.
"""

from __future__ import annotations

import pytest

from checks.facts.builtin import builtin
from checks.facts.instances import unknown_type
from tasks.gate_file.references import default_policy

INSTANCES = builtin().instances


def test_every_type_says_whether_it_has_efa() -> None:
    """None would leave its checks open; of a p6e-gb300 AWS publishes no number."""
    assert ["p6e-gb300.36xlarge"] == [name for name, row in INSTANCES.items() if row.efa_devices is None]


def test_a_p6e_gb300_says_what_is_published_and_nothing_else() -> None:
    """Four GPUs of a rack of 72; its vCPUs, memory and network are nowhere to be read."""
    row = INSTANCES["p6e-gb300.36xlarge"]

    assert (4, "GB300", 284208, 18) == (row.gpus, row.gpu, row.gpu_memory_mib, row.nvlinks)
    assert {None} == {row.vcpus, row.memory_gib, row.network_gbit_s, row.pcie_width, row.efa_devices}
    assert "p6e-gb300.36xlarge" in default_policy("p6e-gb300.36xlarge")[1].instance_types


def test_a_network_that_bursts_is_a_bound_and_no_promise() -> None:
    """ "Up to 10 Gigabit" is what no node exceeds, and nothing to hold one to."""
    g5 = INSTANCES["g5.xlarge"]

    assert (g5.network_gbit_s, g5.network_burst_gbit_s) == (None, 10)
    assert (INSTANCES["g5.48xlarge"].network_gbit_s, INSTANCES["p5.48xlarge"].network_gbit_s) == (100, 3200)


@pytest.mark.parametrize(
    ("name", "near", "says"),
    [
        ("p5.48xl", "p5.48xlarge", "'p5.48xl' is not a known instance type. "),
        ("ml.p5.48xlarge", "p5.48xlarge", "'ml.p5.48xlarge' is not a known instance type. "),
        ("our-h200", None, "Known are cpu, m5.*, g4dn.*, "),
    ],
)
def test_an_unknown_type_comes_with_those_that_are_known(name: str, near: str | None, says: str) -> None:
    """Where all are listed; and, if none is near, every family, and how a machine of one's own is described."""
    said, nearest = unknown_type(name, tuple(INSTANCES))

    assert nearest == near
    everything = f"`prelaunch facts` lists all {len(INSTANCES)}"
    assert says in said and everything in said and len(said) < 600
    assert (says + everything == said) is (near is not None)
    assert (near is None) is ("[cluster.machine]" in said and "prelaunch node machine" in said)


# Models with the link width of a capture in AWS: nvidia-smi -q -x, or the boards that share a baseboard with one.
SEEN = {"T4": 8, "L40S": 8, **dict.fromkeys(("V100", "A100", "H100", "H200", "B200", "B300", "GB200"), 16)}


def test_a_width_that_nobody_saw_is_not_in_the_table() -> None:
    """A healthy L40S and T4 have 8 lanes of 16 there: 16 guessed for an A10G or an L4 would condemn healthy nodes."""
    wrong = {
        name: instance.pcie_width
        for name, instance in builtin().instances.items()
        if instance.gpu and instance.pcie_width != SEEN.get(instance.gpu.partition(" ")[0].partition("-")[0])
    }

    assert {} == wrong
