"""gpu.clocks, gpu.thermal, gpu.pcie: what NVML reports about each rank's own GPU while the GPU works.

An idle GPU lowers its clocks and its PCIe link by itself, and nothing slows it down, so only what is seen under load is
evidence. The arrays have one element, for the rank's GPU. The GPU is found by its UUID, because torch counts the visible
devices and NVML counts all of them.

LoadError           the load could not be put on the GPU, or the GPU was not seen to be loaded
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from checks.check import Body, Check, CheckError, Context, Measurement, check, lists
from checks.model import MachinePart, Scope, Value
from checks.probes.gpu import nvml
from checks.probes.gpu.fields import UNSUPPORTED, field_value
from checks.probes.gpu.record import Gpu, Number, usable_value
from checks.value_types import listed

SECONDS = 2.0
PAUSE_S = 0.1
# NVML's utilisation is an average over up to a second.
WARM_UP_S = 1.0
JOIN_S = 10.0
# Below this the samples were not taken under load: a matrix product keeps a healthy GPU at 95 to 100 %.
LOADED_PERCENT = 50
ORDER, COPY_BYTES = 8192, 64 << 20
FIELDS = (
    "utilisation_percent",
    "sm_clock_mhz",
    "sm_clock_max_mhz",
    "event_reasons",
    "temperature_c",
    "margin_c",
    "memory_temperature_c",
    "draw_w",
    "pcie_generation",
    "pcie_width",
    "pcie_replays",
)
# Cumulative nanoseconds: fields of newer drivers (checks/facts/drivers.json), else nvmlDeviceGetViolationStatus (policy, in brackets).
SOFTWARE_THERMAL, HARDWARE_THERMAL, POWER_BRAKE = 269, 270, 271
POLICY_THERMAL, POLICY_BOARD_LIMIT = 1, 3
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
CLOCKS = (*FAULT_REASONS, "thermal_s", "power_brake_s", "clock_ratio", "gpus")
THERMAL = ("margin_c", "temperature_c", "memory_temperature_c", "gpus")
LEAST_SAMPLES = 2  # of one there is no difference
# Which of the samples of a field is its metric.
WORST: Mapping[str, Callable[[Iterable[Number]], Number]] = {
    "margin_c": min,
    "temperature_c": max,
    "memory_temperature_c": max,
    "pcie_generation": max,
    "pcie_width": min,
}
PCIE = ("pcie_generation", "pcie_width", "replays", "gpus")


class LoadError(CheckError):
    """The GPU was not measured under load."""


class Load(Protocol):
    """Work for one GPU. `uuid` is as NVML prints it; `step` does some tens of milliseconds of it, and returns."""

    uuid: str

    def step(self) -> None:
        """Multiply, copy, and wait for both."""


class TorchLoad:
    """Matrix products on the GPU, and copies to it from pinned memory at the same time."""

    def __init__(self, device: str) -> None:
        import torch

        self._torch, self._device = torch, torch.device(device)
        uuid = str(torch.cuda.get_device_properties(self._device).uuid)
        self.uuid = f"GPU-{uuid.removeprefix('GPU-')}"
        self._left = torch.ones((ORDER, ORDER), dtype=torch.float16, device=self._device)
        self._host = torch.ones(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
        self._there = torch.empty(COPY_BYTES, dtype=torch.uint8, device=self._device)
        self._copying = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]

    def step(self) -> None:
        """Four products and four copies, side by side."""
        torch = self._torch
        with torch.cuda.device(self._device):
            for _ in range(4):
                # The copy is first: it makes the GPU's context the thread's, which cuBLAS would warn about.
                with torch.cuda.stream(self._copying):
                    self._there.copy_(self._host, non_blocking=True)
                torch.mm(self._left, self._left)
            torch.cuda.synchronize(self._device)


make_load: Callable[[str], Load] = TorchLoad


@dataclass(frozen=True)
class LoadSamples:
    """What NVML said while the GPU worked: the samples, and how far its cumulative counters went meanwhile.

    `violations` is in seconds by name; one that this GPU or driver does not have is left out.
    """

    samples: tuple[Gpu, ...]
    violations: dict[str, float]
    steps: int

    @property
    def gpu(self) -> Gpu:
        """Which GPU it is."""
        return self.samples[0]

    def series(self, name: str) -> tuple[Number, ...] | None:
        """The field in every sample; None if it could not be read in one of them."""
        numbers = [gpu.number(name) for gpu in self.samples]
        present = tuple(value for value in numbers if value is not None)
        return present if len(present) == len(numbers) else None

    def account(self) -> str:
        """The samples, one line each, and the counters."""
        lines = []
        for sample in self.samples:
            texts = [listed({name: sample.values[name] for name in FIELDS if name in sample.values})]
            texts += [f"{name}: {reason}" for name, reason in sample.unread.items()]
            lines.append(", ".join(filter(None, texts)))
        return "\n".join(
            (
                f"{self.gpu.label}, {self.steps} steps of load",
                f"violations: {listed(self.violations) or 'none that the driver counts'}",
                *lines,
            )
        )


def under_load(context: Context) -> LoadSamples:
    """Load the rank's GPU for the profile's seconds, and sample it. Raises LoadError, NvmlError, NvmlMissing."""
    if context.rank_place is None or not context.rank_place.device.startswith("cuda"):
        message = "this check needs a rank with a GPU. Run it under torchrun on a node that declares GPUs."
        raise LoadError(message)
    seconds = context.options.get("seconds", SECONDS)
    with nvml.session() as module:
        device = context.rank_place.device
        try:
            load = make_load(device)
        except Exception as error:  # torch and CUDA raise anything: no GPU, no memory, no CUDA in this build
            message = f"the load could not be started on {device}: {type(error).__name__}: {error}"
            raise LoadError(message) from error
        handle, index = find(module, load.uuid)
        return _sampled(module, handle, index, load, seconds)


def find(module: Any, uuid: str) -> tuple[Any, int]:
    """NVML's handle and index of the GPU with this UUID. Raises LoadError."""
    gpus = nvml.gpu_records(module, ("uuid",))
    for gpu in gpus:
        if gpu.text("uuid").lower() == uuid.lower():
            return module.nvmlDeviceGetHandleByIndex(gpu.index), gpu.index
    listed = ", ".join(gpu.text("uuid") or gpu.label for gpu in gpus)
    raise LoadError(f"CUDA uses GPU {uuid}, which NVML does not list ({listed})")


def _sampled(module: Any, handle: Any, index: int, load: Load, seconds: float) -> LoadSamples:
    worker = _Worker(load)
    worker.start()
    samples: list[Gpu] = []
    try:
        worker.wait(min(WARM_UP_S, seconds))
        before, end = _violations(module, handle), time.monotonic() + seconds
        while len(samples) < LEAST_SAMPLES or time.monotonic() < end:
            samples.append(nvml.of_handle(module, handle, index, FIELDS))
            worker.wait(min(PAUSE_S, seconds / 4))
        after = _violations(module, handle)
    finally:
        worker.stop()
    return require_load(LoadSamples(tuple(samples), _steps(before, after), worker.steps))


def require_load(samples: LoadSamples) -> LoadSamples:
    """The samples are returned if the GPU worked while it was sampled. Raises LoadError: without load nothing was shown."""
    busy = samples.series("utilisation_percent")
    if busy is None:
        reason = samples.gpu.unread.get("utilisation_percent", "not in every sample")
        message = f"{samples.gpu.label}: its utilisation could not be read, so it is unknown whether the load ran: {reason}"
        raise LoadError(message)
    if samples.steps < 1 or statistics.median(busy) < LOADED_PERCENT:
        raise LoadError(
            f"{samples.gpu.label}: the GPU was not under load: utilisation {busy} %, {samples.steps} steps"
        )
    return samples


class _Worker:
    """Runs the load in a thread until it is told to stop; what it raises ends the sampling."""

    def __init__(self, load: Load) -> None:
        self.steps = 0
        self._load, self._stop = load, threading.Event()
        self._failed = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.start = self._thread.start

    def wait(self, seconds: float) -> None:
        """Let the load run for this time. Raises LoadError if it has stopped."""
        self._thread.join(seconds)
        if not self._thread.is_alive():
            raise LoadError(f"the load ended early: {self._failed or 'no reason known'}")

    def stop(self) -> None:
        """End the load. Raises LoadError if it hangs in the GPU, or if it failed at the end."""
        self._stop.set()
        self._thread.join(JOIN_S)
        if self._thread.is_alive():
            raise LoadError(f"the load hangs: a step did not end within {JOIN_S:g} s")
        if self._failed:
            raise LoadError(f"the load failed: {self._failed}")

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._load.step()
                self.steps += 1
        except Exception as error:  # noqa: BLE001 - whatever CUDA raises in this thread is told in the other
            self._failed = f"{type(error).__name__}: {error}"


def _violations(module: Any, handle: Any) -> dict[str, int]:
    """Nanoseconds that the GPU was slowed down since the driver was loaded, by why."""
    seconds_by_name = {}
    for name, idents, policy in (
        ("thermal_s", (SOFTWARE_THERMAL, HARDWARE_THERMAL), POLICY_THERMAL),
        ("power_brake_s", (POWER_BRAKE,), POLICY_BOARD_LIMIT),
    ):
        try:
            values = [usable_value(field_value(module, handle, ident)) for ident in idents]
        except module.NVMLError as error:
            if nvml.code_of(error) not in UNSUPPORTED:
                continue
            try:
                values = [usable_value(module.nvmlDeviceGetViolationStatus(handle, policy).violationTime)]
            except module.NVMLError:
                continue
        whole = [value for value in values if isinstance(value, int)]
        if len(whole) == len(values):
            seconds_by_name[name] = sum(whole)
    return seconds_by_name


def _steps(before: dict[str, int], after: dict[str, int]) -> dict[str, float]:
    """How far each counter went, in seconds; one that went backwards was reset, and says nothing."""
    both: Sequence[str] = [name for name in before if after.get(name, -1) >= before[name]]
    return {name: (after[name] - before[name]) / 1e9 for name in both}


Derive = Callable[[LoadSamples], dict[str, Value]]

REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x10: "sync boost",
    0x100: "display clocks",
    **{bit: name for name, bit in FAULT_REASONS.items()},
}


def reduced(samples: LoadSamples, names: Iterable[str]) -> dict[str, Value]:
    """One of the samples of each field; None if the field could not be read in one of them."""
    return {name: (WORST[name](values) if (values := samples.series(name)) else None,) for name in names}


def load_check(name: str, metrics: tuple[str, ...]) -> Callable[[Body], Check]:
    """Makes a function a check of each rank's own GPU under load."""
    return check(
        name,
        Scope.RANK,
        timeout_s=90,
        metrics=metrics,
        needs="NVML, torch",
        cost="seconds",
        part=MachinePart.GPU,
        holds=lists("gpus"),
    )


@load_check("gpu.clocks", CLOCKS)
def clocks(context: Context) -> Measurement:
    """Samples under load why the clocks are lower than they could be, and how long the GPU was slowed down.

    The reasons are shares of the samples (0 to 1), `thermal_s` and `power_brake_s` seconds by the GPU's cumulative
    counters, `clock_ratio` the median SM clock over the greatest that the GPU has.
    """
    return _observed(context, clock_metrics)


def clock_metrics(samples: LoadSamples) -> dict[str, Value]:
    """The metrics of what was seen under load."""
    reasons = samples.series("event_reasons")
    shares = {name: (_share(reasons, bit),) for name, bit in FAULT_REASONS.items()}
    times = {name: (samples.violations.get(name),) for name in ("thermal_s", "power_brake_s")}
    clock, most = samples.series("sm_clock_mhz"), samples.series("sm_clock_max_mhz")
    ratio = sorted(clock)[len(clock) // 2] / most[0] if clock and most and most[0] else None
    return {**shares, **times, "clock_ratio": (ratio,)}


def decoded(reasons: int) -> str:
    """The bits of a clock-event mask in words; a bit without a name is shown as it is."""
    names = [
        REASONS.get(1 << bit, f"{1 << bit:#x}") for bit in range(reasons.bit_length()) if reasons >> bit & 1
    ]
    return ", ".join(names) or "none"


@load_check("gpu.thermal", THERMAL)
def thermal(context: Context) -> Measurement:
    """Samples under load how far the GPU is from its greatest operating temperature.

    `margin_c` is the least of the samples: the GPU's own T.LIMIT on Ada, Hopper and later, the distance to the
    absolute limit before. The temperatures are the greatest of the samples, in Celsius.
    """
    return _observed(context, lambda samples: reduced(samples, THERMAL[:-1]))


@load_check("gpu.pcie", PCIE)
def pcie(context: Context) -> Measurement:
    """Reads generation and width of the GPU's PCIe link while data is copied over it, and its replays meanwhile.

    `pcie_generation` is the greatest and `pcie_width` the least of the samples; `replays` is a difference.
    """
    return _observed(context, pcie_metrics)


def pcie_metrics(samples: LoadSamples) -> dict[str, Value]:
    """The metrics of what was seen under load; a replay counter that went backwards, or was read once, says nothing."""
    replays = samples.series("pcie_replays")
    step = replays[-1] - replays[0] if replays and len(replays) >= LEAST_SAMPLES else -1
    return {**reduced(samples, PCIE[:2]), "replays": (step if step >= 0 else None,)}


def _observed(context: Context, derive: Derive) -> Measurement:
    samples = under_load(context)
    reasons = samples.series("event_reasons") or ()
    events = "; ".join(sorted({decoded(int(mask)) for mask in reasons}))
    return Measurement(
        {**derive(samples), "gpus": (samples.gpu.label,)}, f"clock events: {events}\n{samples.account()}"
    )


def _share(reasons: tuple[float, ...] | None, bit: int) -> float | None:
    return None if not reasons else round(sum(bool(int(mask) & bit) for mask in reasons) / len(reasons), 4)
