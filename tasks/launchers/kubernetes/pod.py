"""JobSpec -> the pod of one node: the site's template with what the gate's agent needs. Pure.

In a pod /prelaunch is an empty folder: input/data/prelaunch has the files, and output/data is what the pod writes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from checks.exchange import secret_key
from tasks.launchers.base import JobSpec, LaunchRejected, Placement, Work
from tasks.launchers.job_rules import PASSED, agent_arguments, passed_nodes
from tasks.launchers.kubernetes.api import JOB
from tasks.launchers.kubernetes.options import KubernetesOptions, PodCode, Reports
from tasks.launchers.kubernetes.pod_template import Table, merged
from tasks.launchers.kubernetes.workload_forms import FORMS, INDEX_LABEL
from tasks.launchers.preflight import TORCHRUN, starts_torchrun

# `kubectl get` shows these; selectors are made of them.
MANAGED, MANAGER = "app.kubernetes.io/managed-by", "prelaunch"
JOB_LABEL = "prelaunch.dev/job"
ROOT = "/prelaunch"
# What keeps everybody else's pods from a node that Prelaunch holds (tasks/machines/kubernetes_nodes.py).
HELD = ("prelaunch.dev/unfit", "node.kubernetes.io/unschedulable")
# HyperPod sets it on nodes that it holds for healthy ("Resilience-related Kubernetes labels by SageMaker HyperPod").
HEALTHY = {"sagemaker.amazonaws.com/node-health-status": "Schedulable"}
IN, OUT, ANSWERS = f"{ROOT}/input/data/prelaunch", f"{ROOT}/output/data", f"{ROOT}/answers"
TERMINATION, SHM = "/dev/termination-log", "/dev/shm"  # noqa: S108 - in the pod
START = "start.sh"
# Behind grace_s: the last reports and their copies (container/agent/settings.py, GRACE_S).
UPLOAD_S = 40.0
CODE_SUFFIX, ANSWERS_SUFFIX = "-code", "-answers"
# What the Pod Security level "restricted" asks for. The user is nobody: the image decides which files it may read.
POD_SECURITY: Table = {
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "runAsGroup": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Table = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
# Whoever makes nodes fewer must not move a training: cluster-autoscaler, FAQ; Karpenter, "Disruption".
STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
# A pod whose files grow for ever is ended before its node has no disk left. /dev/shm counts as memory of the pod.
SCRATCH_SIZE, SHM_SIZE = "100Gi", "256Gi"
# In a plan, before anything passed.
NOT_YET = "the-node-that-passed"  # a name that the API takes


def pod_of(job: JobSpec, options: KubernetesOptions, template: Mapping[str, Any], index: int | None) -> Table:
    """Metadata and spec of the pod with that number, or of every pod of an Indexed Job. Raises LaunchRejected."""
    form = FORMS[options.workload]
    number: Table = {"name": "PRELAUNCH_POD"}
    if index is None:
        number |= {"valueFrom": {"fieldRef": {"fieldPath": form.number}}}
    else:
        number |= {"value": str(index)}
    labels = {
        MANAGED: MANAGER,
        JOB_LABEL: job.name,
        **({INDEX_LABEL: str(index)} if index is not None else {}),
    }
    spec: Table = {
        "restartPolicy": "Never",
        "subdomain": job.name,
        # It counts from the kubelet's first look at the pod, so the pull of the image is in it.
        "activeDeadlineSeconds": math.ceil(job.max_runtime_s + options.image_minutes * 60),
        "terminationGracePeriodSeconds": math.ceil(options.grace_s + UPLOAD_S),
        "volumes": _volumes(job, options, template),
    }
    if form.resource is not JOB:
        del spec["restartPolicy"]  # it is one of the replicas
    if options.auto_resume:
        spec["nodeSelector"] = dict(HEALTHY)
    if index is not None:
        spec["hostname"] = f"node-{index}"
    template_spec = (template.get("spec") or {}) if template else {}
    # The agent asks nothing of the API.
    if "automountServiceAccountToken" not in template_spec:
        spec["automountServiceAccountToken"] = False
    if "securityContext" not in template_spec:
        spec["securityContext"] = dict(POD_SECURITY)
    if options.priority_class:
        spec["priorityClassName"] = options.priority_class
    if options.service_account:
        spec["serviceAccountName"] = options.service_account
    if template_spec.get("hostNetwork") and "dnsPolicy" not in template_spec:
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    container = _container(job, options, template, number)
    metadata: Table = {"labels": labels, **({"annotations": dict(STAYS)} if job.work.trains else {})}
    pod = merged(template, metadata, spec, container)
    _set_nodes(pod["spec"], job, options, index)
    return pod


def port_of(name: str) -> int:
    """The first of the job's ports. Two jobs on one host (hostNetwork) do not meet: 3000 groups, below ip_local_port_range."""
    return 20000 + 4 * (int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 3000)


def image_of(job: JobSpec, options: KubernetesOptions) -> str:
    """The image of the job's pods: the training's own where it has one."""
    return (job.image if job.work.trains else "") or options.image


def agent_words(job: JobSpec, options: KubernetesOptions) -> tuple[str, ...]:
    """The arguments of the agent in each pod."""
    any_order = () if FORMS[options.workload].each else ("--pooled",)
    arguments = agent_arguments(job, confirm=(f"{IN}/{PASSED}", *any_order))
    if job.work is Work.CHECK:
        return arguments
    return (*arguments, "--", *(job.command if job.work is Work.COMMAND else _command(job, options)))


def _command(job: JobSpec, options: KubernetesOptions) -> tuple[str, ...]:
    """The training. After a replacement its first node may come late, and torchrun waits only 600 s for that node's store by default
    (torch.distributed.elastic.rendezvous.static_tcp_rendezvous).
    """
    if not (options.auto_resume and starts_torchrun(job)):
        return job.training
    waits = f"--rdzv-conf=timeout={math.ceil(options.joins_s)}"
    return (*job.training[: len(TORCHRUN)], waits, *job.training[len(TORCHRUN) :])


def reports_prefix(name: str, options: KubernetesOptions) -> str:
    """The s3:// prefix to which the pods of a job copy what they write."""
    return f"{options.prefix.rstrip('/')}/jobs/{name}/reports"


def reports_folder(name: str, options: KubernetesOptions) -> str:
    """The folder on the volume in which the pods of a job write."""
    return f"{options.folder.rstrip('/')}/jobs/{name}/out"


def _container(job: JobSpec, options: KubernetesOptions, template: Mapping[str, Any], number: Table) -> Table:
    limits = {options.gpu_resource: options.gpus_per_node, "vpc.amazonaws.com/efa": options.efa_per_node}
    requested = {name: str(count) for name, count in limits.items() if count}
    mounts = [
        {"name": "prelaunch", "mountPath": ROOT},
        {"name": "prelaunch-files", "mountPath": IN, "readOnly": True},
    ]
    if job.ask_s:
        mounts.append({"name": "prelaunch-answers", "mountPath": ANSWERS, "readOnly": True})
    if not _has_shm(template):
        mounts.append({"name": "prelaunch-shm", "mountPath": SHM})
    if options.reports is Reports.VOLUME:
        mounts.append({"name": "reports", "mountPath": options.folder})
    own = (
        ("/bin/sh", f"{IN}/{START}")
        if options.code is PodCode.CONFIGMAP
        else ("python3", "-m", "container.agent")
    )
    own_names = {var.get("name") for var in _own_container(template).get("env") or ()} | set(job.environment)
    # Nobody's own home is a place where it may not write.
    home = [] if "HOME" in own_names else [{"name": "HOME", "value": ROOT}]
    return {
        "name": FORMS[options.workload].container,
        "image": image_of(job, options),
        "command": list(own),
        "args": [argument.replace("$(", "$$(") for argument in agent_words(job, options)],
        "env": [*home, *_environment(job, options), number, *_training(job)],
        "volumeMounts": mounts,
        "terminationMessagePath": TERMINATION,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **(
            {}
            if "securityContext" in _own_container(template)
            else {"securityContext": dict(CONTAINER_SECURITY)}
        ),
        **({"resources": {"limits": requested}} if requested else {}),
    }


def _environment(job: JobSpec, options: KubernetesOptions) -> list[Table]:
    pattern = FORMS[options.workload].address.format(job=job.name)
    uploads = {Reports.LOGS: "log:", Reports.S3: reports_prefix(job.name, options), Reports.VOLUME: ""}
    values = {
        "PRELAUNCH_ROOT": ROOT,
        "PRELAUNCH_OUT": reports_folder(job.name, options) if options.reports is Reports.VOLUME else OUT,
        "PRELAUNCH_UPLOAD": uploads[options.reports],
        "PRELAUNCH_ANSWERS": ANSWERS if job.ask_s else "",
        "PRELAUNCH_SHARED": "1",
        "PRELAUNCH_PODS": str(job.nodes),
        "PRELAUNCH_POD_ADDRESS": pattern,
        "PRELAUNCH_PORT": str(port_of(job.name)),
        "PRELAUNCH_JOIN_S": f"{options.joins_s:g}",
        "PRELAUNCH_GRACE_S": f"{options.grace_s:g}",
        "PRELAUNCH_INTERFACE": options.interface,
        "PRELAUNCH_PYTHON": options.python,
        "PRELAUNCH_TERMINATION_LOG": TERMINATION,
    }
    variables: list[Table] = [
        {"name": name, "value": value}
        for name, value in values.items()
        if value and name not in job.environment
    ]
    node = {"name": "PRELAUNCH_ENGINE_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    return [*variables, node]


def _training(job: JobSpec) -> list[Table]:
    """The training's variables, out of the Secret: whoever may read Jobs does not see them."""
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": job.name, "key": name}}}
        for name in sorted(job.environment)
    ]


def _volumes(job: JobSpec, options: KubernetesOptions, template: Mapping[str, Any]) -> list[Table]:
    code = [{"configMap": {"name": job.name + CODE_SUFFIX}}] if options.code is PodCode.CONFIGMAP else []
    key = {"secret": {"name": job.name, "items": [{"key": secret_key.FILE, "path": secret_key.FILE}]}}
    pod_volumes: list[Table] = [
        {"name": "prelaunch", "emptyDir": {"sizeLimit": SCRATCH_SIZE}},
        {
            "name": "prelaunch-files",
            "projected": {"sources": [{"configMap": {"name": job.name}}, *code, key]},
        },
    ]
    if job.ask_s:
        answers = {"name": job.name + ANSWERS_SUFFIX, "optional": True}
        pod_volumes.append({"name": "prelaunch-answers", "configMap": answers})
    if not _has_shm(template):
        # A container's own has 64 MiB (containerd and CRI-O), and ranks of one node communicate through it.
        pod_volumes.append({"name": "prelaunch-shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM_SIZE}})
    if options.volume_claim:
        pod_volumes.append({"name": "reports", "persistentVolumeClaim": {"claimName": options.volume_claim}})
    elif options.reports is Reports.VOLUME:
        volumes = (template.get("spec") or {}).get("volumes") or ()
        if not any(volume.get("name") == "reports" for volume in volumes):
            raise LaunchRejected(
                'reports = "volume" needs a volume_claim, or a volume named "reports" in the pod template.'
            )
    return pod_volumes


def _has_shm(template: Mapping[str, Any]) -> bool:
    mounts = _own_container(template).get("volumeMounts") or ()
    return any(mount.get("mountPath") == SHM for mount in mounts)


def _own_container(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container of the template, {} if it has none."""
    containers: Sequence[Mapping[str, Any]] = (template.get("spec") or {}).get("containers") or ({},)
    return containers[0]


def _set_nodes(spec: Table, job: JobSpec, options: KubernetesOptions, index: int | None) -> None:
    """Keep pods of one job apart, away from nodes that failed, and on the node that passed."""
    fields: list[Table] = [
        {"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in job.exclude
    ]
    pinned = (
        _passed(job) if Placement(options.placement) is Placement.PINNED and job.work is Work.CONFIRM else ()
    )
    if pinned and index is not None:
        fields.append({"key": "metadata.name", "operator": "In", "values": [pinned[index]]})
    affinity = spec.setdefault("affinity", {})
    only = tuple(filter(None, options.only_nodes.split(",")))
    # Terms are alternatives, and a field has one value (k8s.io/api, NodeSelectorTerm): a term per node, each with all the rest.
    alternatives = [
        [*fields, {"key": "metadata.name", "operator": "In", "values": [node]}]
        for node in (only if index is not None or not pinned else pinned)
    ] or [fields]
    if any(alternatives):
        node = affinity.setdefault("nodeAffinity", {})
        required = node.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        terms = required.get("nodeSelectorTerms") or [{}]
        required["nodeSelectorTerms"] = [
            {**term, "matchFields": [*term.get("matchFields", ()), *more]}
            for term in terms
            for more in alternatives
        ]
    if only:
        held = ({"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in HELD)
        spec["tolerations"] = [*spec.get("tolerations", ()), *held]
    if options.one_pod_per_node:
        apart = {
            "labelSelector": {"matchLabels": {JOB_LABEL: job.name}},
            "topologyKey": "kubernetes.io/hostname",
        }
        pods = affinity.setdefault("podAntiAffinity", {})
        pods.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(apart)
    if not affinity:
        del spec["affinity"]


def _passed(job: JobSpec) -> tuple[str, ...]:
    """The node of each pod that passed, in the order of the pods. Before the checks there is none yet. Raises LaunchRejected."""
    nodes = {node.name: node.identity.get("engine_node", "") for node in passed_nodes(job)}
    names = tuple(nodes.get(f"node-{index}", "") for index in range(job.nodes))
    if not nodes:
        return (NOT_YET,) * job.nodes
    if not all(names):
        raise LaunchRejected(f"{job.name}: the pass does not say on which nodes of Kubernetes its pods ran.")
    return names
