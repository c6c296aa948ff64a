"""gpu.*: what every check of a node's GPUs makes of whole nodes and of those that cannot be asked; recordings."""

from __future__ import annotations

from collections.abc import Iterator

from checks.explain.reading import OutputKind
from checks.model import Level
from checks.probes.gpu.state import (
    ecc,
    fabric,
    memory,
    modes,
    power,
    processes,
    recovery_action,
    row_remap,
    utilisation,
)
from tests.corpus.case import Case, Recording
from tests.corpus.gpu_machines import (
    A100,
    B200,
    DENIED,
    LOST,
    MISSING,
    OLD,
    T4,
    UNSUPPORTED,
    blind,
    error,
    hanging,
    healthy,
    node,
    without_pynvml,
)

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
        yield blind(check, "no pynvml", without_pynvml(check))
        yield blind(check, "no NVML library", {"node/nvmlInit": error(MISSING)})
        yield blind(check, "NVML does not start", {"node/nvmlInit": error(999)})
        yield blind(check, "NVML lists no GPU", node(check, gpus=0))
        yield blind(check, "NVML lists 7 of 8", node(check, gpus=7))
        yield blind(check, "one GPU is lost", {"3/*": error(LOST)})
        yield blind(check, "not permitted", {f"*/{call}": error(DENIED)})
        yield blind(check, "not supported here", {f"*/{call}": error(UNSUPPORTED)})
        yield blind(check, "driver too old", {f"6/{call}": error(OLD)})
        yield blind(check, "deprecated by driver 595", {f"6/{call}": error(26)})
    for check in (memory, utilisation, processes, power, ecc, row_remap, recovery_action):
        yield healthy(check, "8 x B200", {}, B200)
        yield healthy(check, "4 x T4", {}, T4)
        yield healthy(check, "8 x A100", {}, A100)
    yield blind(ecc, "the driver hangs", hanging(ecc))


CASES = list(_every())
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
    r"<c2c_mode>|<virtualization_mode>|<sparse_operation_mode>|<egm>|<min_power_limit>|<unrepairable_memory>": NOT_JUDGED,
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
