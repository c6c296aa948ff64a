"""What the instance table says of a GPU's PCIe link: what somebody saw on such an instance, and nothing else."""

from __future__ import annotations

from checks.facts.builtin import builtin

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
