"""gpu.memory, gpu.utilisation, gpu.processes: nobody else uses the GPUs before the run.

Inside a container NVML does not show processes of other containers. An empty list alone proves nothing, so memory and
utilisation are read as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.check import Context, Measurement, Resource
from checks.probes.gpu import nvml
from checks.probes.gpu.nvml import measured, nvml_check
from checks.probes.gpu.record import Gpu, account, columns, padded

LISTS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "MPS": "nvmlDeviceGetMPSComputeRunningProcesses",
}
# The counter averages over up to a second: samples over a second see what comes and goes.
SETTLE_S = 1.0
SAMPLES = 5
PAUSE_S = 0.25
MIB = 1 << 20
MEMORY = ("memory_total_mib", "memory_used_mib")
PROCESSES = ("processes", "graphics_mib")


@nvml_check("gpu.memory", MEMORY, needs="NVML (driver 510 or later)", uses=(Resource.GPU,), beside_job=True)
def memory(context: Context) -> Measurement:
    """Reads each GPU's memory: its size, and what is in use beyond the driver's own reserve.

    Arrays in GPU order, in MiB.
    """
    return measured(context, MEMORY)


@nvml_check("gpu.utilisation", ("utilisation_percent",), timeout_s=30, cost="seconds", uses=(Resource.GPU,))
def utilisation(context: Context) -> Measurement:
    """Samples how busy each GPU is while nothing of ours runs on it: the greatest of five samples in a second.

    Array in GPU order, in percent; None where a sample could not be read.
    """
    return sampled(context, time.sleep)


def sampled(context: Context, wait: Callable[[float], None]) -> Measurement:
    """The measurement, waiting between the samples with `wait`."""
    name = "utilisation_percent"
    rounds: list[tuple[Gpu, ...]] = []
    with nvml.session() as module:
        wait(SETTLE_S)  # what ran here before (DCGM's diagnostic, our own) is still in the average
        for sample in range(SAMPLES):
            if sample:
                wait(PAUSE_S)
            rounds.append(nvml.look(module, (name,)))
    if len({len(found) for found in rounds}) != 1:
        raise nvml.NvmlError("the number of GPUs that NVML lists changed between two samples")
    gpus = padded(
        [busiest(of_gpu, name) for of_gpu in zip(*rounds, strict=True)], context.declared.gpus_per_node
    )
    return Measurement(columns(gpus, (name,)), account(gpus, (name,)))


def busiest(samples: Sequence[Gpu], name: str) -> Gpu:
    """The record with the greatest sample; one that was not read leaves the field unread, since it may have been that."""
    for sample in samples:
        if sample.number(name) is None:
            return sample
    return replace(samples[0], values={**samples[0].values, name: max(_numbers(samples, name))})


@nvml_check("gpu.processes", PROCESSES, uses=(Resource.GPU,))
def processes(context: Context) -> Measurement:
    """Counts the processes on each GPU (compute, graphics, MPS); the evidence names them.

    Arrays in GPU order, None where a list could not be read. A process that only draws, with known memory, is not in
    `processes`: its memory is in `graphics_mib` (MiB, summed).
    """
    with nvml.session() as module:
        found = tuple(with_processes(module, gpu) for gpu in nvml.look(module, ()))
    gpus = padded(found, context.declared.gpus_per_node)
    listed = "\n".join(gpu.text("listed") for gpu in gpus if gpu.text("listed"))
    said = "\n".join(part for part in (listed, account(gpus, PROCESSES)) if part)
    return Measurement(columns(gpus, PROCESSES), said)


def with_processes(module: Any, gpu: Gpu) -> Gpu:
    """The record with how many processes of others the GPU has, what they are, and the memory of those that only draw."""
    seen: dict[int, str] = {}
    drawing: dict[int, int] = {}
    unread: dict[str, str] = dict(gpu.unread)
    for kind, call in LISTS.items():
        try:
            handle = module.nvmlDeviceGetHandleByIndex(gpu.index)
            for process in getattr(module, call)(handle):
                pid, used = int(process.pid), getattr(process, "usedGpuMemory", None)
                if kind == "graphics" and pid not in seen and isinstance(used, int):
                    drawing[pid] = used
                elif kind != "graphics":
                    drawing.pop(pid, None)
                seen.setdefault(pid, f"{kind}, {_used(process)}")
        except module.NVMLError as error:
            if kind == "MPS" and nvml.code_of(error) in (3, 13):
                continue  # older GPUs and drivers know no MPS list; its clients are in the compute list
            why = f"{kind}: {nvml.said(error)}"
            return replace(gpu, unread={**unread, **dict.fromkeys(PROCESSES, why)})
    listed = "; ".join(f"{gpu.label}: pid {pid} {_name(pid)} ({said})" for pid, said in sorted(seen.items()))
    found = {"processes": len(seen) - len(drawing), "graphics_mib": round(sum(drawing.values()) / MIB, 1)}
    return replace(gpu, values={**gpu.values, **found, "listed": listed})


def _numbers(samples: Sequence[Gpu], name: str) -> list[float]:
    return [value for sample in samples if (value := sample.number(name)) is not None]


def _used(process: Any) -> str:
    used = getattr(process, "usedGpuMemory", None)
    return f"{used / MIB:.0f} MiB" if isinstance(used, int) else "memory unknown"


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "(its name is not visible here)"
