"""nodes.node_N.system, and the tool's own word of the node (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from checks.secondopinion.node import Asked, NodeTable, Readings, Shown, Unread
from checks.secondopinion.shape import Summary, System

GIB = 1 << 30
WORDS = ("PASS", "WARN", "FAIL")
RESOURCES: Mapping[str, tuple[str, ...]] = {
    "system.resources": ("memory_gib", "memory_available_bytes", "disk_free_bytes", "cpus"),
}
OWN: Mapping[str, tuple[str, ...]] = {"own.word": ("own_level",)}


def resources(node: NodeTable, asked: Asked) -> Readings:
    """Memory, disk and CPUs as psutil counted them."""
    found = node.taken(System, "system")
    metrics = {
        "memory_gib": found.memory.total_gb,
        "memory_available_bytes": int(found.memory.available_gb * GIB),
        "disk_free_bytes": int(found.disk.free_gb * GIB),
        "cpus": found.cpu.count,
    }
    return {"system.resources": Shown(metrics)}


def own_word(node: NodeTable, asked: Asked) -> Readings:
    """What the tool itself said of the node: 0 PASS, 1 WARN, 2 FAIL."""
    return {"own.word": word_of(node.taken(Summary, "summary"))}


def word_of(summary: Summary) -> Shown:
    """The same of any summary; with an issue a PASS is none. Raises Unread for a word that the tool does not have."""
    if summary.overall_status not in WORDS:
        raise Unread(f"overall_status is {summary.overall_status!r:.40}, none of {', '.join(WORDS)}")
    said = "\n".join((f"overall_status: {summary.overall_status}", *summary.issues))
    return Shown({"own_level": max(WORDS.index(summary.overall_status), int(bool(summary.issues)))}, said)
