"""Reads what a GPU reports about the NVLink fabric of the switches: its state, and its health mask bit by bit.

The health mask packs several answers, each of which can be "not supported": a mask that is not 0 is normal, and
HGX machines have a cluster UUID of zeros. Bits as in nvml.h (NVML_GPU_FABRIC_HEALTH_MASK_*).
"""

from __future__ import annotations

from ctypes import byref
from typing import Any

from checks.probes.gpu.fields import NotPlausible, Nvml, Reader, first_of

STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
# Field -> the lowest bit of its two, and which of their values is the fault: 1 or 2; the other one says that all is well, and 0 that
# nobody looks. Partition and manager are faults where they are not there.
BITS = {
    "degraded_bandwidth": (0, 1),
    "route_recovery": (2, 1),
    "route_unhealthy": (4, 1),
    "access_timeout": (6, 1),
    "partition_missing": (12, 2),
    "manager_disconnected": (14, 2),
}
MISCONFIGURATION_BIT, MISCONFIGURATION_WIDTH = 8, 0xF
NO_MISCONFIGURATION = 1
FIELDS = ("fabric_state", "fabric_status", "fabric_summary", *BITS, "misconfiguration")


def decode(mask: int) -> dict[str, int]:
    """The answers that a health mask holds; those that it does not support are left out. Raises NotPlausible."""
    answers: dict[str, int] = {}
    for name, (bit, fault) in BITS.items():
        if (bits := mask >> bit & 3) == 3:
            raise NotPlausible(f"health mask {mask:#x}: {name} has no value 3")
        if bits:
            answers[name] = int(bits == fault)
    if code := mask >> MISCONFIGURATION_BIT & MISCONFIGURATION_WIDTH:
        answers["misconfiguration"] = 0 if code == NO_MISCONFIGURATION else code
    return answers


def _info(nvml: Nvml, handle: Any) -> Any:
    """The newest version of the record that the driver fills; older ones lack the summary, the oldest the mask."""

    def filled(record: str, call: str) -> Any:
        info = getattr(nvml, record)()
        getattr(nvml, call)(handle, byref(info))
        return info

    return first_of(
        nvml,
        lambda: filled("c_nvmlGpuFabricInfo_v3_t", "nvmlDeviceGetGpuFabricInfoV"),
        lambda: filled("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV"),
        lambda: filled("c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo"),
    )


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
        answers = decode(int(info.healthMask))
        if name not in answers:
            raise NotPlausible(f"not supported (health mask {int(info.healthMask):#x})")
        return answers[name]

    return read


READERS: dict[str, Reader] = {
    "fabric_state": _plain("state"),
    "fabric_status": _plain("status"),
    "fabric_summary": _plain("healthSummary"),
    **{name: _bit(name) for name in (*BITS, "misconfiguration")},
}
