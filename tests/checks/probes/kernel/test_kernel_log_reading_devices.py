"""What a kernel log says about devices of Neuron, and about GPUs in the driver's own words without an Xid."""

from __future__ import annotations

import pytest

from checks.model import Answer, Level, Verdict
from tests.corpus.case import declared
from tests.corpus.judging import explained

HEAD = "[    0.000000] Linux version 6.1.119-129.201.amzn2023.x86_64\n[   31.250000] nvme nvme0: 8/0/0 default/read/poll queues\n"
FORMS = (
    "[  901.000000] {}\n",
    "2026-11-02T10:00:00.000000+0000 ip-10-0-0-9 kernel: {}\n",
    "kern  :err   : [  901.000000] {}\n",
)
NEURON = (
    "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR hostname=ip-172-31-61-252 nd-id=0 nc-id=0 action=TERMINATE_INSTANCE",
    "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR instance-id=i-0 hostname=h nd-id=11 nc-id=1 serial-num=ab action=TERMINATE_INSTANCE",
    "NEURON_HW_ERR=NC_UNCORRECTABLE_ERROR instance-id=i-0 hostname=h nd-id=3 nc-id=1 serial-num=ab action=TERMINATE_INSTANCE",
    "neuron:nr_dma: NEURON_HW_ERR=DMA_ERROR nd-id=7 nc-id=1 serial-num=ab action=RESET_DEVICE",
    "neuron5: NEURON_HW_ERR=DMA_ERROR device=5",
    "NEURON_HW_ERR=A_NEW_ERROR nd-id=2 action=TERMINATE_INSTANCE",
)
RESET = (
    "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).  The GPU likely needs to be reset.",
    "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0001:07:00 (printing 1 of every 120).  The GPU likely needs to be reset.",
    "NVRM: GPU at PCI:0000:9b:00 does not answer. The GPU likely needs to be reset.",
    "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
    "NVRM: Xid (PCI:0000:9b:00): 63, Row Remapper: New row (0x0000000000abcdef) marked for remapping, reset gpu to activate.",
)


def verdict(text: str, instance_type: str = "") -> Verdict:
    """The answer of explain, which recognises the kind."""
    return explained(text, declared(instance_type) if instance_type else None)


@pytest.mark.parametrize(
    ("line", "form"), [*((line, FORMS[0]) for line in NEURON), *((NEURON[0], form) for form in FORMS[1:])]
)
def test_a_hardware_error_of_neuron_is_no_go_with_its_device(line: str, form: str) -> None:
    """With the driver's own action; whether the type is declared or not."""
    head = HEAD if form.startswith("[") else ""
    for instance_type in ("", "trn1.32xlarge"):
        made = verdict(head + form.format(line), instance_type)
        (said,) = [finding for finding in made.findings if finding.check == "neuron.ecc"]

        assert Answer.NO_GO is made.answer, [f.message for f in made.findings]
        assert {"device 0", "device 11", "device 3", "device 7", "device 5", "device 2"} & set(said.elements)
        assert line.partition("=")[2].partition(" ")[0] in said.message + said.evidence
        assert "action=" not in line or line.rpartition("=")[2] in said.message + said.evidence


@pytest.mark.parametrize("line", RESET)
def test_the_drivers_own_words_call_for_a_reset(line: str) -> None:
    """At least a WARN, with the GPU's address."""
    made = verdict(f"{HEAD}[  901.000000] {line}\n")
    (said,) = [finding for finding in made.findings if finding.check == "kernel.xid"]

    assert made.level in (Level.WARN, Level.FAIL)
    assert "reset" in said.message
    assert any(address in said.message for address in ("0000:9b:00.0", "0001:07:00.0", "0000:10:1c.0"))


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:9b:00): 63, pid=1896, Row Remapper: New row marked for remapping",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20",
        "NVRM: GPU at PCI:0000:ca:00: GPU-7d1be7a0-1111-4222-8333-944455566677",
        "python3: the GPU likely needs to be reset",
        "audit: comm=reset gpu to activate",
    ],
)
def test_words_that_call_for_nothing_stay_a_pass(line: str) -> None:
    """An Xid that the catalogue ignores, and another program's words."""
    assert Level.PASS is verdict(f"{HEAD}[  901.000000] {line}\n").level
