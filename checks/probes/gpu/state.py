"""What NVML tells of each GPU, at rest as under load: gpu.power, gpu.modes and gpu.fabric, how the GPUs are configured, and gpu.ecc,
gpu.row_remap, gpu.retired_pages and gpu.recovery_action, the traces of memory errors.

The latter run after the ranks, so that they see what the load caused as well. "Volatile" counters count since the driver was loaded,
"aggregate" counters over the board's whole life. Sources: NVIDIA, "Dynamic Page Retirement" and "GPU Memory Error
Management" (row remapping: Ampere and later; page retirement: before).
"""

from __future__ import annotations

from collections.abc import Sequence

from checks.check import Context, Measurement
from checks.model import Part, Value
from checks.probes.gpu.fabric_health import FIELDS as FABRIC
from checks.probes.gpu.nvml import measured, nvml_check
from checks.probes.gpu.record import Gpu

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


@nvml_check("gpu.fabric", FABRIC, needs="NVML (driver 535 or later)", part=Part.NVLINK, beside_job=True)
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
    names = ("retired_double_bit", "retire_pending")
    return measured(context, names, ("retired_single_bit",), retired)


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
