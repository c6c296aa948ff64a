"""Checks that read NVML on idle GPUs. Use by others: gpu.memory, gpu.utilisation, gpu.processes. Configuration: gpu.power, gpu.modes,
gpu.fabric. Memory errors: gpu.ecc, gpu.row_remap, gpu.retired_pages, gpu.recovery_action.

Inside a container NVML does not show processes of other containers. An empty list alone proves nothing, so memory and utilisation are
read as well. Memory errors are read after the ranks, so that those of the load are among them. "Volatile" counters count since the
driver was loaded, "aggregate" counters over the board's whole life. Sources: NVIDIA, "Dynamic Page Retirement" and "GPU Memory Error
Management" (row remapping: Ampere and later; page retirement: before).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.check import Context, Measurement, Resource
from checks.model import MachinePart, Value
from checks.probes.gpu import nvml
from checks.probes.gpu.fabric_health import FIELDS as FABRIC
from checks.probes.gpu.nvml import measured, nvml_check
from checks.probes.gpu.record import Gpu, columns, padded, values_as_text
from checks.probes.sysfs import text_of

LISTS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "MPS": "nvmlDeviceGetMPSComputeRunningProcesses",
}
# The counter averages over up to a second: samples over a second see what comes and goes.
SETTLE_S = 1.0
SAMPLES = 5
PAUSE_S = 0.25
MIB = 1 << 20
MEMORY = ("memory_total_mib", "memory_used_mib")
PROCESSES = ("processes", "graphics_mib")
POWER = ("limit_ratio", "limit_w", "draw_w")
MODES = ("persistence", "mig_current", "mig_pending", "compute_mode")
ECC = (
    "ecc_current",
    "ecc_pending",
    "sram_corrected_volatile",
    "sram_uncorrected_volatile",
    "sram_corrected_aggregate",
    "sram_uncorrected_aggregate",
    "dram_corrected_volatile",
    "dram_uncorrected_volatile",
    "dram_corrected_aggregate",
    "dram_uncorrected_aggregate",
    "sram_threshold_exceeded",
    "channel_repair_pending",
    "tpc_repair_pending",
)
# Where in the GPU the aggregate uncorrected errors of its SRAM were: for the evidence, the sum is judged.
SRAM_LOCATIONS = ("sram_l2", "sram_sm", "sram_pcie", "sram_microcontroller", "sram_other")
REMAP = (
    "remapped_corrected",
    "remapped_uncorrected",
    "remap_pending",
    "remap_failed",
    "banks_low",
    "banks_none",
)
BANKS = ("banks_max", "banks_high", "banks_partial")
RETIRED = ("retired_double_bit", "retired_pages", "retire_pending")


@nvml_check("gpu.power", POWER, beside_job=True)
def power(context: Context) -> Measurement:
    """Compares the enforced power limit with the board's default, and reads the draw.

    Arrays in GPU order: `limit_ratio` is enforced over default, the others are in watts.
    """
    return measured(context, ("limit_w", "draw_w"), ("default_limit_w",), limit_ratio)


def limit_ratio(gpus: Sequence[Gpu]) -> dict[str, Value]:
    """Enforced over default limit; None if one of them could not be read, or the default is nothing."""
    return {
        "limit_ratio": tuple(_ratio(gpu.number("limit_w"), gpu.number("default_limit_w")) for gpu in gpus)
    }


def _ratio(limit: float | None, default: float | None) -> float | None:
    return round(limit / default, 4) if limit is not None and default else None


@nvml_check("gpu.modes", MODES, beside_job=True)
def modes(context: Context) -> Measurement:
    """Reads persistence mode, MIG mode (current and after the next reset), compute mode.

    Arrays in GPU order: 0 is off, 1 on; `compute_mode` 0 is default, 2 prohibited, 3 exclusive to one process.
    """
    return measured(context, MODES)


@nvml_check(
    "gpu.fabric", FABRIC, needs="NVML (driver 535 or later)", part=MachinePart.NVLINK, beside_job=True
)
def fabric(context: Context) -> Measurement:
    """Reads each GPU's fabric state, and its health mask bit by bit.

    Arrays in GPU order. `fabric_state` 3 is "completed", `fabric_status` an nvmlReturn_t, `fabric_summary` 1 is
    healthy. Of the bits 1 is a fault and 0 none; `misconfiguration` 0 is none, else its code. None: not said.
    """
    return measured(context, FABRIC)


@nvml_check("gpu.ecc", ECC, timeout_s=30, closing=True, beside_job=True)
def ecc(context: Context) -> Measurement:
    """Reads memory errors by location (SRAM, DRAM), volatile and aggregate, and whether ECC is on.

    Arrays in GPU order; modes and flags are 0 or 1. The evidence says in which part of the GPU the SRAM's were.
    """
    return measured(context, ECC, SRAM_LOCATIONS)


@nvml_check("gpu.row_remap", REMAP, closing=True, beside_job=True)
def row_remap(context: Context) -> Measurement:
    """Reads remapped rows of the GPU memory, pending and failed remaps, and banks that run out of spare rows.

    Arrays in GPU order: counts of rows, flags (0 or 1), counts of banks with few and with no spare rows left.
    """
    return measured(context, REMAP, BANKS)


@nvml_check("gpu.retired_pages", RETIRED, closing=True, beside_job=True)
def retired_pages(context: Context) -> Measurement:
    """Reads retired memory pages of GPUs older than Ampere, and whether some wait for a reset.

    Arrays in GPU order: pages retired for double-bit errors, pages retired for any reason, a flag (0 or 1).
    """
    return measured(context, ("retired_double_bit", "retire_pending"), ("retired_single_bit",), retired)


def retired(gpus: Sequence[Gpu]) -> dict[str, Value]:
    """`retired_pages`, the sum of both causes; None if one of them could not be read."""
    pairs = ((gpu.number("retired_single_bit"), gpu.number("retired_double_bit")) for gpu in gpus)
    return {"retired_pages": tuple(None if None in pair else sum(filter(None, pair)) for pair in pairs)}


@nvml_check("gpu.recovery_action", ("recovery_action",), closing=True, beside_job=True)
def recovery_action(context: Context) -> Measurement:
    """Reads what the driver itself demands before the GPU may be used again; 0 is nothing.

    Array in GPU order, NVML_GPU_RECOVERY_ACTION_*. None where the field's own nvmlReturn says that it was not read, as
    of every GPU of a driver before 565.
    """
    return measured(context, ("recovery_action",))


@nvml_check("gpu.memory", MEMORY, needs="NVML (driver 510 or later)", uses=(Resource.GPU,), beside_job=True)
def memory(context: Context) -> Measurement:
    """Reads each GPU's memory: its size, and what is in use beyond the driver's own reserve.

    Arrays in GPU order, in MiB.
    """
    return measured(context, MEMORY)


@nvml_check("gpu.utilisation", ("utilisation_percent",), timeout_s=30, cost="seconds", uses=(Resource.GPU,))
def utilisation(context: Context) -> Measurement:
    """Samples how busy each GPU is while nothing of ours runs on it: the greatest of five samples in a second.

    Array in GPU order, in percent; None where a sample could not be read.
    """
    return sampled(context, time.sleep)


def sampled(context: Context, wait: Callable[[float], None]) -> Measurement:
    """The measurement, waiting between the samples with `wait`."""
    name = "utilisation_percent"
    rounds: list[tuple[Gpu, ...]] = []
    with nvml.session() as module:
        wait(SETTLE_S)  # what ran here before (DCGM's diagnostic, our own) is still in the average
        for sample in range(SAMPLES):
            if sample:
                wait(PAUSE_S)
            rounds.append(nvml.gpu_records(module, (name,)))
    if len({len(records) for records in rounds}) != 1:
        raise nvml.NvmlError("the number of GPUs that NVML lists changed between two samples")
    gpus = padded(
        [busiest(of_gpu, name) for of_gpu in zip(*rounds, strict=True)], context.declared.gpus_per_node
    )
    return Measurement(columns(gpus, (name,)), values_as_text(gpus, (name,)))


def busiest(samples: Sequence[Gpu], name: str) -> Gpu:
    """The record with the greatest sample; one that was not read leaves the field unread, since it may have been that."""
    unread = next((sample for sample in samples if sample.number(name) is None), None)
    return unread or max(samples, key=lambda sample: sample.number(name) or 0)


@nvml_check("gpu.processes", PROCESSES, uses=(Resource.GPU,))
def processes(context: Context) -> Measurement:
    """Counts the processes on each GPU (compute, graphics, MPS); the evidence names them.

    Arrays in GPU order, None where a list could not be read. A process that only draws, with known memory, is not in
    `processes`: its memory is in `graphics_mib` (MiB, summed).
    """
    with nvml.session() as module:
        with_lists = tuple(with_processes(module, gpu) for gpu in nvml.gpu_records(module, ()))
    gpus = padded(with_lists, context.declared.gpus_per_node)
    listed = "\n".join(gpu.text("listed") for gpu in gpus if gpu.text("listed"))
    evidence = "\n".join(text for text in (listed, values_as_text(gpus, PROCESSES)) if text)
    return Measurement(columns(gpus, PROCESSES), evidence)


def with_processes(module: Any, gpu: Gpu) -> Gpu:
    """The record with how many processes of others the GPU has, what they are, and the memory of those that only draw."""
    by_pid: dict[int, str] = {}
    drawing: dict[int, int] = {}
    unread: dict[str, str] = dict(gpu.unread)
    for list_name, call in LISTS.items():
        try:
            handle = module.nvmlDeviceGetHandleByIndex(gpu.index)
            for process in getattr(module, call)(handle):
                pid, used = int(process.pid), getattr(process, "usedGpuMemory", None)
                if list_name == "graphics" and pid not in by_pid and isinstance(used, int):
                    drawing[pid] = used
                elif list_name != "graphics":
                    drawing.pop(pid, None)
                memory = f"{used / MIB:.0f} MiB" if isinstance(used, int) else "memory unknown"
                by_pid.setdefault(pid, f"{list_name}, {memory}")
        except module.NVMLError as error:
            if list_name == "MPS" and nvml.code_of(error) in (3, 13):
                continue  # older GPUs and drivers know no MPS list; its clients are in the compute list
            reason = f"{list_name}: {nvml.message_of(error)}"
            return replace(gpu, unread={**unread, **dict.fromkeys(PROCESSES, reason)})
    names = {pid: text_of(Path(f"/proc/{pid}/comm")) or "(its name is not visible here)" for pid in by_pid}
    listed = "; ".join(f"{gpu.label}: pid {pid} {names[pid]} ({by_pid[pid]})" for pid in sorted(by_pid))
    counts = {"processes": len(by_pid) - len(drawing), "graphics_mib": round(sum(drawing.values()) / MIB, 1)}
    return replace(gpu, values={**gpu.values, **counts, "listed": listed})
