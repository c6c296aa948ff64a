"""The functions that read each field of a GPU's record through NVML. The name of a field is the name of the metric.

Sources: nvidia-ml-py 13.615.71 and the headers of NVML 13. A function of this file raises what pynvml raises.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

Nvml = ModuleType | Any
Reader = Callable[[Nvml, Any], object]

# nvmlReturn_t: invalid argument (a number that this driver does not know), not supported, function not found, argument version
# mismatch, deprecated. Another way may answer.
UNSUPPORTED = (2, 3, 13, 25, 26)
MIB = 1 << 20
MILLI = 1e-3
FIELD_MEMORY_TEMPERATURE = 82
FIELD_RECOVERY_ACTION = 230
SRAM, DRAM = 7, 2
# A T.LIMIT threshold is a margin of a few degrees; a temperature at which a GPU slows down is none.
TEMPERATURE_LIMITS_C = (50, 120)
VALUE_OF_TYPE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class NotPlausible(Exception):
    """What was read cannot be what it claims to be."""


def field_value(nvml: Nvml, handle: Any, ident: int, scope: int | None = None) -> Any:
    """One field of nvmlDeviceGetFieldValues. Its own nvmlReturn is raised: on "not supported" the value reads 0."""
    field: object = ident if scope is None else (ident, scope)
    answer = nvml.nvmlDeviceGetFieldValues(handle, [field])[0]
    if answer.nvmlReturn != 0:
        raise nvml.NVMLError(answer.nvmlReturn)
    if not 0 <= answer.valueType < len(VALUE_OF_TYPE):
        raise NotPlausible(f"field {ident} has a value of type {answer.valueType}")
    return getattr(answer.value, VALUE_OF_TYPE[answer.valueType])


def first_of(nvml: Nvml, *ways: Callable[[], Any]) -> Any:
    """The answer of the first way that this GPU and driver support."""
    for call in ways[:-1]:
        try:
            return call()
        except nvml.NVMLError as error:
            if getattr(error, "value", None) not in UNSUPPORTED:
                raise
        except AttributeError:
            continue  # this pynvml lacks the call
    return ways[-1]()


def _used_mib(nvml: Nvml, handle: Any) -> float:
    """Memory used beyond what the driver reserves; version 1 of the call counts the reserve as used."""
    return float(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used / MIB)


def _temperature(nvml: Nvml, handle: Any) -> Any:
    return first_of(
        nvml,
        lambda: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU),
        lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
    )


def _margin(nvml: Nvml, handle: Any) -> Any:
    """Degrees to the greatest operating temperature: T.LIMIT on Ada, Hopper and later, a difference before."""
    return first_of(
        nvml,
        lambda: nvml.nvmlDeviceGetMarginTemperature(handle),
        lambda: _limit(nvml, handle) - _temperature(nvml, handle),
    )


def _limit(nvml: Nvml, handle: Any) -> int:
    limit = int(nvml.nvmlDeviceGetTemperatureThreshold(handle, nvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX))
    if not TEMPERATURE_LIMITS_C[0] <= limit <= TEMPERATURE_LIMITS_C[1]:
        raise NotPlausible(f"{limit} C is not a plausible temperature limit of a GPU")
    return limit


def _sram_status(nvml: Nvml, handle: Any) -> Any:
    from ctypes import byref

    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, byref(status))
    return status


def _sram(uncorrected: int, aggregate: int) -> Reader:
    """SRAM errors: from the status of Ampere and later, the counter of Turing, or what is not DRAM on older ones."""
    when = ("volatile", "aggregate")[aggregate]

    def of_status(nvml: Nvml, handle: Any) -> int:
        status = _sram_status(nvml, handle)
        kinds = ("UncParity", "UncSecDed") if uncorrected else ("Cor",)
        return sum(int(getattr(status, when + bucket)) for bucket in kinds)

    def of_total(nvml: Nvml, handle: Any) -> int:
        total = nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, aggregate)
        return int(total - nvml.nvmlDeviceGetMemoryErrorCounter(handle, uncorrected, aggregate, DRAM))

    return lambda nvml, handle: first_of(
        nvml,
        lambda: of_status(nvml, handle),
        lambda: nvml.nvmlDeviceGetMemoryErrorCounter(handle, uncorrected, aggregate, SRAM),
        lambda: of_total(nvml, handle),
    )


def _dram(uncorrected: int, aggregate: int) -> Reader:
    return lambda nvml, handle: nvml.nvmlDeviceGetMemoryErrorCounter(handle, uncorrected, aggregate, DRAM)


def _of_status(name: str) -> Reader:
    return lambda nvml, handle: int(getattr(_sram_status(nvml, handle), name))


def _remapped(index: int) -> Reader:
    return lambda nvml, handle: nvml.nvmlDeviceGetRemappedRows(handle)[index]


def _remap_failed(nvml: Nvml, handle: Any) -> Any:
    """Whether a row could not be remapped, or the driver itself (580 and later) calls memory unrepairable."""
    failed = nvml.nvmlDeviceGetRemappedRows(handle)[3]
    return failed or first_of(nvml, lambda: nvml.nvmlDeviceGetUnrepairableMemoryFlag_v1(handle), lambda: 0)


def _banks(name: str) -> Reader:
    return lambda nvml, handle: int(getattr(nvml.nvmlDeviceGetRowRemapperHistogram(handle), name))


def _retired(cause: int) -> Reader:
    return lambda nvml, handle: len(nvml.nvmlDeviceGetRetiredPages(handle, cause))


def _power(call: str) -> Reader:
    return lambda nvml, handle: float(getattr(nvml, call)(handle) * MILLI)


def _reasons(nvml: Nvml, handle: Any) -> Any:
    return first_of(
        nvml,
        lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),  # its name up to R535
    )


READERS: dict[str, Reader] = {
    "pci": lambda nvml, handle: nvml.nvmlDeviceGetPciInfo(handle).busId,
    "uuid": lambda nvml, handle: nvml.nvmlDeviceGetUUID(handle),
    "serial": lambda nvml, handle: nvml.nvmlDeviceGetSerial(handle),
    "model": lambda nvml, handle: nvml.nvmlDeviceGetName(handle),
    "vbios": lambda nvml, handle: nvml.nvmlDeviceGetVbiosVersion(handle),
    "memory_total_mib": lambda nvml, handle: float(nvml.nvmlDeviceGetMemoryInfo(handle).total / MIB),
    "memory_used_mib": _used_mib,
    "utilisation_percent": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "temperature_c": _temperature,
    "margin_c": _margin,
    "memory_temperature_c": lambda nvml, handle: field_value(nvml, handle, FIELD_MEMORY_TEMPERATURE),
    "draw_w": _power("nvmlDeviceGetPowerUsage"),
    "limit_w": _power("nvmlDeviceGetEnforcedPowerLimit"),
    "default_limit_w": _power("nvmlDeviceGetPowerManagementDefaultLimit"),
    "sm_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
    "sm_clock_max_mhz": lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
    "event_reasons": _reasons,
    "pcie_generation": lambda nvml, handle: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
    "pcie_width": lambda nvml, handle: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
    "pcie_replays": lambda nvml, handle: nvml.nvmlDeviceGetPcieReplayCounter(handle),
    "ecc_current": lambda nvml, handle: nvml.nvmlDeviceGetEccMode(handle)[0],
    "ecc_pending": lambda nvml, handle: nvml.nvmlDeviceGetEccMode(handle)[1],
    "sram_corrected_volatile": _sram(0, 0),
    "sram_uncorrected_volatile": _sram(1, 0),
    "sram_corrected_aggregate": _sram(0, 1),
    "sram_uncorrected_aggregate": _sram(1, 1),
    "dram_corrected_volatile": _dram(0, 0),
    "dram_uncorrected_volatile": _dram(1, 0),
    "dram_corrected_aggregate": _dram(0, 1),
    "dram_uncorrected_aggregate": _dram(1, 1),
    "sram_threshold_exceeded": _of_status("bThresholdExceeded"),
    "sram_l2": _of_status("aggregateUncBucketL2"),
    "sram_sm": _of_status("aggregateUncBucketSm"),
    "sram_pcie": _of_status("aggregateUncBucketPcie"),
    "sram_microcontroller": _of_status("aggregateUncBucketMcu"),
    "sram_other": _of_status("aggregateUncBucketOther"),
    "channel_repair_pending": lambda nvml, handle: nvml.nvmlDeviceGetRepairStatus(handle)[0],
    "tpc_repair_pending": lambda nvml, handle: nvml.nvmlDeviceGetRepairStatus(handle)[1],
    "remapped_corrected": _remapped(0),
    "remapped_uncorrected": _remapped(1),
    "remap_pending": _remapped(2),
    "remap_failed": _remap_failed,
    **{f"banks_{name}": _banks(name) for name in ("max", "high", "partial", "low", "none")},
    "retired_single_bit": _retired(0),
    "retired_double_bit": _retired(1),
    "retire_pending": lambda nvml, handle: nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle),
    "persistence": lambda nvml, handle: nvml.nvmlDeviceGetPersistenceMode(handle),
    "mig_current": lambda nvml, handle: nvml.nvmlDeviceGetMigMode(handle)[0],
    "mig_pending": lambda nvml, handle: nvml.nvmlDeviceGetMigMode(handle)[1],
    "compute_mode": lambda nvml, handle: nvml.nvmlDeviceGetComputeMode(handle),
    "recovery_action": lambda nvml, handle: field_value(nvml, handle, FIELD_RECOVERY_ACTION),
}
