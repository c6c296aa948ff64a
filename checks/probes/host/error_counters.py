"""system.error_counters: PCIe and memory errors that sysfs counted while the gate ran (AER and EDAC).

Linux, Documentation/ABI/testing/sysfs-bus-pci-devices-aer: a device's counters, and a root port's totals of the messages
that it received; an error may be counted by the link partner alone. Documentation/admin-guide/ras.rst: each memory
controller's corrected (ce) and uncorrected (ue) errors. Most virtual machines have neither, which is normal and is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from checks.check import CheckError, Context, Measurement, check, lists
from checks.model import Scope, Value
from checks.probes import growth

ROOT = Path("/")
SYSFS = "sys"
PCI, EDAC = "sys/bus/pci/devices", "sys/devices/system/edac/mc"
CORRECTED, UNCORRECTED, FATAL = "corrected", "uncorrected", "fatal"
KINDS = (CORRECTED, UNCORRECTED, FATAL)
# File -> kind. Of a device's file the last line is its total; a root port's is one number.
AER = {
    "aer_dev_correctable": CORRECTED,
    "aer_dev_nonfatal": UNCORRECTED,
    "aer_dev_fatal": FATAL,
    "aer_rootport_total_err_cor": CORRECTED,
    "aer_rootport_total_err_nonfatal": UNCORRECTED,
    "aer_rootport_total_err_fatal": FATAL,
}
MEMORY = {"ce_count": CORRECTED, "ce_noinfo_count": CORRECTED, "ue_count": FATAL, "ue_noinfo_count": FATAL}
FILES = {**AER, **MEMORY}
OTHERS = "all other parts"
MOST_PARTS = 64
_TOTAL = re.compile(r"TOTAL_ERR_(?:COR|NONFATAL|FATAL) (\d{1,19})")

Counters = Mapping[str, Mapping[str, int | None]]


def first_look(context: Context) -> Mapping[str, object]:
    """Every counter at the start. Raises CheckError if sysfs cannot be read."""
    return {"parts": {name: dict(values) for name, values in snapshot(ROOT).items()}}


@check(
    "system.error_counters",
    Scope.NODE,
    timeout_s=20,
    metrics=("pci_devices", "memory_controllers", "parts", *KINDS, "fatal_before", "parts_gone"),
    events=(*KINDS, "parts_gone"),
    needs=f"/{PCI}, /{EDAC}",
    before=first_look,
    beside_job=True,
    holds=lists("parts"),
)
def error_counters(context: Context) -> Measurement:
    """Compares the kernel's counters of PCIe (AER) and memory errors (EDAC) with those of the start of the run.

    `pci_devices` and `memory_controllers` are how many show counters: 0 on most virtual machines. One entry for each of
    `parts`, the growth of: `corrected`; `uncorrected`, requests that failed; `fatal`, links that were lost and memory
    that could not be corrected. None where a counter cannot be read, went back, or was not there at first. Parts
    without any error are counted as one. `fatal_before` is what was fatal since the machine's start and before the run.
    """
    return compared(growth.first_look(context.before, "parts"), snapshot(ROOT))


def snapshot(root: Path) -> Counters:
    """Part -> file -> count, None if it cannot be read. Raises CheckError if there is no sysfs."""
    if not (root / SYSFS).is_dir() or not any((root / SYSFS).iterdir()):
        raise CheckError(
            f"/{SYSFS} is not mounted, so it is unknown whether this machine counts PCIe and memory errors"
        )
    return {**dict(_device_counts(root / PCI, AER)), **dict(_device_counts(root / EDAC, MEMORY))}


def _device_counts(folder: Path, files: Mapping[str, str]) -> Iterator[tuple[str, dict[str, int | None]]]:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise CheckError(f"{folder}: {error.strerror}") from error
    for name in names:
        counts = {file: _count(folder / name / file) for file in files if _is_shown(folder / name / file)}
        if counts:
            yield name, counts


def _is_shown(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # it is there, and nobody may look at it
    return True


def _count(path: Path) -> int | None:
    try:
        return parse(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def parse(text: str) -> int:
    """The number of a counter's file: the only one, or the total in its last line. Raises ValueError."""
    lines = text.strip().splitlines()
    if len(lines) == 1 and re.fullmatch(r"\d{1,19}", lines[0]):
        return int(lines[0])
    match = _TOTAL.fullmatch(lines[-1]) if lines else None
    if match is None:
        raise ValueError(f"not a counter: {text[:80]!r}")
    return int(match[1])


def compared(before: Mapping[str, object], after: Counters) -> Measurement:
    """Both measurements compared (pure). Raises CheckError if the first is not one."""
    if not all(isinstance(values, dict) for values in before.values()):
        raise CheckError(f"the record from the start of the run is not a table of counters: {before!r:.200}")
    gone = sorted(set(before) - set(after))
    grown = {name: _grown(before.get(name), values) for name, values in after.items()}
    odd = [name for name, kinds in grown.items() if any(value != 0 for value in kinds.values())]
    listed = odd[:MOST_PARTS]
    rest = [grown[name] for name in grown if name not in listed]
    metrics: dict[str, Value] = {
        "pci_devices": sum(any(file in AER for file in values) for values in after.values()),
        "memory_controllers": sum(any(file in MEMORY for file in values) for values in after.values()),
        "parts": (*listed, OTHERS),
        **{counter: (*(grown[name][counter] for name in listed), _sum(rest, counter)) for counter in KINDS},
        "fatal_before": sum(_fatal(values) for values in before.values()),
        "parts_gone": len(gone),
    }
    looks = [growth.Growth(before.get(name), after[name]) for name in listed]
    return Measurement(metrics, growth.account(gone, listed, looks) or "no counter changed")


def _grown(before: object, after: Mapping[str, int | None]) -> dict[str, int | None]:
    """The growth of one part's counters, by kind."""
    both = growth.Growth(before, after)
    files = {**both.before, **after}
    return {counter: both.total([file for file in files if FILES[file] == counter]) for counter in KINDS}


def _sum(all_counts: Sequence[Mapping[str, int | None]], counter: str) -> int | None:
    values = [counts[counter] for counts in all_counts]
    return None if None in values else sum(value for value in values if value is not None)


def _fatal(values: object) -> int:
    counters = values if isinstance(values, dict) else {}
    return sum(count for file, count in counters.items() if FILES.get(file) == FATAL and type(count) is int)
