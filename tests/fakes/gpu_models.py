"""GPU models and drivers as NVML shows them healthy: what the stand-in for pynvml answers unless a dial says otherwise."""

from __future__ import annotations

from typing import Any

# Figures of nvidia-smi -q -x on the models: memory and the driver's reserve in MiB, links, PCIe, clocks, watts.
MODELS: dict[str, dict[str, Any]] = {
    "H100": {
        "name": "NVIDIA H100 80GB HBM3", "vbios": "96.00.A5.00.01", "total": 81559, "reserved": 480, "links": 18,
        "generation": 5, "width": 16, "sm": 1980, "watts": 700, "margin": 41, "max_c": 87, "remap": True, "mig": True,
        "repair": True, "fabric": 3, "mask": 0, "summary": 0, "hbm": True, "sram": True, "nvlink": 4,
    },
    "B200": {
        "name": "NVIDIA B200", "vbios": "97.00.88.00.0F", "total": 183359, "reserved": 728, "links": 18,
        "generation": 5, "width": 16, "sm": 1965, "watts": 1000, "margin": 39, "remap": True, "mig": True,
        "repair": True, "fabric": 3, "mask": 0x80, "summary": 1, "hbm": True, "sram": True, "nvlink": 5,
    },
    "A100": {
        "name": "NVIDIA A100-SXM4-40GB", "vbios": "92.00.45.00.03", "total": 40960, "reserved": 518, "links": 12,
        "generation": 4, "width": 16, "sm": 1410, "watts": 400, "max_c": 85, "remap": True, "mig": True,
        "hbm": True, "sram": True, "nvlink": 3,
    },
    "H200": {
        "name": "NVIDIA H200", "vbios": "96.00.CE.00.01", "total": 143771, "reserved": 626, "links": 18,
        "generation": 5, "width": 16, "sm": 1980, "watts": 700, "margin": 43, "remap": True, "mig": True,
        "repair": True, "fabric": 3, "mask": 0, "summary": 0, "hbm": True, "sram": True, "nvlink": 4,
    },
    "A10G": {
        "name": "NVIDIA A10G", "vbios": "94.02.75.00.01", "total": 23028, "reserved": 295, "links": 0,
        "generation": 4, "width": 8, "sm": 1710, "watts": 300, "max_c": 88, "remap": True, "sram": True,
    },
    "T4": {
        "name": "Tesla T4", "vbios": "90.04.A7.00.01", "total": 15360, "reserved": 448, "links": 0,
        "generation": 3, "width": 8, "sm": 1590, "watts": 70, "max_c": 85,
    },
}  # fmt: skip

# The first driver whose library exports the call, and the first that knows the field: NVML's change log. Without the
# call NVML says "function not found", without the field "not supported", and to a newer record "version mismatch".
CALLS_SINCE = {
    "nvmlDeviceGetMemoryInfo_v2": 510, "nvmlDeviceGetGpuFabricInfo": 525, "nvmlDeviceGetSramEccErrorStatus": 535,
    "nvmlDeviceGetCurrentClocksEventReasons": 535, "nvmlDeviceGetGpuFabricInfoV": 550,
    "nvmlDeviceGetMarginTemperature": 570, "nvmlDeviceGetTemperatureV": 570, "nvmlDeviceGetRepairStatus": 580,
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": 580,
}  # fmt: skip
FIELDS_SINCE = {
    **dict.fromkeys((161, 162, 163), 525), **dict.fromkeys(range(205, 223), 560), 230: 565,
    **dict.fromkeys((269, 270, 271), 575),
}  # fmt: skip
RECORDS_SINCE = {"nvmlDeviceGetGpuFabricInfoV:3": 580}
CUDA_OF = {510: 11060, 525: 12000, 535: 12020, 550: 12040, 565: 12070, 570: 12080, 575: 12090, 580: 13000}
NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH = 3, 13, 25


def answers_of(driver: str) -> dict[str, Any]:
    """What NVML of this driver ("550.163.01") says of itself, and in place of what came with a later one."""
    branch = int(driver.partition(".")[0])
    later: dict[str, int] = {
        **{name: VERSION_MISMATCH for name, first in RECORDS_SINCE.items() if branch < first},
        **{name: FUNCTION_NOT_FOUND for name, first in CALLS_SINCE.items() if branch < first},
        **{f"field:{ident}": NOT_SUPPORTED for ident, first in FIELDS_SINCE.items() if branch < first},
    }
    return {
        **{f"*/{name}": {"error": code} for name, code in later.items()},
        "node/nvmlSystemGetDriverVersion": driver,
        "node/nvmlSystemGetCudaDriverVersion_v2": CUDA_OF[max(first for first in CUDA_OF if first <= branch)],
    }
