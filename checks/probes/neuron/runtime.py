"""neuron.runtime: what the Neuron runtime's own counters counted while the gate ran, for engines that withhold the kernel log.

Each core counts in sysfs how the calls on it ended (awsdocs-neuron, Neuron Sysfs User Guide: stats/status, `total` since the
driver was loaded). A hardware error of the runtime is what the driver writes to the kernel log as NEURON_HW_ERR.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from checks.check import Context, Measurement
from checks.model import Value
from checks.probes import growth
from checks.probes.neuron.devices import ROOT, SYSFS, neuron_check
from checks.probes.neuron.ecc import count_in, numbers
from checks.value_types import listed

COUNTERS = {"hardware_errors": "hw_error", "timeouts": "timeout"}
Looks = Mapping[str, Mapping[str, int | None]]


def first_look(context: Context) -> Mapping[str, object]:
    """Every device's counters at the start. Raises CheckError if there is no device."""
    return {"devices": snapshot(ROOT / SYSFS)}


@neuron_check(
    "neuron.runtime",
    (*COUNTERS, "devices"),
    timeout_s=20,
    needs=f"/{SYSFS}",
    before=first_look,
    events=tuple(COUNTERS),
)
def runtime(context: Context) -> Measurement:
    """Compares the Neuron runtime's counters of calls that ended in a hardware error or a time-out with those of the start.

    One entry for each declared device, the growth over all its cores; None where a core's counter cannot be read, went
    back, or was not there at first. Raises CheckError if no device has counters.
    """
    declared = context.instance.neuron_devices if context.instance else 0
    return compared(growth.first_look(context.before, "devices"), snapshot(ROOT / SYSFS), declared)


def snapshot(folder: Path) -> dict[str, dict[str, int | None]]:
    """Device -> counter -> its sum over the cores; None if it cannot be read. Raises CheckError."""
    return {
        f"device {number}": {
            metric: _total(folder / f"neuron{number}", name) for metric, name in COUNTERS.items()
        }
        for number in numbers(folder)
    }


def _total(device: Path, name: str) -> int | None:
    """The sum over the cores, each of which keeps the counter below a folder `status`."""
    cores = sorted(device.glob("neuron_core*"))
    counts = [count_in([core / "stats" / "status" / name, *sorted(core.glob(f"*/{name}"))]) for core in cores]
    return None if not counts or None in counts else sum(count for count in counts if count is not None)


def compared(before: Mapping[str, object], after: Looks, declared: int) -> Measurement:
    """Both measurements compared, device by device (pure)."""
    names = [f"device {number}" for number in range(max(declared, len(after)))]
    both = [growth.Growth(before.get(name), after.get(name, {})) for name in names]
    metrics: dict[str, Value] = {name: tuple(delta.total((name,)) for delta in both) for name in COUNTERS}
    lines = (
        f"{name}: {listed(delta.before) or 'not read'} -> {listed(delta.after) or 'not read'}"
        for name, delta in zip(names, both, strict=True)
    )
    return Measurement({**metrics, "devices": tuple(names)}, "\n".join(lines))
