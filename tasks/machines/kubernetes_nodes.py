"""What a Node of Kubernetes says about who has it, as a machine. Pure: the tables of everybody else who takes nodes out of service.

Sources: k8s.io/api core/v1; NVIDIA NVSentinel, docs/configuration/fault-quarantine.md; AWS, "Resilience-related Kubernetes labels by
SageMaker HyperPod" and "Enable node auto repair" of Amazon EKS; HyperPod names its nodes hyperpod-<instance id>.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.judge.clocks import seconds_of
from tasks.machines.base import Holder, Machine, Mark, ServiceState
from tasks.text.inert import one_line

# Ours. NoExecute would end the training that runs on the node, so it is never used.
TAINT, EFFECT = "prelaunch.dev/unfit", "NoSchedule"
MARK, SINCE, TESTING = "prelaunch.dev/mark", "prelaunch.dev/since", "prelaunch.dev/testing"
HEALTH, DEEP = (
    "sagemaker.amazonaws.com/node-health-status",
    "sagemaker.amazonaws.com/deep-health-check-status",
)
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
SCHEDULABLE, IN_PROGRESS = "Schedulable", "InProgress"
PENDING_REBOOT, PENDING_REPLACEMENT = "UnschedulablePendingReboot", "UnschedulablePendingReplacement"
# A label or annotation of a node -> who has it, whatever its value is; a taint by its key. NVSentinel needs the cordon: it takes an
# uncordoned node for one that a person has given back (docs/cancelling-breakfix.md).
CLAIMS: Mapping[str, str] = {
    "k8saas.nvidia.com/cordon-by": "NVSentinel",
    "quarantineHealthEvent": "NVSentinel",
    "dgxc.nvidia.com/nvsentinel-state": "NVSentinel",
}
TAINTS: Mapping[str, str] = {
    "nvsentinel.nvidia.com/external-remediation": "NVSentinel",
    "sagemaker.amazonaws.com/node-health-status": "HyperPod",
    "gpu-healthcheck.aws-samples.io/unhealthy": "AWS' GPU health check",
    "node.kubernetes.io/out-of-service": "an operator (out-of-service)",
    "karpenter.sh/disrupted": "Karpenter",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
}
# Conditions of EKS' node monitoring agent; one that is False is about to be repaired where auto repair is on.
EKS_CONDITIONS = (
    "AcceleratedHardwareReady", "ContainerRuntimeReady", "KernelReady", "NetworkingReady", "StorageReady",
)  # fmt: skip
INSTANCE = re.compile(r"(?:hyperpod-|/)(i-[0-9a-f]{8}(?:[0-9a-f]{9})?)$")


@dataclass(frozen=True)
class KubernetesMachine(Machine):
    """A node with HyperPod's labels and its kubelet's boot id. Each change alters `version`. For NVSentinel it `stays_cordoned`."""

    health: str = ""
    deep_check: str = ""
    version: str = ""
    stays_cordoned: bool = False
    taints: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)

    @property
    def engine_health(self) -> str:
        """HyperPod's labels: the health of the node, and the status of its deep health check."""
        return ", ".join(filter(None, (self.health, self.deep_check and f"deep check {self.deep_check}")))


def machine_of(node: Mapping[str, Any], jobs: Iterable[str] = ()) -> KubernetesMachine:
    """The machine that a Node describes; `jobs` run on it."""
    meta, spec, status = node.get("metadata") or {}, node.get("spec") or {}, node.get("status") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    taints = tuple(spec.get("taints") or ())
    mark = Mark.read(str(annotations.get(MARK) or ""))
    cordoned = bool(spec.get("unschedulable"))
    conditions = {str(item.get("type")): item for item in status.get("conditions") or ()}
    kubelet = conditions.get("Ready") or {}
    ready = kubelet.get("status")
    owner, reason = _other(labels, annotations, taints, conditions)
    if not owner and cordoned and mark is None:
        owner, reason = "somebody who cordoned it", "cordoned without our mark"
    if not owner and mark is None and any(taint.get("key") == TAINT for taint in taints):
        owner, reason = "somebody who set our taint without a mark", TAINT
    info = status.get("nodeInfo") or {}
    health = {"health": labels.get(HEALTH), "deep check": labels.get(DEEP)}
    phrases = ["cordoned" if cordoned else "schedulable", reason, str(mark) if mark else ""]
    phrases += [f"Ready={ready or 'unknown'}"] if ready != "True" else []
    phrases += [f"{name} {value}" for name, value in health.items() if value]
    holder = Holder.PRELAUNCH if mark else Holder.NOBODY
    service = _service(owner, mark, cordoned, taints, annotations, labels)
    return KubernetesMachine(
        node=str(meta.get("name") or ""),
        # A kubelet that is silent says nothing about who has the node, and it may be back in a moment.
        service=service if ready == "True" or owner else ServiceState.UNKNOWN,
        holder=Holder.OTHER if owner else holder,
        status=one_line("; ".join(filter(None, phrases)), 300),
        owner=owner,
        mark=mark,
        since=seconds_of(str(annotations.get(SINCE) or "")),
        instance_id=_instance(meta, spec),
        instance_type=str(labels.get(INSTANCE_TYPE) or ""),
        jobs=tuple(sorted(jobs)),
        boot_id=str(info.get("bootID") or ""),
        unknown_since=seconds_of(str(kubelet.get("lastTransitionTime") or "")) if ready != "True" else None,
        health=str(labels.get(HEALTH) or ""),
        deep_check=str(labels.get(DEEP) or ""),
        version=str(meta.get("resourceVersion") or ""),
        stays_cordoned=any(key in labels or key in annotations for key in CLAIMS),
        taints=taints,
    )


def _other(
    labels: Mapping[str, str], annotations: Mapping[str, str], taints: Iterable[Mapping[str, Any]],
    conditions: Mapping[str, Mapping[str, Any]],
) -> tuple[str, str]:  # fmt: skip
    """Who else has the node, and by what one sees it; ("", "") for nobody."""
    health = labels.get(HEALTH, "")
    if health not in ("", SCHEDULABLE):
        return "HyperPod", f"{HEALTH}={health}"
    if labels.get(DEEP) == IN_PROGRESS:
        return "HyperPod", f"{DEEP}={IN_PROGRESS}"
    for key, owner in CLAIMS.items():
        if key in labels or key in annotations:
            return owner, key
    for taint in taints:
        if taint.get("key") in TAINTS:
            return TAINTS[str(taint["key"])], str(taint["key"])
    for name in EKS_CONDITIONS:
        if (conditions.get(name) or {}).get("status") == "False":
            return (
                "the node monitoring agent of EKS",
                f"{name}=False {conditions[name].get('reason') or ''}".strip(),
            )
    return "", ""


def _service(
    owner: str, mark: Mark | None, cordoned: bool, taints: Iterable[Mapping[str, Any]],
    annotations: Mapping[str, str], labels: Mapping[str, str],
) -> ServiceState:  # fmt: skip
    if labels.get(HEALTH) in (PENDING_REBOOT, PENDING_REPLACEMENT) or labels.get(DEEP) == IN_PROGRESS:
        return ServiceState.CHANGING
    fenced = cordoned and any(taint.get("key") == TAINT and taint.get("effect") == EFFECT for taint in taints)
    if mark is not None and fenced:
        return ServiceState.TESTING if annotations.get(TESTING) else ServiceState.OUT
    if cordoned or owner:
        return ServiceState.OUT
    return ServiceState.SERVING if mark is None else ServiceState.UNKNOWN


def fence_change(machine: KubernetesMachine, mark: Mark, at: str) -> dict[str, Any]:
    """The merge patch that takes a node out of service under this mark. It holds for exactly the node that was seen."""
    taints = [taint for taint in machine.taints if taint.get("key") != TAINT]
    own = {"key": TAINT, "value": _label(mark.gate_id), "effect": EFFECT}
    metadata = _metadata(machine, annotations={MARK: str(mark), SINCE: at, TESTING: None})
    return {**metadata, "spec": {"unschedulable": True, "taints": [*taints, own]}}


def testing_change(machine: KubernetesMachine, testing: bool) -> dict[str, Any]:
    """The merge patch that says whether our re-test may run on it."""
    return _metadata(machine, annotations={TESTING: "true" if testing else None})


def free_change(machine: KubernetesMachine) -> dict[str, Any]:
    """The merge patch that removes our marks and the cordon that came with them unless another needs it, and nothing else."""
    taints = [dict(taint) for taint in machine.taints if taint.get("key") != TAINT]
    metadata = _metadata(machine, annotations=dict.fromkeys((MARK, SINCE, TESTING)))
    return {**metadata, "spec": {"unschedulable": machine.stays_cordoned or None, "taints": taints or None}}


def health_change(machine: KubernetesMachine, label: str) -> dict[str, Any]:
    """The merge patch that asks HyperPod for a reboot or a replacement. `Schedulable` is HyperPod's own word, and never written."""
    if label not in (PENDING_REBOOT, PENDING_REPLACEMENT):
        raise ValueError(f"{label!r} is not to be written")
    return _metadata(machine, labels={HEALTH: label})


def _metadata(machine: KubernetesMachine, **changes: Mapping[str, str | None]) -> dict[str, Any]:
    """The metadata of a patch, which the API server takes for exactly the version of the node that was seen."""
    return {"metadata": {"resourceVersion": machine.version, **changes}}


def dumped(change: Mapping[str, Any]) -> str:
    """The patch as a person would type it, without the version."""
    patch = json.loads(json.dumps(change))
    patch["metadata"].pop("resourceVersion", None)
    return json.dumps(patch)


def _label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:63].strip("-._")


def _instance(meta: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """The EC2 instance id: at the end of providerID (aws:///us-east-1a/i-...) or of HyperPod's node name."""
    for text in (str(spec.get("providerID") or ""), str(meta.get("name") or "")):
        if match := INSTANCE.search(text):
            return match[1]
    return ""
