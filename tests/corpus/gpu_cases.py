"""gpu.*: what every check of a node's GPUs makes of whole nodes and of those that cannot be asked; recordings."""

from __future__ import annotations

import os
from collections.abc import Iterator

from checks.explain.reading import OutputKind
from checks.model import Level
from checks.probes.gpu.inventory import inventory as INVENTORY
from checks.probes.gpu.state import (
    ecc,
    fabric,
    memory,
    modes,
    power,
    processes,
    recovery_action,
    retired_pages,
    row_remap,
    utilisation,
)
from tests.corpus.case import Case, Recording
from tests.corpus.gpu_machines import (
    A100,
    APPLICATION,
    B200,
    CONFIGURATION,
    DENIED,
    LOST,
    MIB,
    MISSING,
    OLD,
    T4,
    UNSUPPORTED,
    WARN,
    WATTS,
    error,
    faulty,
    hanging,
    healthy,
    inventory,
    node,
    nowhere,
    quick,
    three_nodes,
    unmeasurable,
    without_pynvml,
)
from tests.fakes import gpu_node

NODE_CHECKS = {
    memory: "nvmlDeviceGetMemoryInfo_v2",
    utilisation: "nvmlDeviceGetUtilizationRates",
    processes: "nvmlDeviceGetComputeRunningProcesses",
    modes: "nvmlDeviceGetComputeMode",
    power: "nvmlDeviceGetEnforcedPowerLimit",
    fabric: "nvmlDeviceGetGpuFabricInfo",
    ecc: "nvmlDeviceGetSramEccErrorStatus",
    row_remap: "nvmlDeviceGetRemappedRows",
    recovery_action: "field:230",
}


def _every() -> Iterator[Case]:
    """What every check of a node's GPUs must make of a whole node, and of one that cannot be asked."""
    for check, call in NODE_CHECKS.items():
        yield healthy(check, "8 x H100", {})
        yield unmeasurable(check, "no pynvml", without_pynvml(check))
        yield unmeasurable(check, "no NVML library", {"node/nvmlInit": error(MISSING)})
        yield unmeasurable(check, "NVML does not start", {"node/nvmlInit": error(999)})
        yield unmeasurable(check, "NVML lists no GPU", node(check, gpus=0))
        yield unmeasurable(check, "NVML lists 7 of 8", node(check, gpus=7))
        yield unmeasurable(check, "one GPU is lost", {"3/*": error(LOST)})
        yield unmeasurable(check, "not permitted", {f"*/{call}": error(DENIED)})
        yield unmeasurable(check, "not supported here", {f"*/{call}": error(UNSUPPORTED)})
        yield unmeasurable(check, "driver too old", {f"6/{call}": error(OLD)})
        yield unmeasurable(check, "deprecated by driver 595", {f"6/{call}": error(26)})
    for check in (memory, utilisation, processes, power, ecc, row_remap, recovery_action):
        yield healthy(check, "8 x B200", {}, B200)
        yield healthy(check, "4 x T4", {}, T4)
        yield healthy(check, "8 x A100", {}, A100)
    yield unmeasurable(ecc, "the driver hangs", hanging(ecc))


# What memory errors left behind.
SRAM = "nvmlDeviceGetSramEccErrorStatus"
COUNTER = "nvmlDeviceGetMemoryErrorCounter"
HEALTH = [
    healthy(ecc, "corrected errors", {f"5/{COUNTER}:0:0:2": 3, f"5/{COUNTER}:0:1:2": 40}),
    faulty(ecc, "uncorrected in DRAM", {f"5/{COUNTER}:1:0:2": 1},
        "dram_uncorrected_volatile GPU 5 (0000:a8:00.0) has 1 uncorrected error in its memory since the drive"),
    faulty(ecc, "uncorrected in SRAM (parity)", {f"5/{SRAM}": {"volatileUncParity": 1}}, "sram_uncorrected_volatile"),
    faulty(ecc, "uncorrected in SRAM (SEC-DED)", {f"5/{SRAM}": {"volatileUncSecDed": 2}}, "GPU 5"),
    faulty(ecc, "uncorrected in a T4's SRAM", {f"1/{COUNTER}:1:0:7": 1}, "GPU 1", kind=T4),
    faulty(ecc, "uncorrected before", {f"5/{COUNTER}:1:1:2": 2}, "GPU 5", WARN),
    faulty(ecc, "SRAM beyond its maker's patience", {f"5/{SRAM}": {"aggregateUncParity": 5}}, "GPU 5"),
    faulty(ecc, "threshold exceeded", {f"5/{SRAM}": {"bThresholdExceeded": 1}}, "sram_threshold_exceeded"),
    faulty(ecc, "SRAM corrects all the time", {f"5/{SRAM}": {"volatileCor": 20_000}}, "GPU 5"),
    faulty(ecc, "DRAM corrects all the time", {f"5/{COUNTER}:0:0:2": 30_000_000}, "GPU 5"),
    faulty(ecc, "where it was", {f"5/{SRAM}": {"aggregateUncParity": 5, "aggregateUncBucketL2": 5}}, "sram_l2=5"),
    faulty(ecc, "ECC off", {"5/nvmlDeviceGetEccMode": [0, 0]}, "ecc_current", cause=CONFIGURATION),
    faulty(ecc, "ECC off next time", {"5/nvmlDeviceGetEccMode": [1, 0]}, "ecc_pending", WARN, CONFIGURATION),
    faulty(ecc, "channel repair", {"5/nvmlDeviceGetRepairStatus": [1, 0]}, "channel_repair_pending"),
    faulty(ecc, "TPC repair", {"5/nvmlDeviceGetRepairStatus": [0, 1]}, "tpc_repair_pending"),
    unmeasurable(ecc, "no count of DRAM", {f"5/{COUNTER}:1:0:2": error(UNSUPPORTED)}),
    unmeasurable(ecc, "all ones", {f"5/{COUNTER}:1:0:2": 0xFFFFFFFFFFFFFFFF}),
    faulty(row_remap, "pending", {"5/nvmlDeviceGetRemappedRows": [0, 1, 1, 0]},
        "remap_pending GPU 5 (0000:a8:00.0) waits for a reset that replaces a broken row of its memory"),
    faulty(row_remap, "failed", {"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 1]},
        "remap_failed GPU 5 (0000:a8:00.0) could not replace a broken row of its memory"),
    faulty(row_remap, "unrepairable", {"5/nvmlDeviceGetUnrepairableMemoryFlag_v1": 1}, "remap_failed GPU 5 (0000:a8:00.0) could not"),
    healthy(row_remap, "a GPU without that flag", {"*/nvmlDeviceGetUnrepairableMemoryFlag_v1": error(UNSUPPORTED)}),
    faulty(row_remap, "one row", {"5/nvmlDeviceGetRemappedRows": [0, 1, 0, 0]}, "GPU 5", WARN),
    faulty(row_remap, "11 rows", {"5/nvmlDeviceGetRemappedRows": [0, 11, 0, 0]}, "GPU 5"),
    faulty(row_remap, "a bank without spare rows", {"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "none": 1}},
        "banks_none GPU 5 (0000:a8:00.0) has 1 memory bank without a spare row"),
    faulty(row_remap, "a bank with few spare rows", {"5/nvmlDeviceGetRowRemapperHistogram": {"max": 2559, "low": 1}}, "banks_low",
        WARN),
    unmeasurable(row_remap, "no histogram", {"*/nvmlDeviceGetRowRemapperHistogram": error(UNSUPPORTED)}),
    healthy(retired_pages, "8 x H100, which remap rows", {}),
    healthy(retired_pages, "4 x T4", {}, T4),
    healthy(retired_pages, "two pages", {"1/nvmlDeviceGetRetiredPages:0": [1, 2]}, T4),
    faulty(retired_pages, "pending", {"1/nvmlDeviceGetRetiredPagesPendingStatus": 1}, "GPU 1", kind=T4),
    faulty(retired_pages, "60 pages", {"1/nvmlDeviceGetRetiredPages:0": list(range(60))}, "GPU 1", kind=T4),
    faulty(retired_pages, "double-bit", {"1/nvmlDeviceGetRetiredPages:1": [7]}, "GPU 1", WARN, kind=T4),
    unmeasurable(retired_pages, "not permitted", {"1/nvmlDeviceGetRetiredPages:1": error(DENIED)}, T4),
    unmeasurable(retired_pages, "a T4 that does not tell", {"*/nvmlDeviceGetRetiredPagesPendingStatus": error(UNSUPPORTED)}, T4),
    unmeasurable(retired_pages, "no pynvml", without_pynvml(retired_pages)),
    *(
        faulty(recovery_action, f"action {action}", {"5/field:230": action},
            f"GPU 5 (0000:a8:00.0) calls for a repair (the driver's recovery action {action})")
        for action in range(1, 8)
    ),
    unmeasurable(recovery_action, "a driver that does not say", {"*/field:230": error(UNSUPPORTED)}),
    unmeasurable(recovery_action, "NaN", {"5/field:230": float("nan")}),
]  # fmt: skip

# Strangers, settings, and the fabric's bits.
IDLE = [
    healthy(memory, "a few MiB", {"2/nvmlDeviceGetMemoryInfo_v2:used": 12 * MIB}),
    faulty(memory, "a stranger's context", {"5/nvmlDeviceGetMemoryInfo_v2:used": 41_000 * MIB},
        "memory_used_mib GPU 5 (0000:a8:00.0) has 41,000 MiB of memory in use by another program", cause=APPLICATION),
    faulty(memory, "something small", {"5/nvmlDeviceGetMemoryInfo_v2:used": 100 * MIB}, "GPU 5", WARN, APPLICATION),
    faulty(memory, "a stack of memory is missing", {"5/nvmlDeviceGetMemoryInfo:total": 65_247 * MIB},
        "GPU 5 (0000:a8:00.0): memory_total_mib"),
    faulty(utilisation, "a stranger works", {"1/nvmlDeviceGetUtilizationRates": 97},
        "utilisation_percent GPU 1 (0000:64:00.0) is 97 % busy, although nothing of the checks ran", cause=APPLICATION),
    unmeasurable(utilisation, "all ones", {"1/nvmlDeviceGetUtilizationRates": 0xFFFFFFFF}),
    faulty(processes, "a stranger's process", {"5/nvmlDeviceGetComputeRunningProcesses": [[os.getppid(), 4096 * MIB]]},
        f"pid {os.getppid()}", cause=APPLICATION),
    faulty(processes, "memory of a process is not told", {"5/nvmlDeviceGetComputeRunningProcesses": [[99_999_999, None]]},
        "memory unknown", cause=APPLICATION),
    faulty(processes, "a display server with 22 MiB", {"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, 22 * MIB]]},
        "graphics_mib GPU 0 (0000:53:00.0) has 22 MiB in use by graphics programs", WARN, APPLICATION),
    faulty(processes, "a program that draws with 300 MiB", {"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, 300 * MIB]]},
        "graphics_mib GPU 0 (0000:53:00.0) has 300 MiB in use by graphics programs", cause=APPLICATION),
    faulty(processes, "a display server whose memory is not told", {"0/nvmlDeviceGetGraphicsRunningProcesses": [[99_999_998, None]]},
        "graphics, memory unknown", cause=APPLICATION),
    faulty(processes, "a client of MPS", {"0/nvmlDeviceGetMPSComputeRunningProcesses": [[99_999_997, 5 * MIB]]}, "MPS",
        cause=APPLICATION),
    healthy(processes, "a driver without an MPS list", {"*/nvmlDeviceGetMPSComputeRunningProcesses": error(OLD)}),
    unmeasurable(processes, "graphics list refused", {"4/nvmlDeviceGetGraphicsRunningProcesses": error(DENIED)}),
]  # fmt: skip

SETTINGS = [
    healthy(modes, "4 x T4", {}, T4),
    faulty(modes, "persistence off", {"2/nvmlDeviceGetPersistenceMode": 0}, "GPU 2", WARN, CONFIGURATION),
    faulty(modes, "MIG on", {"2/nvmlDeviceGetMigMode": [1, 1]}, "mig_current", cause=CONFIGURATION),
    faulty(modes, "MIG pending", {"2/nvmlDeviceGetMigMode": [0, 1]}, "mig_pending", WARN, CONFIGURATION),
    faulty(modes, "exclusive", {"2/nvmlDeviceGetComputeMode": 3}, "compute_mode", cause=CONFIGURATION),
    faulty(modes, "prohibited", {"2/nvmlDeviceGetComputeMode": 2}, "2", cause=CONFIGURATION),
    unmeasurable(modes, "MIG is not told by an H100", {"*/nvmlDeviceGetMigMode": error(UNSUPPORTED)}),
    faulty(power, "capped a little", {"5/nvmlDeviceGetEnforcedPowerLimit": 600 * WATTS},
        "limit_ratio GPU 5 (0000:a8:00.0) has its power limit at 85.7 % of the default", WARN, CONFIGURATION),
    faulty(power, "capped by half", {"5/nvmlDeviceGetEnforcedPowerLimit": 350 * WATTS}, "GPU 5", cause=CONFIGURATION),
    unmeasurable(power, "no default", {"5/nvmlDeviceGetPowerManagementDefaultLimit": 0}),
    unmeasurable(power, "draws nothing", {"5/nvmlDeviceGetPowerUsage": 0}),
]  # fmt: skip

FABRIC = "nvmlDeviceGetGpuFabricInfo"
FABRIC_CASES = [
    healthy(fabric, "8 x B200, a mask that is not 0", {}, B200),
    healthy(fabric, "8 x A100, which have none", {}, A100),
    healthy(fabric, "all bits say no fault", {f"*/{FABRIC}": {"status": 0, "healthMask": 0x51AA}}),
    faulty(fabric, "not started", {f"*/{FABRIC}": {"status": 0, "state": 1}}, "fabric_state", cause=CONFIGURATION),
    faulty(fabric, "in progress", {f"4/{FABRIC}": {"status": 27, "state": 2}},
        "fabric_state GPU 4 (0000:97:00.0) has not joined the NVLink fabric (state 2)", cause=CONFIGURATION),
    faulty(fabric, "joined with an error", {f"4/{FABRIC}": {"status": 999}}, "fabric_status", cause=CONFIGURATION),
    *(
        faulty(fabric, name, {f"4/{FABRIC}": {"status": 0, "healthMask": mask}}, name)
        for name, mask in {
            "degraded_bandwidth": 0xA9,
            "route_recovery": 0xA6,
            "route_unhealthy": 0x9A,
            "access_timeout": 0x6A,
        }.items()
    ),
    *(
        faulty(fabric, name, {f"4/{FABRIC}": {"status": 0, "healthMask": mask}}, name.split()[0], cause=CONFIGURATION)
        for name, mask in {
            "misconfiguration (too few links)": 0x5AA,
            "misconfiguration (no partition)": 0x4AA,
            "partition_missing": 0x20AA,
            "manager_disconnected": 0x80AA,
        }.items()
    ),
    faulty(fabric, "unhealthy", {f"4/{FABRIC}": {"healthSummary": 2}}, "2", kind=B200),
    faulty(fabric, "limited capacity", {f"4/{FABRIC}": {"healthSummary": 3}},
        "fabric_summary GPU 4 (0000:97:00.0) has an unhealthy place in the NVLink fabric (summary 3)", kind=B200),
    unmeasurable(fabric, "a B200 without a summary", {f"4/{FABRIC}": {"healthSummary": 0}}, B200),
    unmeasurable(fabric, "a state of no meaning", {f"4/{FABRIC}": {"state": 0}}),
    unmeasurable(fabric, "a B200's driver that knows version 2 alone", {"*/nvmlDeviceGetGpuFabricInfoV:3": error(25)}, B200),
]  # fmt: skip

# Sources that agree, that lack a GPU, that cannot look.
INVENTORY_CASES = [
    healthy(INVENTORY, "8 x H100", inventory()),
    healthy(INVENTORY, "4 x T4", quick("T4"), T4),
    healthy(INVENTORY, "no /proc, as in a sandbox", quick(proc=None)),
    healthy(INVENTORY, "three nodes alike", three_nodes(), nodes=3),
    healthy(INVENTORY, "one of a node's eight GPUs, lent", quick(gpus=1, cuda=1, kind="p5.4xlarge"), "p5.4xlarge"),
    faulty(INVENTORY, "no GPU, no driver", quick(proc=None, dev=0, gpus=0, cuda=0), "lacks 8 GPUs according to the kernel's files"),
    faulty(INVENTORY, "a driver that lists nothing", quick(proc=0, dev=8), "lacks 8 GPUs according to the kernel's files"),
    faulty(INVENTORY, "7 in /proc", quick(proc=7), "gpus_missing lacks 1 GPU according to the kernel's files"),
    faulty(INVENTORY, "7 in /dev", quick(dev=7), "gpus_missing lacks 1 GPU according to the kernel's files"),
    faulty(INVENTORY, "off the bus", inventory(told={"3/*": error(LOST)}), "GPU 3: uuid: GPU is lost"),
    faulty(INVENTORY, "off the bus, its name remembered",
        quick(told={"3/nvmlDeviceGetMemoryInfo": error(LOST), "3/nvmlDeviceGetTemperatureV": error(LOST)}),
        "gpus_missing lacks 1 GPU according to nvml"),
    faulty(INVENTORY, "waits for a reset", quick(told={"2/nvmlDeviceGetMemoryInfo": error(16)}),
        "gpus_missing lacks 1 GPU according to nvml"),
    faulty(INVENTORY, "unknown error", quick(told={"2/nvmlDeviceGetTemperatureV": error(999)}),
        "gpus_missing lacks 1 GPU according to nvml"),
    faulty(INVENTORY, "NVML lists 7", quick(gpus=7), "gpus_missing lacks 1 GPU according to nvml"),
    faulty(INVENTORY, "CUDA sees 7", quick(cuda=7), "gpus_missing lacks 1 GPU according to cuda"),
    faulty(INVENTORY, "CUDA sees none", quick(cuda=0), "gpus_missing lacks 8 GPUs according to cuda"),
    faulty(INVENTORY, "more than declared", quick(kind="p5.4xlarge"),
        "gpus_missing has 7 GPUs too many according to the kernel's files, nvml and cuda", kind="p5.4xlarge"),
    faulty(INVENTORY, "two of one UUID", quick(told={"3/nvmlDeviceGetUUID": gpu_node.module().uuid_of(4)}), "duplicate_uuids"),
    faulty(INVENTORY, "another GPU than CUDA's", quick(told={"3/nvmlDeviceGetUUID": gpu_node.module().uuid_of(9)}), "unlike_uuids"),
    faulty(INVENTORY, "hidden from CUDA", inventory(environment={"CUDA_VISIBLE_DEVICES": "0,1"}), "hidden_from_cuda",
        cause=CONFIGURATION),
    faulty(INVENTORY, "another type than declared", quick(kind=A100), "unlike_models", cause=CONFIGURATION, kind=A100),
    faulty(INVENTORY, "one GPU of another model", quick(told={"6/nvmlDeviceGetName": "NVIDIA H100 PCIe"}),
        "GPU 6 (0000:b9:00.0) is NVIDIA H100 PCIe", cause=CONFIGURATION),
    faulty(INVENTORY, "one VBIOS is another", quick(told={"1/nvmlDeviceGetVbiosVersion": "96.00.74.00.01"}), "GPU 1 (0000:64:00.0)",
        WARN, CONFIGURATION),
    faulty(INVENTORY, "one node's driver is another", three_nodes(told={"node/nvmlSystemGetDriverVersion": "550.54.14"}), "driver",
        cause=CONFIGURATION, nodes=3),
    faulty(INVENTORY, "the driver was changed without a reboot", quick(told={"node/nvmlInit": error(18)}), "without a reboot",
        cause=CONFIGURATION),
    faulty(INVENTORY, "no GPU in /dev, and NVML hangs",
        inventory(proc=None, dev=0, cuda=0, source_s=0.4, told={"node/nvmlInit": {"hang": 60}}),
        "lacks 8 GPUs according to the kernel's files"),
    faulty(INVENTORY, "no power", quick(told={"2/nvmlDeviceGetHandleByIndex": error(8)}),
        "gpus_missing lacks 1 GPU according to nvml"),
    unmeasurable(INVENTORY, "one GPU is refused", quick(told={"2/nvmlDeviceGetHandleByIndex": error(DENIED)})),
    unmeasurable(INVENTORY, "neither /proc nor /dev", nowhere),
    unmeasurable(INVENTORY, "NVML hangs", inventory(source_s=0.5, told={"node/nvmlInit": {"hang": 60}})),
    unmeasurable(INVENTORY, "CUDA hangs", inventory(source_s=0.5, cuda={"hang": 60, "error": 999})),
    unmeasurable(INVENTORY, "no NVML library", quick(told={"node/nvmlInit": error(MISSING)})),
    unmeasurable(INVENTORY, "the fabric manager is down (802)", inventory(cuda={"error": 802})),
    unmeasurable(INVENTORY, "a VBIOS cannot be read", quick(told={"5/nvmlDeviceGetVbiosVersion": error(DENIED)})),
    unmeasurable(INVENTORY, "no driver version", quick(told={"node/nvmlSystemGetDriverVersion": error(DENIED)})),
]  # fmt: skip

CASES = [*_every(), *HEALTH, *IDLE, *SETTINGS, *FABRIC_CASES, *INVENTORY_CASES]
AT_REST = "what a GPU at rest does says nothing of what it does under load"
NOT_JUDGED = "no check judges it"
ANOTHER = "another line of the GPU says it"
IRRELEVANT = {
    r"<\?xml|<!DOCTYPE": "the format, which the elements show",
    r"<timestamp>|<product_brand>|<product_architecture>|<minor_number>|<serial>": NOT_JUDGED,
    r"<pci_(bus|device|domain|bus_id)>": ANOTHER,
    r"<(max|current)_link_gen>|<replay_counter>|<performance_state>|<sm_clock>": AT_REST,
    r"<clocks_event_reason_\w+>(Not )?Active<": AT_REST,
    r"<max_link_width>": "what the slot could do; the instance table says what it must",
    r"<reserved>|<free>": ANOTHER,
    r"<memory_util>|<(requested|max)_power_limit>": NOT_JUDGED,
    r"^None$": "the list of MIG devices, which the MIG mode says",
    r">N/A<": "what the model does not have is no evidence",
}
H100_IRRELEVANT = {
    r"<(average|instant)_power_draw>": "one of both says it",
    r"<state>|<status>": "the declared type has no NVLink, and so no fabric",
    r"<sram_(l2|sm|microcontroller|pcie|other)>": "where the errors were that another line counts",
    r"<row_remapper_histogram_(max|high|partial)>": "banks with spare rows left",
    r"<gpu_temp_\w+_threshold>": "the margin, on a GPU that has T.LIMIT, is measured from it",
}
# A whole output: what Prelaunch has no check for.
CAPTURED_IRRELEVANT = {
    r"<display_\w+>|<addressing_mode>|<accounting_mode|<pdi>|<multigpu_board>|<board_|<gpu_part_number>|<module_id>": NOT_JUDGED,
    r"<img_version>|<oem_object>|<ecc_object>|<gsp_firmware_version>|<pci_\w+(class|_id)>|<power_state>|^$": NOT_JUDGED,
    r"<c2c_mode>|<virtualization_mode>|<sparse_operation_mode>|<egm>|<min_power_limit>": NOT_JUDGED,
    r"<unrepairable_memory>No<": "a Yes alone is judged, because earlier drivers do not print the element",
    r"<(device_current|max_device)_link_gen>|<replay_rollover_counter>|<[tr]x_util>|<\w+coder_util>|<(jpeg|ofa)_util>": AT_REST,
    r"<clocks_event_reasons_counters_\w+>|<(graphics|mem|video)_clock>|<(value|supported_graphics_clock)>": AT_REST,
    r"<total>0 MiB<|<used>0 MiB<": "memory that is protected from the host: it has none",
    r"<session_count>|<average_(fps|latency)>": "encoding and copying of pictures",
    r"<remapped_row_\w+_inactive>": "rows that an earlier remapping set aside",
}  # fmt: skip
T4_IRRELEVANT = {r"<gpu_temp_(max|slow)_threshold>": "the greatest operating temperature is less"}
RECORDINGS = [
    Recording("gpu/h100_healthy.xml", OutputKind.NVIDIA_SMI, Level.PASS, "p5.4xlarge", irrelevant={**IRRELEVANT, **H100_IRRELEVANT}),
    Recording("gpu/h100_580_captured.xml", OutputKind.NVIDIA_SMI, Level.PASS, "p5.4xlarge",
        irrelevant={**IRRELEVANT, **H100_IRRELEVANT, **CAPTURED_IRRELEVANT}),
    Recording("gpu/t4_healthy.xml", OutputKind.NVIDIA_SMI, Level.PASS, "g4dn.xlarge", irrelevant={**IRRELEVANT, **T4_IRRELEVANT}),
    Recording("gpu/a10g_xorg.xml", OutputKind.NVIDIA_SMI, Level.WARN, "g5.xlarge"),
    Recording("gpu/h100_faults.xml", OutputKind.NVIDIA_SMI, Level.FAIL, "p5.48xlarge"),
    Recording("gpu/h100_reset_required.xml", OutputKind.NVIDIA_SMI, Level.FAIL, "p5.4xlarge"),
]  # fmt: skip
