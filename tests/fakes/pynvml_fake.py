"""A stand-in for `pynvml` (nvidia-ml-py 13) that behaves: a node of GPUs, healthy but for what its dials say.

It stands by itself, so that a copy of this file named pynvml.py can be imported by child processes. The dials are a
JSON object: of the file that the environment's FAKE_NVML names, or set with `turn`.

    {"gpus": 8, "spec": {...}, "answers": {"5/nvmlDeviceGetRemappedRows": [0, 1, 1, 0]}}

"spec" is a model of tests/fakes/gpu_models.py, "events" are Xids of registered GPUs ([[5, 79]]). An answer's key is GPU/call, with
":argument" for each further argument; GPU and call may be "*". A value of
{"error": CODE} is raised, {"hang": SECONDS} waits first. Field values are "field:ID" or "field:ID:SCOPE".
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

NVML_TEMPERATURE_GPU = 0
NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3
NVML_CLOCK_SM = 1
NVML_FEATURE_ENABLED = 1
NVML_NVLINK_MAX_LINKS = 36
NVML_NVLINK_ERROR_DL_REPLAY, NVML_NVLINK_ERROR_DL_RECOVERY = 0, 1
NVML_NVLINK_ERROR_DL_CRC_FLIT, NVML_NVLINK_ERROR_DL_CRC_DATA = 2, 3
NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3
nvmlMemory_v2, nvmlEccSramErrorStatus_v1 = 0x02000028, 0x01000068
nvmlGpuFabricInfo_v2, nvmlGpuFabricInfo_v3 = 0x02000024, 0x03000028

WORDS = {
    1: "Uninitialized", 2: "Invalid Argument", 3: "Not Supported", 4: "Insufficient Permissions", 9: "Driver Not Loaded",
    10: "Timeout", 12: "NVML Shared Library Not Found", 13: "Function Not Found", 15: "GPU is lost",
    16: "GPU requires restart", 18: "RM has detected an NVML/RM version mismatch.", 25: "Argument version mismatch",
    26: "Requested functionality has been deprecated", 999: "Unknown Error",
}  # fmt: skip
MIB = 1 << 20


class NVMLError(Exception):
    """As the real one: equal by value, and so not hashable."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return WORDS.get(self.value, f"NVML Error with code {self.value}")

    def __eq__(self, other: object) -> bool:
        return bool(self.value == other.value)  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


class c_nvmlGpuFabricInfo_t(ctypes.Structure):
    _fields_ = (
        ("clusterUuid", ctypes.c_uint8 * 16), ("status", ctypes.c_uint), ("cliqueId", ctypes.c_uint32), ("state", ctypes.c_uint),
    )  # fmt: skip


class c_nvmlGpuFabricInfo_v2_t(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint), *c_nvmlGpuFabricInfo_t._fields_, ("healthMask", ctypes.c_uint32))

    def __init__(self) -> None:
        super().__init__(version=nvmlGpuFabricInfo_v2)


class c_nvmlGpuFabricInfo_v3_t(ctypes.Structure):
    _fields_ = (*c_nvmlGpuFabricInfo_v2_t._fields_, ("healthSummary", ctypes.c_uint8))

    def __init__(self) -> None:
        super().__init__(version=nvmlGpuFabricInfo_v3)


SRAM = [f"{when}{kind}" for when in ("aggregate", "volatile") for kind in ("UncParity", "UncSecDed", "Cor")]
SRAM += [f"aggregateUncBucket{place}" for place in ("L2", "Sm", "Pcie", "Mcu", "Other")]


class c_nvmlEccSramErrorStatus_v1_t(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in SRAM),
        ("bThresholdExceeded", ctypes.c_uint),
    )

    def __init__(self) -> None:
        super().__init__(version=nvmlEccSramErrorStatus_v1)


_dials: dict[str, Any] = {}
_open = False


def turn(**dials: Any) -> None:
    """Set the dials; those that are not named are as on a healthy node."""
    _dials.clear()
    _dials.update(dials)


def busy(on: bool) -> None:
    _dials["busy"] = on


def _dial(name: str, default: Any) -> Any:
    if not _dials and os.environ.get("FAKE_NVML"):
        with open(os.environ["FAKE_NVML"], encoding="utf-8") as file:
            _dials.update(json.load(file))
    return _dials.get(name, default)


def _load(busy: Any, idle: Any) -> Any:
    return busy if _dial("busy", False) else idle


def _model() -> dict[str, Any]:
    return dict(_dial("spec", {}))


def _said(gpu: int | str, call: str, default: Any) -> Any:
    """The dialled answer of the GPU, of all GPUs, of all calls; else the healthy one. Raises NVMLError."""
    answers = _dial("answers", {})
    names = [call]
    while ":" in names[-1]:
        names.append(names[-1].rpartition(":")[0])
    keys = (*(f"{who}/{name}" for who in (gpu, "*") for name in names), f"{gpu}/*")
    found = next((answers[key] for key in keys if key in answers), default)
    if isinstance(found, dict) and "hang" in found:
        time.sleep(found["hang"])
    if isinstance(found, dict) and "error" in found:
        raise NVMLError(found["error"])
    return found


def _needs(feature: str, value: Any) -> Any:
    """The value, where the model has the feature; else what NVML answers."""
    return value if _model().get(feature) else {"error": 3}


def __getattr__(name: str) -> Callable[..., Any]:
    """A call that this file does not know: not supported, but for the dials ("nvmlDeviceGetFanSpeed_v2:0")."""
    if not name.startswith("nvmlDeviceGet"):
        raise AttributeError(name)
    return lambda gpu, *more: _said(gpu, ":".join((name, *map(str, more))), {"error": 3})


# What a healthy GPU answers to the calls that are dialled by their name and further arguments.
HEALTHY: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetUUID": lambda gpu: uuid_of(gpu),
    "nvmlDeviceGetSerial": lambda gpu: f"16540240{gpu:05d}",
    "nvmlDeviceGetName": lambda gpu: _model()["name"],
    "nvmlDeviceGetVbiosVersion": lambda gpu: _model()["vbios"],
    "nvmlDeviceGetMarginTemperature": lambda gpu: _needs("margin", _model().get("margin")),
    "nvmlDeviceGetTemperatureV": lambda gpu, sensor: _load(61, 31),
    "nvmlDeviceGetTemperature": lambda gpu, sensor: _load(61, 31),
    "nvmlDeviceGetTemperatureThreshold": lambda gpu, threshold: _model().get("max_c", {"error": 3}),
    "nvmlDeviceGetPowerUsage": lambda gpu: _load(652_300, 69_800),
    "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: _model()["watts"] * 1000,
    "nvmlDeviceGetPowerManagementDefaultLimit": lambda gpu: _model()["watts"] * 1000,
    "nvmlDeviceGetClockInfo": lambda gpu, clock: int(_model()["sm"] * _load(0.84, 0.17)),
    "nvmlDeviceGetMaxClockInfo": lambda gpu, clock: _model()["sm"],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: _load(4, 1),
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: _load(4, 1),
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: _load(_model()["generation"], 1),
    "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: _model()["width"],
    "nvmlDeviceGetEccMode": lambda gpu: [1, 1],
    "nvmlDeviceGetMemoryErrorCounter": lambda gpu, bad, whole, place: 0 if place in (2, 7) else {"error": 3},
    "nvmlDeviceGetTotalEccErrors": lambda gpu, uncorrected, aggregate: 0,
    "nvmlDeviceGetRetiredPagesPendingStatus": lambda gpu: {"error": 3} if _model().get("remap") else 0,
    "nvmlDeviceGetRepairStatus": lambda gpu: _needs("repair", [0, 0]),
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": lambda gpu: 0,
    "nvmlDeviceGetNvLinkState": lambda gpu, link: (
        1 if link < _model()["links"] else {"error": 2 if _model()["links"] else 3}
    ),
    "nvmlDeviceGetNvLinkErrorCounter": lambda gpu, link, counter: (
        0 if _model()["links"] and _model().get("nvlink", 0) < 4 else {"error": 3}
    ),
    "nvmlDeviceGetPersistenceMode": lambda gpu: 1,
    "nvmlDeviceGetMigMode": lambda gpu: _needs("mig", [0, 0]),
    "nvmlDeviceGetComputeMode": lambda gpu: 0,
}


def _call(name: str, healthy: Callable[..., Any]) -> Callable[..., Any]:
    """The call of this name; it takes what `healthy` takes."""

    @wraps(healthy)
    def call(gpu: int, *more: int) -> Any:
        return _said(gpu, ":".join((name, *map(str, more))), healthy(gpu, *more))

    return call


globals().update({name: _call(name, healthy) for name, healthy in HEALTHY.items()})


def _turned(call: str, on: bool) -> None:
    global _open
    _said("node", call, None)
    _open = on


nvmlInit = partial(_turned, "nvmlInit", True)
nvmlShutdown = partial(_turned, "nvmlShutdown", False)
nvmlSystemGetDriverVersion = partial(_said, "node", "nvmlSystemGetDriverVersion", "580.105.08")
nvmlSystemGetCudaDriverVersion_v2 = partial(_said, "node", "nvmlSystemGetCudaDriverVersion_v2", 13000)


def nvmlDeviceGetCount() -> Any:
    if not _open:
        raise NVMLError(1)
    return _said("node", "nvmlDeviceGetCount", _dial("gpus", 8))


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return int(_said(index, "nvmlDeviceGetHandleByIndex", index))


def uuid_of(gpu: int) -> str:
    """The UUID of the healthy node's GPU; the dial "node" tells nodes apart."""
    return f"GPU-7c1d{gpu:04x}-59aa-4e{2 + _dial('node', 0):02x}-8d11-3f0c5be2a{gpu:03x}"


def pci_of(gpu: int) -> str:
    """The PCI address of the healthy node's GPU, as NVML prints it."""
    return f"00000000:{0x53 + 0x11 * gpu:02X}:00.0"


def nvmlEventSetCreate() -> list[int]:
    return list(_said("node", "nvmlEventSetCreate", []))


def nvmlDeviceRegisterEvents(gpu: int, kinds: int, events: list[int]) -> None:
    events.append(_said(gpu, "nvmlDeviceRegisterEvents", gpu))


def nvmlEventSetWait_v2(events: list[int], timeout_ms: int) -> Any:
    for event in _said("node", "nvmlEventSetWait_v2", _dial("events", [])):
        if event[0] in events:
            _dials["events"].remove(event)
            return SimpleNamespace(device=event[0], eventType=8, eventData=event[1])
    time.sleep(min(timeout_ms, 20) / 1000)
    raise NVMLError(10)


def nvmlDeviceGetPciInfo(gpu: int) -> Any:
    return SimpleNamespace(busId=_said(gpu, "nvmlDeviceGetPciInfo", pci_of(gpu)))


def nvmlDeviceGetMemoryInfo(gpu: int, version: int | None = None) -> Any:
    total, reserved = _model()["total"] * MIB, _model()["reserved"] * MIB
    total = _said(gpu, "nvmlDeviceGetMemoryInfo:total", total)
    if version is None:
        return SimpleNamespace(total=total, used=reserved, free=total - reserved)
    used = _said(gpu, "nvmlDeviceGetMemoryInfo_v2:used", 0)
    return SimpleNamespace(
        version=version, total=total, reserved=reserved, used=used, free=total - reserved - used
    )


def nvmlDeviceGetUtilizationRates(gpu: int) -> Any:
    return SimpleNamespace(gpu=_said(gpu, "nvmlDeviceGetUtilizationRates", _load(99, 0)), memory=0)


def _listing(call: str) -> Callable[[int], Any]:
    return lambda gpu: [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in _said(gpu, call, [])]


nvmlDeviceGetComputeRunningProcesses = _listing("nvmlDeviceGetComputeRunningProcesses")
nvmlDeviceGetGraphicsRunningProcesses = _listing("nvmlDeviceGetGraphicsRunningProcesses")
nvmlDeviceGetMPSComputeRunningProcesses = _listing("nvmlDeviceGetMPSComputeRunningProcesses")


def nvmlDeviceGetViolationStatus(gpu: int, policy: int) -> Any:
    return SimpleNamespace(violationTime=_said(gpu, f"nvmlDeviceGetViolationStatus:{policy}", 0))


def nvmlDeviceGetPcieReplayCounter(gpu: int) -> Any:
    found = _said(gpu, "nvmlDeviceGetPcieReplayCounter", [150])
    return found.pop(0) if len(found) > 1 else found[0]


def nvmlDeviceGetSramEccErrorStatus(gpu: int, status: Any) -> int:
    found = _said(gpu, "nvmlDeviceGetSramEccErrorStatus", _needs("sram", {"volatileCor": 0}))
    for name, value in found.items():
        setattr(status._obj, name, value)
    return 0


def nvmlDeviceGetRemappedRows(gpu: int) -> Any:
    return tuple(_said(gpu, "nvmlDeviceGetRemappedRows", _needs("remap", [0, 0, 0, 0])))


def nvmlDeviceGetRowRemapperHistogram(gpu: int) -> Any:
    banks = {"max": 2560, "high": 0, "partial": 0, "low": 0, "none": 0}
    found = _said(gpu, "nvmlDeviceGetRowRemapperHistogram", _needs("remap", {"max": 2560}))
    return SimpleNamespace(**{**banks, **found})


def nvmlDeviceGetRetiredPages(gpu: int, cause: int) -> Any:
    return list(
        _said(gpu, f"nvmlDeviceGetRetiredPages:{cause}", {"error": 3} if _model().get("remap") else [])
    )


def nvmlDeviceGetGpuFabricInfoV(gpu: int, info: Any) -> int:
    version = 3 if isinstance(info._obj, c_nvmlGpuFabricInfo_v3_t) else 2
    _said(gpu, f"nvmlDeviceGetGpuFabricInfoV:{version}", None)
    return _fill(gpu, info._obj)


def nvmlDeviceGetGpuFabricInfo(gpu: int, info: Any) -> int:
    return _fill(gpu, info._obj)


def _fill(gpu: int, info: Any) -> int:
    names = {"state": "fabric", "healthMask": "mask", "healthSummary": "summary"}
    healthy = {name: _model().get(key) for name, key in names.items()}
    found = _said(gpu, "nvmlDeviceGetGpuFabricInfo", _needs("fabric", {"status": 0}))
    for name, value in {**healthy, **found}.items():
        if hasattr(info, name):
            setattr(info, name, value)
    return 0


def nvmlDeviceGetFieldValues(gpu: int, asked: list[Any]) -> list[Any]:
    return [_field(gpu, *(one if isinstance(one, tuple) else (one, None))) for one in asked]


def _field(gpu: int, ident: int, scope: int | None) -> Any:
    """As the real one: it succeeds as a whole, and each value says by itself whether it was read; else it is 0."""
    name = f"field:{ident}" if scope is None else f"field:{ident}:{scope}"
    try:
        value, code = _said(gpu, name, _fields().get(ident, {"error": 3})), 0
    except NVMLError as error:
        value, code = 0, error.value
    if isinstance(value, float):
        return SimpleNamespace(nvmlReturn=code, valueType=0, value=SimpleNamespace(dVal=value))
    kind = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    return SimpleNamespace(nvmlReturn=code, valueType=kind, value=SimpleNamespace(ullVal=value))


def _fields() -> dict[int, Any]:
    """The fields that a healthy GPU of the model has."""
    links = {4: (161, 162, 163), 5: (206, 207, 208, 211, 215)}.get(_model().get("nvlink", 0), ())
    found: dict[int, Any] = {**dict.fromkeys(links, 0), **dict.fromkeys((230, 269, 270, 271), 0)}
    if _model().get("hbm"):
        found[82] = _load(58, 37)
    return found
