"""The child process of gpu.inventory: prints what NVML or CUDA lists as one JSON line. If the driver hangs, only the child hangs."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.probes.gpu import nvml
from checks.probes.gpu.record import Gpu

IDENTITY_FIELDS = ("uuid", "model", "vbios", "serial")
# A GPU that fell off the bus still has a name in the driver's memory: this asks the GPU itself.
ALIVE = ("memory_total_mib", "temperature_c")
# nvmlReturn_t: no power, no interrupts, lost, waits for a reset, not found, unknown (often the first sign of a dead GPU).
LOST = ("(8)", "(11)", "(15)", "(16)", "(28)", "(999)")
NO_DEVICE = 100
VISIBLE = "CUDA_VISIBLE_DEVICES"
# What an error of CUDA calls for, where its number does not say it (cuda.h).
CUDA_ERRORS = {
    802: "system not yet initialised: is the fabric manager running?",
    803: "the driver and the CUDA compatibility library do not match",
}


@dataclass(frozen=True)
class GpuListing:
    """What one source lists. `count` is None if it could not look; `account` tells why, and what it found.

    `fault` is what is broken, where the source's own error says so. `gpus` has one row per GPU that answers; `lost` do not.
    """

    source: str
    count: int | None
    account: str
    fault: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[Mapping[str, str], ...] = ()
    lost: int = 0


def by_nvml() -> GpuListing:
    """The GPUs that answer NVML; one that is lost is still listed, and does not count."""
    try:
        with nvml.session() as module:
            gpus = nvml.gpu_records(module, (*IDENTITY_FIELDS, *ALIVE))
            versions = _versions(module)
    except nvml.NvmlError as error:
        return GpuListing("nvml", None, str(error), error.fault)
    except nvml.NvmlMissing as error:
        return GpuListing("nvml", None, str(error))
    evidence = "\n".join(map(_account, gpus))
    alive = [gpu for gpu in gpus if not is_lost(gpu)]
    if not all(any(name in gpu.values for name in ALIVE) for gpu in alive):
        return GpuListing("nvml", None, evidence, versions=versions)
    listed = tuple(
        {"label": gpu.label, "pci": gpu.pci, **{n: gpu.text(n) for n in IDENTITY_FIELDS}} for gpu in alive
    )
    return GpuListing("nvml", len(alive), evidence, "", versions, listed, lost=len(gpus) - len(alive))


def is_lost(gpu: Gpu) -> bool:
    """Whether NVML says of it, or instead of an answer of its own, that it is broken; refused is not broken."""
    return any(reason.endswith(LOST) for reason in gpu.unread.values())


def by_cuda() -> GpuListing:
    """The GPUs that CUDA's driver library initialises, whatever CUDA_VISIBLE_DEVICES hides."""
    os.environ.pop(VISIBLE, None)
    return visible()


def visible() -> GpuListing:
    """The GPUs that CUDA shows to a program that starts here."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return GpuListing(
            "cuda",
            None,
            f"libcuda.so.1: {error}. Install the driver, or mount its libraries into the container.",
        )
    code = int(cuda.cuInit(0))
    if code == NO_DEVICE:
        return GpuListing("cuda", 0, f"cuInit: {_cuda_error(code)}")
    if code:
        return GpuListing("cuda", None, f"cuInit: {_cuda_error(code)}")
    count = ctypes.c_int(-1)
    if (code := int(cuda.cuDeviceGetCount(ctypes.byref(count)))) or count.value < 0:
        return GpuListing("cuda", None, f"cuDeviceGetCount: {_cuda_error(code)}")
    uuids = [_cuda_uuid(cuda, index) for index in range(count.value)]
    return GpuListing(
        "cuda", count.value, " ".join(uuids) or "no GPU", gpus=tuple({"uuid": gpu_uuid} for gpu_uuid in uuids)
    )


def _cuda_uuid(cuda: Any, index: int) -> str:
    device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    for code in (
        cuda.cuDeviceGet(ctypes.byref(device), index),
        cuda.cuDeviceGetUuid(ctypes.byref(raw), device),
    ):
        if code:
            return ""
    return f"GPU-{uuid.UUID(bytes=bytes(raw))}"


def _cuda_error(code: int) -> str:
    return f"CUDA error {code} ({CUDA_ERRORS.get(code, 'see cuda.h')})"


def _versions(module: Any) -> dict[str, str]:
    """Driver and CUDA version; one that cannot be read is left out."""
    versions = {}
    try:
        driver = module.nvmlSystemGetDriverVersion()
        versions["driver"] = driver.decode() if isinstance(driver, bytes) else str(driver)
        number = int(module.nvmlSystemGetCudaDriverVersion_v2())
        versions["cuda"] = f"{number // 1000}.{number % 1000 // 10}"
    except module.NVMLError as error:
        print(f"versions: {error}", file=sys.stderr)
    return versions


def _account(gpu: Gpu) -> str:
    texts = [f"{name} {gpu.text(name)}" for name in IDENTITY_FIELDS if gpu.text(name)]
    texts += [f"{name}: {reason}" for name, reason in gpu.unread.items()]
    return f"{gpu.label}: {', '.join(texts)}"


def main(argv: list[str]) -> int:
    """argv: nvml, cuda or visible."""
    listing = {"nvml": by_nvml, "cuda": by_cuda, "visible": visible}[argv[0]]()
    gpus = [dict(gpu) for gpu in listing.gpus]
    print(json.dumps({**vars(listing), "versions": dict(listing.versions), "gpus": gpus}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
