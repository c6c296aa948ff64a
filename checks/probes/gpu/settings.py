"""gpu.power, gpu.modes, gpu.fabric: how the GPUs are configured, which is the same at rest and under load."""

from __future__ import annotations

from collections.abc import Sequence

from checks.check import Context, Measurement, Skipped, check, lists_gpus
from checks.model import Part, Scope, Value
from checks.probes.gpu.fabric_health import FIELDS as FABRIC
from checks.probes.gpu.nvml import measured
from checks.probes.gpu.record import Gpu

POWER = ("limit_ratio", "limit_w", "draw_w")
MODES = ("persistence", "mig_current", "mig_pending", "compute_mode")


@check(
    "gpu.power",
    Scope.NODE,
    timeout_s=20,
    metrics=(*POWER, "gpus"),
    needs="NVML",
    part=Part.GPU,
    beside_job=True,
    holds=lists_gpus,
)
def power(context: Context) -> Measurement | Skipped:
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


@check(
    "gpu.modes",
    Scope.NODE,
    timeout_s=20,
    metrics=(*MODES, "gpus"),
    needs="NVML",
    part=Part.GPU,
    beside_job=True,
    holds=lists_gpus,
)
def modes(context: Context) -> Measurement | Skipped:
    """Reads persistence mode, MIG mode (current and after the next reset), compute mode.

    Arrays in GPU order: 0 is off, 1 on; `compute_mode` 0 is default, 2 prohibited, 3 exclusive to one process.
    """
    return measured(context, MODES)


@check(
    "gpu.fabric",
    Scope.NODE,
    timeout_s=20,
    metrics=(*FABRIC, "gpus"),
    needs="NVML (driver 535 or later)",
    part=Part.NVLINK,
    beside_job=True,
    holds=lists_gpus,
)
def fabric(context: Context) -> Measurement | Skipped:
    """Reads each GPU's fabric state, and its health mask bit by bit.

    Arrays in GPU order. `fabric_state` 3 is "completed", `fabric_status` an nvmlReturn_t, `fabric_summary` 1 is
    healthy. Of the bits 1 is a fault and 0 none; `misconfiguration` 0 is none, else its code. None: not said.
    """
    return measured(context, FABRIC)
