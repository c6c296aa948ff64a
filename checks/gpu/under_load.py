"""gpu.clocks, gpu.thermal, gpu.pcie: each rank's own GPU while it works.

At rest a GPU lowers its clocks and its PCIe link by itself, and nothing slows it down: only what is seen under
load is evidence. The arrays have one element, for the rank's GPU.
"""

from __future__ import annotations

from collections.abc import Callable

from checks.check import Context, Measurement, Skipped, check
from checks.gpu.load import Loaded, under_load
from checks.gpu.nvml import NvmlMissing
from checks.model import Part, Scope, Skip, Value

Derive = Callable[[Loaded], dict[str, Value]]

# Bits of nvmlClocksEventReasons: idle 0x1, application clocks 0x2, software power cap 0x4, sync boost 0x10 and display
# 0x100 are how GPUs are meant to run; these are not.
FAULT_REASONS = {
    "hw_slowdown": 0x8,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
    "board_limit": 0x200,
    "reliability": 0x400,
}
REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x10: "sync boost",
    0x100: "display clocks",
    **{bit: name for name, bit in FAULT_REASONS.items()},
}
CLOCKS = (*FAULT_REASONS, "thermal_s", "power_brake_s", "clock_ratio", "gpus")
THERMAL = ("margin_c", "temperature_c", "memory_temperature_c", "gpus")
PCIE = ("pcie_generation", "pcie_width", "replays", "gpus")


@check(
    "gpu.clocks", Scope.RANK, timeout_s=90, metrics=CLOCKS, needs="NVML, torch", cost="seconds", part=Part.GPU
)
def clocks(context: Context) -> Measurement | Skipped:
    """Samples under load why the clocks are lower than they could be, and how long the GPU was slowed down.

    The reasons are shares of the samples (0 to 1), `thermal_s` and `power_brake_s` seconds by the GPU's cumulative
    counters, `clock_ratio` the median SM clock over the greatest that the GPU has.
    """
    return _observed(context, clock_metrics)


def clock_metrics(seen: Loaded) -> dict[str, Value]:
    """The metrics of what was seen under load."""
    reasons = seen.series("event_reasons")
    shares = {name: (_share(reasons, bit),) for name, bit in FAULT_REASONS.items()}
    times = {name: (seen.violations.get(name),) for name in ("thermal_s", "power_brake_s")}
    clock, most = seen.series("sm_clock_mhz"), seen.series("sm_clock_max_mhz")
    ratio = sorted(clock)[len(clock) // 2] / most[0] if clock and most and most[0] else None
    return {**shares, **times, "clock_ratio": (ratio,)}


def decoded(reasons: int) -> str:
    """The bits of a clock-event mask in words; a bit without a name is shown as it is."""
    words = [
        REASONS.get(1 << bit, f"{1 << bit:#x}") for bit in range(reasons.bit_length()) if reasons >> bit & 1
    ]
    return ", ".join(words) or "none"


@check(
    "gpu.thermal",
    Scope.RANK,
    timeout_s=90,
    metrics=THERMAL,
    needs="NVML, torch",
    cost="seconds",
    part=Part.GPU,
)
def thermal(context: Context) -> Measurement | Skipped:
    """Samples under load how far the GPU is from its greatest operating temperature.

    `margin_c` is the least of the samples: the GPU's own T.LIMIT on Ada, Hopper and later, the distance to the
    absolute limit before. The temperatures are the greatest of the samples, in Celsius.
    """
    return _observed(context, thermal_metrics)


def thermal_metrics(seen: Loaded) -> dict[str, Value]:
    """The metrics of what was seen under load."""
    margins, hottest = seen.series("margin_c"), seen.series("temperature_c")
    memory = seen.series("memory_temperature_c")
    return {
        "margin_c": (min(margins) if margins else None,),
        "temperature_c": (max(hottest) if hottest else None,),
        "memory_temperature_c": (max(memory) if memory else None,),
    }


@check("gpu.pcie", Scope.RANK, timeout_s=90, metrics=PCIE, needs="NVML, torch", cost="seconds", part=Part.GPU)
def pcie(context: Context) -> Measurement | Skipped:
    """Reads generation and width of the GPU's PCIe link while data is copied over it, and its replays meanwhile.

    `pcie_generation` is the greatest and `pcie_width` the least of the samples; `replays` is a difference.
    """
    return _observed(context, pcie_metrics)


def pcie_metrics(seen: Loaded) -> dict[str, Value]:
    """The metrics of what was seen under load; a replay counter that went backwards says nothing."""
    generation, width = seen.series("pcie_generation"), seen.series("pcie_width")
    replays = seen.series("pcie_replays")
    step = replays[-1] - replays[0] if replays else -1
    return {
        "pcie_generation": (max(generation) if generation else None,),
        "pcie_width": (min(width) if width else None,),
        "replays": (step if step >= 0 else None,),
    }


def _observed(context: Context, derive: Derive) -> Measurement | Skipped:
    try:
        seen = under_load(context)
    except NvmlMissing as error:
        return Skipped(Skip.TOOL_MISSING, str(error))
    reasons = seen.series("event_reasons") or ()
    words = "; ".join(sorted({decoded(int(mask)) for mask in reasons}))
    return Measurement(
        {**derive(seen), "gpus": (seen.gpu.label,)}, f"clock events: {words}\n{seen.account()}"
    )


def _share(reasons: tuple[float, ...] | None, bit: int) -> float | None:
    return None if not reasons else round(sum(bool(int(mask) & bit) for mask in reasons) / len(reasons), 4)
