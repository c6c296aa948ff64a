"""gpu.inventory: how many GPUs there are, by everything that can count them."""

from __future__ import annotations

import contextlib
import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from checks import machine
from checks.check import CheckError, Context, Measurement, check
from checks.model import Scope, Value

ROOT = Path("/")


@dataclass(frozen=True)
class Source:
    """One way to count: what it found, or None and the reason why it could not look."""

    name: str
    count: int | None
    said: str
    uuids: tuple[str, ...] = ()


@check(
    "gpu.inventory",
    Scope.NODE,
    timeout_s=30,
    metrics=("gpus_found", "gpus_missing", "gpu_uuids"),
    needs="/proc/driver/nvidia or /dev",
    gpus=True,
)
def inventory(context: Context) -> Measurement:
    """Counts the GPUs in the driver's list, in /dev and by NVML; the least of them is what was found.

    `gpus_missing` is declared minus found (negative where there are more). `gpus_proc`, `gpus_dev` and
    `gpus_nvml` are there for the sources that could be read. Raises CheckError if neither /proc nor /dev
    could be.
    """
    return measure(ROOT, context.declared.gpus_per_node)


def measure(root: Path, declared: int) -> Measurement:
    """The measurement for the tree at `root`. Raises CheckError."""
    files = (count_proc(root), count_dev(root))
    if all(source.count is None for source in files):
        raise CheckError("; ".join(source.said for source in files))
    sources = (*files, count_nvml())
    counts = {source.name: source.count for source in sources if source.count is not None}
    found = min(counts.values())
    metrics: dict[str, Value] = {
        "gpus_found": found,
        "gpus_missing": declared - found,
        "gpu_uuids": ",".join(sorted({uuid for source in sources for uuid in source.uuids})),
        **{f"gpus_{name}": count for name, count in counts.items()},
    }
    return Measurement(metrics, "\n".join(f"{source.name}: {source.said}" for source in sources))


def count_proc(root: Path) -> Source:
    """GPUs that the kernel driver lists; not readable where no driver is loaded."""
    folder = root / machine.NVIDIA / "gpus"
    try:
        found = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        return Source("proc", None, f"{folder}: {error.strerror}")
    return Source("proc", len(found), " ".join(found) or "no GPU", machine.gpu_uuids(root))


def count_dev(root: Path) -> Source:
    """GPUs with a device file, which is what a process here can open."""
    try:
        found = sorted(
            entry.name for entry in (root / "dev").iterdir() if re.fullmatch(r"nvidia\d+", entry.name)
        )
    except OSError as error:
        return Source("dev", None, f"{root / 'dev'}: {error.strerror}")
    return Source("dev", len(found), " ".join(found) or "no GPU")


def count_nvml() -> Source:
    """GPUs that answer NVML; one that is lost is still indexed, and does not answer."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        return Source("nvml", None, f"pynvml: {error}")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Source("nvml", None, f"nvmlInit: {error}")
    try:
        return _ask_each(nvml)
    except nvml.NVMLError as error:
        return Source("nvml", None, f"nvmlDeviceGetCount: {error}")
    finally:
        with contextlib.suppress(nvml.NVMLError):  # a failure to let go changes no count
            nvml.nvmlShutdown()


def _ask_each(nvml: ModuleType) -> Source:
    uuids, said = [], []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            uuid = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index))
        except nvml.NVMLError as error:
            said.append(f"GPU {index}: {error}")
        else:
            uuids.append(uuid if isinstance(uuid, str) else uuid.decode())
            said.append(f"GPU {index}: {uuids[-1]}")
    return Source("nvml", len(uuids), "; ".join(said) or "no GPU", tuple(uuids))
