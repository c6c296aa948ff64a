"""GPU models as NVML shows them healthy: what the stand-in for pynvml answers unless a dial says otherwise."""

from __future__ import annotations

from typing import Any

# Figures of nvidia-smi -q -x on the models: memory and the driver's reserve in MiB, links, PCIe, clocks, watts.
MODELS: dict[str, dict[str, Any]] = {
    "H100": {
        "name": "NVIDIA H100 80GB HBM3", "vbios": "96.00.A5.00.01", "total": 81559, "reserved": 480, "links": 18,
        "generation": 5, "width": 16, "sm": 1980, "watts": 700, "margin": 41, "remap": True, "mig": True,
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
    "T4": {
        "name": "Tesla T4", "vbios": "90.04.A7.00.01", "total": 15360, "reserved": 448, "links": 0,
        "generation": 3, "width": 8, "sm": 1590, "watts": 70, "max_c": 85,
    },
}  # fmt: skip
