"""neuron.ecc: uncorrected memory errors of the Neuron devices, from sysfs and from the kernel log.

The Neuron driver writes a line to the kernel log if hardware fails. Its form, from awsdocs-neuron (nrt-troubleshoot):
NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id=i-... hostname=... nd-id=0 nc-id=0 serial-num=... action=TERMINATE_INSTANCE. EKS's
node monitoring agent replaces a node for each of the four kinds of error.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from checks.check import Basis, CheckError, Context, Measurement, Skipped, lists_neuron_devices
from checks.facts.withheld_kernel_log import OWN_SOURCE
from checks.model import Value
from checks.model_details import Contents
from checks.probes.kernel import log_source
from checks.probes.kernel.log import Log
from checks.probes.kernel.log_lines import account
from checks.probes.kernel.neuron_lines import MOST_DEVICES, NODE, by_device, find
from checks.probes.neuron.devices import ROOT, SYSFS, neuron_check

COUNTERS = ("mem_ecc_uncorrected", "sram_ecc_uncorrected")
# Not every driver has this counter: in the others, errors that a reset repairs count as mem_ecc_uncorrected.
REPAIRABLE = "mem_ecc_repairable_uncorrected"


def holds(basis: Basis) -> tuple[Contents, ...]:
    """Each declared device, and the node."""
    (devices,) = lists_neuron_devices(basis)
    return devices, Contents("places", devices.count, (NODE,), along=("repairable", "kernel_errors"))


@neuron_check(
    "neuron.ecc",
    (*COUNTERS, "repairable", "kernel_errors", "kernel_log_read"),
    timeout_s=60,
    needs=f"/{SYSFS}, the kernel's log",
    closing=True,
    beside_job=True,
    holds=holds,
)
def ecc(context: Context) -> Measurement:
    """Reads each device's counters of uncorrected ECC errors, and looks for the driver's hardware errors in the kernel's log.

    The counters hold an element for each declared device, null where it cannot be read. `repairable` and
    `kernel_errors` hold a text a device and one for the node (`places`), "" where there is nothing. `kernel_log_read` is False
    where nobody may read the log. Raises CheckError if no device has counters.
    """
    metrics, evidence = counters(ROOT / SYSFS, context.instance.neuron_devices if context.instance else 0)
    log = log_source.read(context, find)
    events = () if isinstance(log, Skipped) else log.this_boot  # a hardware error counts however old it is
    devices = metrics["devices"]
    metrics["kernel_errors"] = by_device(events, len(devices) if isinstance(devices, tuple) else 0)
    metrics["kernel_log_read"] = not isinstance(log, Skipped)
    if isinstance(log, Log):
        metrics |= {"source": log.source, OWN_SOURCE: log.own}
    heard = (
        log.detail if isinstance(log, Skipped) else f"{log.source}: {log.lines_read} lines\n{account(events)}"
    )
    return Measurement(metrics, f"{evidence}\n{heard}")


def counters(folder: Path, declared: int) -> tuple[dict[str, Value], str]:
    """The counters below the folder, one element per device, and a summary of them. Raises CheckError."""
    size = max(declared, max(numbers(folder)) + 1)
    read = {name: tuple(value_of(folder / f"neuron{n}", name) for n in range(size)) for name in COUNTERS}
    repairable = tuple(value_of(folder / f"neuron{n}", REPAIRABLE) for n in range(size))
    names = tuple(f"device {n}" for n in range(size))
    metrics: dict[str, Value] = {
        "devices": names,
        "places": (*names, NODE),
        **read,
        "repairable": (*(f"{count} repairable by a reset" if count else "" for count in repairable), ""),
    }
    lines = [f"device {n}: " + ", ".join(f"{name} {read[name][n]}" for name in COUNTERS) for n in range(size)]
    if None in repairable:
        lines.append(f"{REPAIRABLE} is not counted for every device by this driver")
    return metrics, "\n".join(lines)


def numbers(folder: Path) -> list[int]:
    """The numbers of the devices in sysfs. Raises CheckError if there are none."""
    try:
        numbers_found = [
            int(e.name[6:]) for e in folder.iterdir() if e.name.startswith("neuron") and e.name[6:].isdigit()
        ]
    except OSError as error:
        raise CheckError(f"{folder}: {error.strerror}. Is the Neuron driver loaded?") from error
    if not numbers_found:
        raise CheckError(f"{folder} holds no Neuron device. Is the Neuron driver loaded?")
    if max(numbers_found) > MOST_DEVICES:
        message = f"{folder} has a device number {max(numbers_found)}, which a Neuron driver never has"
        raise CheckError(message)
    return sorted(numbers_found)


def value_of(device: Path, name: str) -> int | None:
    """A counter of the hardware, in the place that the driver's version uses (2.31 moved many)."""
    return count_in([device / "stats" / "hardware" / name, *sorted(device.glob(f"*/*/{name}"))])


def count_in(places: Iterable[Path]) -> int | None:
    """The number in the first place that is there: in the file, or in the folder's `total`; None if it cannot be read."""
    try:
        path = next(path for path in places if path.exists())
        text = (path / "total" if path.is_dir() else path).read_text("ascii").strip()
    except (StopIteration, OSError, ValueError):
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None
