"""nodes.node_N.gpu: what nvidia-smi --query-gpu printed before any test; nodes.node_N.system; and the tool's own status of the node.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from checks.model import Value
from checks.probes.gpu.record import is_model
from checks.seed_report.node import DeclaredCluster, Extracted, NodeTable, Readings, Unread
from checks.seed_report.shape import Gpu, Summary, System, table, taken

CHECKS: Mapping[str, tuple[str, ...]] = {
    "gpu.inventory": ("gpus", "gpus_found", "gpus_missing", "models", "unlike_models", "driver"),
    "gpu.memory": ("gpus", "memory_total_mib", "memory_used_mib"),
    "gpu.utilisation": ("gpus", "utilisation_percent"),
    "gpu.power": ("gpus", "draw_w"),
    "gpu.thermal": ("gpus", "temperature_c"),
}
NO_GPU = "no_gpu"  # the tool writes this in `nccl` and `dcgm` if the kernel has no /dev/nvidia0
_KEY = re.compile(r"gpu_(0|[1-9]\d{0,3})")


def read(node: NodeTable, asked: DeclaredCluster) -> Readings:
    """The five checks. An empty table proves that there are no GPUs only if the kernel's list was empty as well."""
    if node.value.get("gpu") == {} and _kernel_has_none(node):
        return {**_unread(), "gpu.inventory": _none_found(asked)}
    found = table(node.section("gpu"), f"nodes.{node.name}.gpu")
    gpus: dict[int, Gpu] = {}
    for key, value in found.items():
        path = f"nodes.{node.name}.gpu.{key}"
        named = _KEY.fullmatch(key)
        if named is None:
            node.unknown.append((path, value))
        else:
            gpus[int(named[1])] = taken(Gpu, value, path, node.unknown)
    if not gpus:
        raise Unread("gpu lists no GPU")
    return _readings(tuple(gpus[index] for index in sorted(gpus)), sorted(gpus), asked)


def _readings(gpus: Sequence[Gpu], indices: Sequence[int], asked: DeclaredCluster) -> Readings:
    labels = tuple(f"GPU {index}" for index in indices)
    model = asked.instance.gpu if asked.instance else ""
    unlike: tuple[Value, ...] = tuple(int(bool(model) and not is_model(gpu.name, model)) for gpu in gpus)
    drivers = "+".join(sorted({gpu.driver_version for gpu in gpus}))
    columns: Mapping[str, Mapping[str, object]] = {
        "gpu.inventory": {
            "gpus_found": len(gpus),
            "gpus_missing": asked.declared.gpus_per_node - len(gpus),
            "models": tuple(gpu.name for gpu in gpus),
            "unlike_models": unlike,
            "driver": drivers,
        },
        "gpu.memory": {
            "memory_total_mib": tuple(gpu.memory_total_mb for gpu in gpus),
            "memory_used_mib": tuple(gpu.memory_used_mb for gpu in gpus),
        },
        "gpu.utilisation": {"utilisation_percent": tuple(gpu.utilization_percent for gpu in gpus)},
        "gpu.power": {"draw_w": tuple(gpu.power_draw_w for gpu in gpus)},
        "gpu.thermal": {"temperature_c": tuple(gpu.temperature_c for gpu in gpus)},
    }
    said = "\n".join(f"{label}: {_line(gpu)}" for label, gpu in zip(labels, gpus, strict=True))
    return {check: Extracted({"gpus": labels, **metrics}, said) for check, metrics in columns.items()}  # type: ignore[dict-item]


def _line(gpu: Gpu) -> str:
    return (
        f"{gpu.name}, driver {gpu.driver_version}, {gpu.memory_used_mb} of {gpu.memory_total_mb} MiB, "
        f"{gpu.temperature_c} C, {gpu.utilization_percent} %, {gpu.power_draw_w} W"
    )


def _kernel_has_none(node: NodeTable) -> bool:
    nccl = node.value.get("nccl")
    tests = nccl.get("communication_tests") if isinstance(nccl, Mapping) else None
    return isinstance(tests, Mapping) and NO_GPU in tests


def _none_found(asked: DeclaredCluster) -> Extracted:
    metrics: dict[str, Value] = {
        "gpus": ("none",),
        "gpus_found": 0,
        "gpus_missing": asked.declared.gpus_per_node,
        "models": ("none",),
        "unlike_models": (1,),
        "driver": "none",
    }
    return Extracted(metrics, "nvidia-smi was not there or listed no GPU, and the kernel has no /dev/nvidia0")


def _unread() -> dict[str, Extracted | Unread]:
    return {check: Unread("no GPU was found") for check in CHECKS}


GIB = 1 << 30
WORDS = ("PASS", "WARN", "FAIL")
RESOURCES: Mapping[str, tuple[str, ...]] = {
    "system.resources": ("memory_gib", "memory_available_bytes", "disk_free_bytes", "cpus"),
}
OWN: Mapping[str, tuple[str, ...]] = {"own.word": ("own_level",)}


def resources(node: NodeTable, asked: DeclaredCluster) -> Readings:
    """Memory, disk and CPUs as psutil counted them."""
    found = node.taken(System, "system")
    metrics = {
        "memory_gib": found.memory.total_gb,
        "memory_available_bytes": int(found.memory.available_gb * GIB),
        "disk_free_bytes": int(found.disk.free_gb * GIB),
        "cpus": found.cpu.count,
    }
    return {"system.resources": Extracted(metrics)}


def own_status(node: NodeTable, asked: DeclaredCluster) -> Readings:
    """The tool's own status of the node: 0 PASS, 1 WARN, 2 FAIL."""
    return {"own.word": status_of(node.taken(Summary, "summary"))}


def status_of(summary: Summary) -> Extracted:
    """The same for any summary. A PASS with an issue is not a PASS. Raises Unread for a status that the tool does not have."""
    if summary.overall_status not in WORDS:
        raise Unread(f"overall_status is {summary.overall_status!r:.40}, none of {', '.join(WORDS)}")
    said = "\n".join((f"overall_status: {summary.overall_status}", *summary.issues))
    return Extracted({"own_level": max(WORDS.index(summary.overall_status), int(bool(summary.issues)))}, said)
