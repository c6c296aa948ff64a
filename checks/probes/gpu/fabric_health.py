"""Reads what a GPU reports about the NVLink fabric of the switches: its state, and its health mask bit by bit.

The health mask packs several answers, each of which can be "not supported": a mask that is not 0 is normal, and
HGX machines have a cluster UUID of zeros. Bits as in nvml.h (NVML_GPU_FABRIC_HEALTH_MASK_*).
"""

from __future__ import annotations

from ctypes import byref
from typing import Any

from checks.probes.gpu.fields import UNSUPPORTED, NotPlausible, Nvml, Reader

STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
# Field -> the lowest bit of its two: 1 says that the fault is there, 2 that it is not, 0 that nobody looks.
FAULT_BITS = {"degraded_bandwidth": 0, "route_recovery": 2, "route_unhealthy": 4, "access_timeout": 6}
MISCONFIGURATION_BIT, MISCONFIGURATION_WIDTH = 8, 0xF
NO_MISCONFIGURATION = 1
# Two bits each; here 2 is the fault: no partition, no connection to the fabric manager.
ABSENCE_BITS = {"partition_missing": 12, "manager_disconnected": 14}
FIELDS = (
    "fabric_state",
    "fabric_status",
    "fabric_summary",
    *FAULT_BITS,
    "misconfiguration",
    *ABSENCE_BITS,
)


def decode(mask: int) -> dict[str, int]:
    """The answers that a health mask holds; those that it does not support are left out. Raises NotPlausible."""
    found: dict[str, int] = {}
    for name, bit in FAULT_BITS.items():
        if (said := mask >> bit & 3) == 3:
            raise NotPlausible(f"health mask {mask:#x}: {name} has no value 3")
        if said:
            found[name] = int(said == 1)
    for name, bit in ABSENCE_BITS.items():
        if (said := mask >> bit & 3) == 3:
            raise NotPlausible(f"health mask {mask:#x}: {name} has no value 3")
        if said:
            found[name] = int(said == 2)
    if code := mask >> MISCONFIGURATION_BIT & MISCONFIGURATION_WIDTH:
        found["misconfiguration"] = 0 if code == NO_MISCONFIGURATION else code
    return found


def _info(nvml: Nvml, handle: Any) -> Any:
    """The newest version of the record that the driver fills; older ones lack the summary, the oldest the mask."""
    for kind, call in (
        ("c_nvmlGpuFabricInfo_v3_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV"),
    ):
        try:
            info = getattr(nvml, kind)()
            getattr(nvml, call)(handle, byref(info))
            return info
        except nvml.NVMLError as error:
            if getattr(error, "value", None) not in UNSUPPORTED:
                raise
        except AttributeError:
            continue  # this pynvml lacks the version
    info = nvml.c_nvmlGpuFabricInfo_t()
    nvml.nvmlDeviceGetGpuFabricInfo(handle, byref(info))
    return info


def _plain(name: str) -> Reader:
    def read(nvml: Nvml, handle: Any) -> int:
        info = _info(nvml, handle)
        if not hasattr(info, name):
            raise NotPlausible(f"this driver does not report {name}")
        value = int(getattr(info, name))
        if value == 0 and name in ("state", "healthSummary"):
            raise NotPlausible("not supported")
        return value

    return read


def _bit(name: str) -> Reader:
    def read(nvml: Nvml, handle: Any) -> int:
        info = _info(nvml, handle)
        if not hasattr(info, "healthMask"):
            raise NotPlausible("this driver does not report its health mask")
        found = decode(int(info.healthMask))
        if name not in found:
            raise NotPlausible(f"not supported (health mask {int(info.healthMask):#x})")
        return found[name]

    return read


READERS: dict[str, Reader] = {
    "fabric_state": _plain("state"),
    "fabric_status": _plain("status"),
    "fabric_summary": _plain("healthSummary"),
    **{name: _bit(name) for name in (*FAULT_BITS, "misconfiguration", *ABSENCE_BITS)},
}
