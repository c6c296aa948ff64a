"""gpu.inventory: sources that agree, that lack a GPU, that cannot look."""

from __future__ import annotations

from checks.probes.gpu import inventory as found
from tests.corpus.gpu_machines import (
    A100,
    CONFIGURATION,
    DENIED,
    LOST,
    MISSING,
    T4,
    WARN,
    blind,
    error,
    faulty,
    healthy,
    inventory,
    nowhere,
    quick,
    three_nodes,
)
from tests.fakes import gpu_node

CASES = [
    healthy(found.inventory, "8 x H100", inventory()),
    healthy(found.inventory, "4 x T4", quick("T4"), T4),
    healthy(found.inventory, "no /proc, as in a sandbox", quick(proc=None)),
    healthy(found.inventory, "three nodes alike", three_nodes(), nodes=3),
    faulty(
        found.inventory,
        "no GPU, no driver",
        quick(proc=None, dev=0, gpus=0, cuda=0),
        "lacks 8 GPUs according to the kernel's files",
    ),
    faulty(
        found.inventory,
        "a driver that lists nothing",
        quick(proc=0, dev=8),
        "lacks 8 GPUs according to the kernel's files",
    ),
    faulty(
        found.inventory,
        "7 in /proc",
        quick(proc=7),
        "gpus_missing lacks 1 GPU according to the kernel's files",
    ),
    faulty(
        found.inventory, "7 in /dev", quick(dev=7), "gpus_missing lacks 1 GPU according to the kernel's files"
    ),
    faulty(found.inventory, "off the bus", inventory(told={"3/*": error(LOST)}), "GPU 3: uuid: GPU is lost"),
    faulty(
        found.inventory,
        "off the bus, its name remembered",
        quick(told={"3/nvmlDeviceGetMemoryInfo": error(LOST), "3/nvmlDeviceGetTemperatureV": error(LOST)}),
        "gpus_missing lacks 1 GPU according to nvml",
    ),
    faulty(
        found.inventory,
        "waits for a reset",
        quick(told={"2/nvmlDeviceGetMemoryInfo": error(16)}),
        "gpus_missing lacks 1 GPU according to nvml",
    ),
    faulty(
        found.inventory,
        "unknown error",
        quick(told={"2/nvmlDeviceGetTemperatureV": error(999)}),
        "gpus_missing lacks 1 GPU according to nvml",
    ),
    faulty(found.inventory, "NVML lists 7", quick(gpus=7), "gpus_missing lacks 1 GPU according to nvml"),
    faulty(found.inventory, "CUDA sees 7", quick(cuda=7), "gpus_missing lacks 1 GPU according to cuda"),
    faulty(found.inventory, "CUDA sees none", quick(cuda=0), "gpus_missing lacks 8 GPUs according to cuda"),
    faulty(
        found.inventory,
        "more than declared",
        quick(kind="p5.4xlarge"),
        "gpus_missing has 7 GPUs too many according to the kernel's files, nvml and cuda",
        kind="p5.4xlarge",
    ),
    faulty(
        found.inventory,
        "two of one UUID",
        quick(told={"3/nvmlDeviceGetUUID": gpu_node.module().uuid_of(4)}),
        "duplicate_uuids",
    ),
    faulty(
        found.inventory,
        "another GPU than CUDA's",
        quick(told={"3/nvmlDeviceGetUUID": gpu_node.module().uuid_of(9)}),
        "unlike_uuids",
    ),
    faulty(
        found.inventory,
        "hidden from CUDA",
        inventory(environment={"CUDA_VISIBLE_DEVICES": "0,1"}),
        "hidden_from_cuda",
        cause=CONFIGURATION,
    ),
    faulty(
        found.inventory,
        "another type than declared",
        quick(kind=A100),
        "unlike_models",
        cause=CONFIGURATION,
        kind=A100,
    ),
    faulty(
        found.inventory,
        "one GPU of another model",
        quick(told={"6/nvmlDeviceGetName": "NVIDIA H100 PCIe"}),
        "GPU 6 (0000:b9:00.0) is NVIDIA H100 PCIe",
        cause=CONFIGURATION,
    ),
    faulty(
        found.inventory,
        "one VBIOS is another",
        quick(told={"1/nvmlDeviceGetVbiosVersion": "96.00.74.00.01"}),
        "GPU 1 (0000:64:00.0)",
        WARN,
        CONFIGURATION,
    ),
    faulty(
        found.inventory,
        "one node's driver is another",
        three_nodes(told={"node/nvmlSystemGetDriverVersion": "550.54.14"}),
        "driver",
        cause=CONFIGURATION,
        nodes=3,
    ),
    faulty(
        found.inventory,
        "the driver was changed without a reboot",
        quick(told={"node/nvmlInit": error(18)}),
        "without a reboot",
        cause=CONFIGURATION,
    ),
    faulty(
        found.inventory,
        "no GPU in /dev, and NVML hangs",
        inventory(proc=None, dev=0, cuda=0, source_s=0.4, told={"node/nvmlInit": {"hang": 60}}),
        "lacks 8 GPUs according to the kernel's files",
    ),
    faulty(
        found.inventory,
        "no power",
        quick(told={"2/nvmlDeviceGetHandleByIndex": error(8)}),
        "gpus_missing lacks 1 GPU according to nvml",
    ),
    blind(found.inventory, "one GPU is refused", quick(told={"2/nvmlDeviceGetHandleByIndex": error(DENIED)})),
    blind(found.inventory, "neither /proc nor /dev", nowhere),
    blind(found.inventory, "NVML hangs", inventory(source_s=0.5, told={"node/nvmlInit": {"hang": 60}})),
    blind(found.inventory, "CUDA hangs", inventory(source_s=0.5, cuda={"hang": 60, "error": 999})),
    blind(found.inventory, "no NVML library", quick(told={"node/nvmlInit": error(MISSING)})),
    blind(found.inventory, "the fabric manager is down (802)", inventory(cuda={"error": 802})),
    blind(
        found.inventory, "a VBIOS cannot be read", quick(told={"5/nvmlDeviceGetVbiosVersion": error(DENIED)})
    ),
    blind(
        found.inventory, "no driver version", quick(told={"node/nvmlSystemGetDriverVersion": error(DENIED)})
    ),
]
