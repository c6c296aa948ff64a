"""Ten faults for each kind of machine: what is planted on node 0, which check sees it, and the part that must be named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checks.facts.instances import Instance
from tests.worlds.machine import Faults

LOST = {"error": 15}
NODE = "{node}"  # the first node's name


@dataclass(frozen=True)
class Fault:
    """`check` is run again, on the machine with the fault, after the checks on which it depends. `names` stands in a FAIL's subject
    or message.
    """

    name: str
    check: str
    names: str
    faults: Faults = field(default_factory=Faults)
    after: tuple[str, ...] = ()


def faults_of(instance: Instance, nodes: int) -> tuple[Fault, ...]:
    """The ten of the type."""
    if instance.neuron_devices:
        return _trainium()
    if not instance.gpus:
        return _cpu()
    own = instance.gpus - 1
    made = [*_any_gpu(own), *_gemm(own)]
    if instance.nvlinks:
        made += [_nvml(own, "an NVLink is down", "gpu.nvlink", "nvmlDeviceGetNvLinkState:3", 0)]
        made += [_nvml(own, "PCIe lanes are lost", "gpu.pcie", "nvmlDeviceGetCurrPcieLinkWidth", 4, True)]
    else:
        slow = {"h2d_share": {f"cuda:{own}": 0.05}}
        words = "host memory is reached slowly"
        made += [Fault(words, "compute.transfer", f"rank-{own}", Faults(torch=slow))]
        failed = Faults(tools={"diag": "software"})
        made += [Fault("DCGM's diagnostic fails", "dcgm.diag", f"GPU {own}", failed)]
    if instance.gpus > 1:
        wrong = Faults(torch={"all_reduce_wrong": {f"cuda:{own}": 1}})
        made += [Fault("NCCL sums an element wrongly", "nccl.all_reduce", f"rank-{own}", wrong)]
        made += [_fabric(instance, nodes)]
    else:
        wrong = Faults(torch={"h2d_wrong": {"cuda:0": 3}})
        made += [Fault("words arrive wrongly over PCIe", "compute.transfer", "rank-0", wrong)]
        used = "nvmlDeviceGetMemoryInfo_v2:used"
        made += [_nvml(0, "somebody holds the GPU's memory", "gpu.memory", used, 20 << 30)]
    return tuple(made)


def _nvml(gpu: int, name: str, check: str, call: str, value: Any, ranks: bool = False) -> Fault:
    return Fault(name, check, f"rank-{gpu}" if ranks else f"GPU {gpu}", Faults(nvml={f"{gpu}/{call}": value}))


def _any_gpu(own: int) -> list[Fault]:
    lost = Faults(nvml={f"{own}/*": LOST, f"{own}/nvmlDeviceGetHandleByIndex": LOST}, inventory={"cuda": own})
    # nvml.h, nvmlClocksEventReasonHwThermalSlowdown
    hot = 0x40
    reasons = "nvmlDeviceGetCurrentClocksEventReasons"
    return [
        Fault("a lost GPU", "gpu.inventory", NODE, lost),
        _nvml(own, "an uncorrected ECC error", "gpu.ecc", "nvmlDeviceGetMemoryErrorCounter:1:0:2", 3),
        _nvml(own, "a row cannot be remapped", "gpu.row_remap", "nvmlDeviceGetRemappedRows", [0, 1, 0, 1]),
        _nvml(own, "a thermal slowdown", "gpu.clocks", reasons, hot, True),
    ]  # fmt: skip


def _gemm(own: int) -> list[Fault]:
    device, slow = f"cuda:{own}", 0.4
    wrong = Faults(torch={"product_wrong": {device: 1}})
    memory = Faults(torch={"copy_share": {device: slow}, "triad_share": {device: slow}})
    return [
        Fault("a wrong product", "compute.gemm", f"rank-{own}", wrong),
        Fault("slow memory", "compute.memory_bandwidth", f"rank-{own}", memory),
    ]


def _fabric(instance: Instance, nodes: int) -> Fault:
    if instance.ib_ports:
        half = Faults(tools={"ib": {"rate": "200 Gb/sec (2X NDR)"}})
        return Fault("a port of InfiniBand has half its rate", "ib.ports", "mlx5_0:1", half)
    if (instance.efa_devices or 0) > 1:
        return Fault("an EFA device is missing", "efa.devices", NODE, Faults(tools={"efa_missing": 1}))
    fallback = Faults(torch={"tcp": True})
    return Fault("NCCL falls back to TCP", "nccl.transport", NODE, fallback, ("nccl.all_reduce",))


def _trainium() -> tuple[Fault, ...]:
    counter = "tree/neuron/neuron{}/stats/hardware/{}"
    dram, sram = counter.format(3, "mem_ecc_uncorrected"), counter.format(9, "sram_ecc_uncorrected")
    refused = Faults(tools={"efa": {"rdmap80s0": "refuse"}})
    return (
        Fault("a Neuron device is missing", "neuron.devices", NODE, Faults(tools={"ls": "ls_trn1_fifteen.json"})),
        Fault("a Neuron link is down", "neuron.devices", NODE, Faults(tools={"ls": "ls_trn1_link_down.json"})),
        Fault("somebody holds a Neuron device", "neuron.devices", NODE, Faults(tools={"ls": "ls_trn1_busy.json"})),
        Fault("an uncorrected error of a Neuron device's memory", "neuron.ecc", "device 3", Faults(files={dram: "2\n"})),
        Fault("an uncorrected error of a Neuron device's SRAM", "neuron.ecc", "device 9", Faults(files={sram: "1\n"})),
        Fault("an EFA device is missing", "efa.devices", NODE, Faults(tools={"efa_missing": 1})),
        Fault("an EFA device carries nothing", "efa.loopback", "rdmap80s0", refused),
        *_cpu()[:3],
    )  # fmt: skip


def _cpu() -> tuple[Fault, ...]:
    def torch(**faults: Any) -> Faults:
        return Faults(torch={name: {"cpu": value} for name, value in faults.items()})

    return (
        Fault("a wrong product", "compute.gemm", NODE, torch(product_wrong=1)),
        Fault("wrong words in memory", "compute.memory_bandwidth", NODE, torch(copy_wrong=2)),
        Fault("a wrong sum of all ranks", "collective.all_reduce", NODE, torch(all_reduce_wrong=1)),
        Fault("wrong parts of all ranks", "collective.all_gather", NODE, torch(all_gather_wrong=1)),
        Fault("products at a thousandth of the rate", "compute.gemm", NODE, torch(fp32_share=0.001)),
        Fault("memory at a hundredth of the rate", "compute.memory_bandwidth", NODE, torch(copy_share=0.01)),
        Fault("collectives at a thirtieth of the rate", "collective.all_reduce", "cluster", torch(all_share=0.035)),
        Fault("wrong words between two ranks", "collective.pairs", NODE, torch(message_wrong=4)),
        Fault("a training whose loss is not a number", "training.step", NODE, torch(product_wrong=1, nan=1)),
        Fault("an interface that is not there", "environment.lint", NODE,
            Faults(environment={"GLOO_SOCKET_IFNAME": "nosuch0"})),
    )  # fmt: skip
