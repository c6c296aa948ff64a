"""The scheduler of the stand-in: names, labels, cordons, taints, GPUs, and pods of one job apart. It is a simulation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

Object = dict[str, Any]
JOB = "prelaunch.dev/job"
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def node_for(
    pod: Object, gpus: Mapping[str, int], nodes: Mapping[str, Object], pods: Iterable[Object]
) -> str | None:
    """The first node on which the pod may run; None if there is none now. `gpus` are what the nodes have."""
    spec = pod["spec"]
    placed = [row for row in pods if row["status"]["phase"] in ("Pending", "Running")]
    for name, count in gpus.items():
        here = [row for row in placed if row["spec"].get("nodeName") == name]
        free = count - sum(_gpus(row["spec"]) for row in here)
        if _gpus(spec) <= free and _apart(pod, here) and _named(spec, name) and _taken(spec, nodes[name]):
            return name
    return None


def _gpus(spec: Object) -> int:
    return int(spec["containers"][0].get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))


def _apart(pod: Object, here: Collection[Object]) -> bool:
    if not pod["spec"].get("affinity", {}).get("podAntiAffinity"):
        return True
    return all(row["metadata"]["labels"].get(JOB) != pod["metadata"]["labels"][JOB] for row in here)


def _named(spec: Object, node: str) -> bool:
    """Whether one of the terms allows the name: they are alternatives, and all fields of one must hold."""
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    groups = [term.get("matchFields", ()) for term in terms]
    return any(all((node in one["values"]) == (one["operator"] == "In") for one in group) for group in groups)


def _taken(spec: Object, node: Object) -> bool:
    """Whether the node has the labels that the pod selects, and the pod tolerates the node's taints and its cordon."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    taints = [*(node["spec"].get("taints") or ()), *([CORDON] if node["spec"].get("unschedulable") else ())]
    held = [taint for taint in taints if taint["effect"] in ("NoSchedule", "NoExecute")]
    return all(any(_tolerates(row, taint) for row in spec.get("tolerations") or ()) for taint in held)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect", taint["effect"]) != taint["effect"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return bool(toleration.get("key", taint["key"]) == taint["key"])
    return (toleration.get("key"), toleration.get("value", "")) == (taint["key"], taint.get("value", ""))
