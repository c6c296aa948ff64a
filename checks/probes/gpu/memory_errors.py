"""gpu.ecc, gpu.row_remap, gpu.retired_pages, gpu.recovery_action: the traces of memory errors.

They run after the ranks, so that they see what the load caused as well. "Volatile" counters count since the driver was loaded,
"aggregate" counters over the board's whole life. Sources: NVIDIA, "Dynamic Page Retirement" and "GPU Memory Error
Management" (row remapping: Ampere and later; page retirement: before).
"""

from __future__ import annotations

from collections.abc import Sequence

from checks.check import Context, Measurement, Skipped, check, lists_gpus
from checks.model import Part, Scope, Value
from checks.probes.gpu.nvml import measured
from checks.probes.gpu.record import Gpu

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


@check(
    "gpu.ecc",
    Scope.NODE,
    timeout_s=30,
    metrics=(*ECC, "gpus"),
    needs="NVML",
    part=Part.GPU,
    closing=True,
    beside_job=True,
    holds=lists_gpus,
)
def ecc(context: Context) -> Measurement | Skipped:
    """Reads memory errors by location (SRAM, DRAM), volatile and aggregate, and whether ECC is on.

    Arrays in GPU order; modes and flags are 0 or 1. The evidence says in which part of the GPU the SRAM's were.
    """
    return measured(context, ECC, SRAM_LOCATIONS)


@check(
    "gpu.row_remap",
    Scope.NODE,
    timeout_s=20,
    metrics=(*REMAP, "gpus"),
    needs="NVML",
    part=Part.GPU,
    closing=True,
    beside_job=True,
    holds=lists_gpus,
)
def row_remap(context: Context) -> Measurement | Skipped:
    """Reads remapped rows of the GPU memory, pending and failed remaps, and banks that run out of spare rows.

    Arrays in GPU order: counts of rows, flags (0 or 1), counts of banks with few and with no spare rows left.
    """
    return measured(context, REMAP, BANKS)


@check(
    "gpu.retired_pages",
    Scope.NODE,
    timeout_s=20,
    metrics=(*RETIRED, "gpus"),
    needs="NVML",
    part=Part.GPU,
    closing=True,
    beside_job=True,
    holds=lists_gpus,
)
def retired_pages(context: Context) -> Measurement | Skipped:
    """Reads retired memory pages of GPUs older than Ampere, and whether some wait for a reset.

    Arrays in GPU order: pages retired for double-bit errors, pages retired for any reason, a flag (0 or 1).
    """
    names = ("retired_double_bit", "retire_pending")
    return measured(context, names, ("retired_single_bit",), retired)


def retired(gpus: Sequence[Gpu]) -> dict[str, Value]:
    """`retired_pages`, the sum of both causes; None if one of them could not be read."""
    pairs = ((gpu.number("retired_single_bit"), gpu.number("retired_double_bit")) for gpu in gpus)
    return {"retired_pages": tuple(None if None in pair else sum(filter(None, pair)) for pair in pairs)}


@check(
    "gpu.recovery_action",
    Scope.NODE,
    timeout_s=20,
    metrics=("recovery_action", "gpus"),
    needs="NVML",
    part=Part.GPU,
    closing=True,
    beside_job=True,
    holds=lists_gpus,
)
def recovery_action(context: Context) -> Measurement | Skipped:
    """Reads what the driver itself demands before the GPU may be used again; 0 is nothing.

    Array in GPU order, NVML_GPU_RECOVERY_ACTION_*. None where the field's own nvmlReturn says that it was not read, as
    of every GPU of a driver before 565.
    """
    return measured(context, ("recovery_action",))
