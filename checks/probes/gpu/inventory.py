"""gpu.inventory: which GPUs there are, and how many, by every source that can count them.

There are three sources that fail independently: the kernel's files (/proc/driver/nvidia, /dev), NVML, and CUDA. The last two are
read in child processes with deadlines, so that the count of the files remains if the driver hangs.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from checks.check import CheckError, Context, Measurement, Resource, lists_gpus
from checks.documents.decode import decode, parse_json
from checks.model import Value
from checks.model_details import Contents
from checks.probes.gpu.inventory_child import VISIBLE, GpuListing
from checks.probes.gpu.nvml import nvml_check
from checks.probes.gpu.record import all_or_none, is_model
from checks.probes.host import machine
from checks.process import own_packages, tool
from checks.value_types import DecodeError

ROOT = Path("/")
SOURCE_S = 20.0
FILES = "the kernel's files"
CHILD = own_packages.module("checks.probes.gpu.inventory_child")
METRICS = (
    "gpus_found",
    "gpus_missing",
    "sources",
    "gpu_uuids",
    "duplicate_uuids",
    "unlike_uuids",
    "hidden_from_cuda",
    "broken_drivers",
    "unlike_models",
    "models",
    "vbios",
    "driver",
    "cuda",
)


@nvml_check(
    "gpu.inventory",
    METRICS,
    timeout_s=90,
    needs="/proc/driver/nvidia or /dev, NVML, CUDA",
    cost="seconds",
    uses=(Resource.GPU,),
    beside_job=True,
    holds=lambda basis: (
        *lists_gpus(basis),
        Contents("sources", labels=(FILES, "nvml", "cuda"), along=("gpus_missing",)),
        *map(Contents, ("driver", "cuda", "hidden_from_cuda")),
    ),
)
def inventory(context: Context) -> Measurement:
    """Counts the GPUs by the kernel's files, by NVML and by CUDA, and compares which ones these are.

    `gpus_found` is the least of the counts; `gpus_missing`, declared minus found, has one entry for each of `sources`,
    None where that one could not look; the kernel may list GPUs that are lent to others. `models`, `vbios` and
    `unlike_models` (1: not the declared type's) have one entry for each of `gpus`. Raises CheckError if neither /proc nor
    /dev could be read.
    """
    model = context.instance.gpu if context.instance else ""
    return measure(ROOT, context.declared.gpus_per_node, model, SOURCE_S)


def measure(root: Path, declared: int, model: str, timeout_s: float) -> Measurement:
    """The measurement for the files under `root`, and at most `timeout_s` for each child. Raises CheckError."""
    file_lists = (by_proc(root), by_dev(root))
    if all(files.count is None for files in file_lists):
        raise CheckError("; ".join(files.account for files in file_lists))
    nvml, cuda = ask("nvml", timeout_s), ask("cuda", timeout_s)
    proc = lent(file_lists[0], nvml, cuda, declared)
    sources = (least((proc, file_lists[1])), nvml, cuda)
    counts = [listing.count for listing in sources if listing.count is not None]
    uuids = [gpu["uuid"] for gpu in (nvml if nvml.gpus else file_lists[0]).gpus]
    metrics: dict[str, Value] = {
        "gpus_found": min(counts),
        "gpus_missing": tuple(
            None if listing.count is None else declared - listing.count for listing in sources
        ),
        "sources": tuple(listing.source for listing in sources),
        "gpu_uuids": ",".join(sorted(uuids)),
        "duplicate_uuids": sum(times - 1 for uuid, times in Counter(uuids).items() if uuid),
        "unlike_uuids": unlike((proc, nvml, cuda)),
        "hidden_from_cuda": (hidden(cuda.count, timeout_s),),
        "broken_drivers": int(bool(nvml.fault)),
        **which(nvml, model),
    }
    evidence = "\n".join(f"{listing.source}: {listing.account}" for listing in (*file_lists, nvml, cuda))
    return Measurement(metrics, f"{nvml.fault}\n{evidence}".strip())


def by_proc(root: Path) -> GpuListing:
    """GPUs that the kernel driver lists; not readable where no driver is loaded."""
    folder = root / machine.NVIDIA / "gpus"
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        return GpuListing("proc", None, f"{folder}: {error.strerror}")
    gpus = tuple({"uuid": uuid} for uuid in machine.gpu_uuids(root))
    return GpuListing("proc", len(names), " ".join(names) or "no GPU", gpus=gpus)


def by_dev(root: Path) -> GpuListing:
    """GPUs with a device file, which is what a process here can open."""
    try:
        names = sorted(
            entry.name for entry in (root / "dev").iterdir() if re.fullmatch(r"nvidia\d+", entry.name)
        )
    except OSError as error:
        return GpuListing("dev", None, f"{root / 'dev'}: {error.strerror}")
    return GpuListing("dev", len(names), " ".join(names) or "no GPU")


def lent(proc: GpuListing, nvml: GpuListing, cuda: GpuListing, declared: int) -> GpuListing:
    """The driver's list without the GPUs of others, which it has where Slurm or a container lends a part of the node.

    The part is proven by NVML and CUDA, which list the same GPUs, all of the driver's list, and as many as are declared. What NVML
    lists and has lost is in nobody else's hands.
    """
    own, of_driver = ({gpu["uuid"] for gpu in listing.gpus} for listing in (nvml, proc))
    alike = own == {gpu["uuid"] for gpu in cuda.gpus} and len(own) == nvml.count == cuda.count == declared
    proven = alike and own <= of_driver and not nvml.lost
    return replace(proc, count=declared, gpus=nvml.gpus) if proven else proc


def least(listings: Sequence[GpuListing]) -> GpuListing:
    """The kernel's files as one source: the smaller count, since a GPU needs both."""
    counts = [listing.count for listing in listings if listing.count is not None]
    return GpuListing(FILES, min(counts, default=None), "")


def ask(source: str, timeout_s: float) -> GpuListing:
    """What a child says: "nvml", "cuda", or "visible", the GPUs of CUDA that CUDA_VISIBLE_DEVICES leaves."""
    try:
        # Python does not start with LC_ALL=C, which tools get, where a .pth file names a path that is not ASCII.
        result = tool.run((sys.executable, *CHILD, source), timeout_s, {"LC_ALL": "C.UTF-8"})
    except CheckError as error:
        return GpuListing(source, None, str(error))
    if result.code is None:
        return GpuListing(
            source, None, f"it did not answer within {timeout_s:g} s: the GPU or the driver may hang"
        )
    try:
        return decode(GpuListing, parse_json(result.stdout.encode(), 1 << 20))
    except DecodeError as error:
        return GpuListing(source, None, f"its answer cannot be read ({error})\n{result.account()}")


def hidden(count: int | None, timeout_s: float) -> int | None:
    """How many of the GPUs CUDA_VISIBLE_DEVICES hides from programs that start here; None if that is not known."""
    if VISIBLE not in os.environ:
        return 0
    visible = ask("visible", timeout_s).count
    return None if visible is None or count is None else count - visible


def unlike(sources: Sequence[GpuListing]) -> int:
    """How many UUIDs are in one source's list and not in another's; sources without UUIDs are not compared."""
    lists = [{gpu["uuid"] for gpu in listing.gpus if gpu.get("uuid")} for listing in sources]
    whole = [
        uuids for uuids, listing in zip(lists, sources, strict=True) if uuids and len(uuids) == listing.count
    ]
    return len(set[str]().union(*whole) - whole[0].intersection(*whole)) if whole else 0


def which(nvml: GpuListing, model: str) -> dict[str, Value]:
    """Model, VBIOS and label of each GPU that NVML lists, driver and CUDA version; None if it was not read."""
    gpus = nvml.gpus
    likeness = (
        None if not (model and gpu["model"]) else int(not is_model(gpu["model"], model)) for gpu in gpus
    )
    return {
        "gpus": tuple(gpu["label"] for gpu in gpus) or ("no GPU",),
        "unlike_models": tuple(likeness) or (None,),
        "models": all_or_none(gpu["model"] for gpu in gpus),
        "vbios": all_or_none(gpu["vbios"] for gpu in gpus),
        "driver": all_or_none([nvml.versions.get("driver", "")]),
        "cuda": all_or_none([nvml.versions.get("cuda", "")]),
    }
