"""What a plan needs of the cluster, before anything is made: rights, objects that the API server takes, quota, nodes, queue.

Every object is created with dryRun=All, which runs all admission and keeps nothing; a pod of its own as well, because quota, Pod
Security, priority classes and service accounts are looked at where a pod is made and not where its Job is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tasks.launchers.base import (
    EngineUnavailable,
    LaunchError,
    LaunchRejected,
    Plan,
    PreflightCheck,
    PreflightResult,
    QuotaExceeded,
)
from tasks.launchers.kubernetes import objects, pull_secrets
from tasks.launchers.kubernetes.api import (
    ACCESS_REVIEW,
    CONFIG_MAP,
    LOCAL_QUEUE,
    NODE,
    POD,
    QUOTA,
    SECRET,
    SERVICE,
    Api,
    Kind,
    Object,
    Refused,
    explained,
    grant,
)
from tasks.launchers.kubernetes.options import KubernetesOptions
from tasks.launchers.kubernetes.workload_forms import FORMS, WorkloadForm

LOOK_S = 60.0
# What the launcher does, each with the sub-resource "" or "log".
Right = tuple[Kind, tuple[str, ...], str]
RIGHTS: tuple[Right, ...] = (
    (POD, ("list",), ""),
    (POD, ("get",), "log"),
    (CONFIG_MAP, ("create", "delete", "get", "patch"), ""),
    (SECRET, ("create", "delete", "get"), ""),
    (SERVICE, ("create", "delete", "get"), ""),
)
ASK_ELSEWHERE = "Run this where kubectl version answers, or name the cluster with context or kubeconfig_file in [cluster.options]."
EFA = "vpc.amazonaws.com/efa"


def look(api: Api, plans: tuple[Plan, ...], options: KubernetesOptions) -> tuple[PreflightCheck, ...]:
    """Everything that can be known now; nothing of it stays. Raises nothing, and ends by a deadline."""
    deadline = time.monotonic() + LOOK_S
    try:
        made = [PreflightCheck("API server", PreflightResult.OK, f"it is {api.version()}")]
    except Refused as refusal:
        return (_wrong("API server", str(explained(refusal, "the API server"))),)
    except LaunchRejected as error:
        return (_wrong("API server", str(error)),)
    except LaunchError as error:
        return (_unanswered(error),)
    looks: tuple[Callable[[], Iterable[PreflightCheck]], ...] = (
        lambda: _rights(api, FORMS[options.workload]),
        lambda: _objects(api, plans),
        lambda: pull_secrets.look(
            api, (spec["template"]["spec"] for plan in plans for spec in _job_specs(plan))
        ),
        lambda: _queue(api, options),
        lambda: _nodes(api, plans, options),
        lambda: _quotas(api, plans),
    )
    for one in looks:
        if time.monotonic() > deadline:
            return (*made, _unseen("preflight", f"it was stopped after {LOOK_S:g} s"))
        try:
            made += one()
        except Refused as refusal:
            made.append(_unseen(refusal.kind, str(refusal)))
        except EngineUnavailable as error:
            made.append(_unanswered(error))
    return tuple(dict.fromkeys(made))


def rights(form: WorkloadForm) -> tuple[Right, ...]:
    """Every right that a gate with such workloads uses."""
    return ((form.kind, ("create", "delete", "list"), ""), *RIGHTS)


def _rights(api: Api, form: WorkloadForm) -> Iterator[PreflightCheck]:
    """Every verb that the launcher uses, by SelfSubjectAccessReview, which everybody may create."""
    lacking = []
    for kind, verbs, part in rights(form):
        for verb in verbs:
            if not _may(api, kind, verb, part):
                lacking.append((kind, verb, part))
    for kind, verb, part in lacking:
        plural = f"{kind.plural}/{part}" if part else kind.plural
        message = f"you may not {verb} {plural} in namespace {api.namespace}"
        yield _wrong(f"right to {verb} {plural}", message, grant(verb, plural, kind.group))
    if not lacking:
        yield PreflightCheck(
            "rights", PreflightResult.OK, f"all that a gate does in namespace {api.namespace} is allowed"
        )


def _may(api: Api, kind: Kind, verb: str, part: str) -> bool:
    attributes = {
        "namespace": api.namespace,
        "verb": verb,
        "group": kind.group,
        "resource": kind.plural,
        "subresource": part,
    }
    review = {
        "apiVersion": ACCESS_REVIEW.api_version, "kind": ACCESS_REVIEW.name,
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value or key == "group"}},
    }  # fmt: skip
    return bool((api.create(review).get("status") or {}).get("allowed"))


def _objects(api: Api, plans: tuple[Plan, ...]) -> Iterator[PreflightCheck]:
    for plan in plans:
        name = plan.job.name
        made = (*objects.config_maps(plan), objects.secret(plan, b""), *(call.body for call in plan.calls))
        problems = dict[str, PreflightCheck]()
        for body in (*made, *_pod(plan)):
            if problem := _refused(api, body, name):
                problems.setdefault(problem.message, problem)
        yield from problems.values() or (
            PreflightCheck(
                f"objects of {name}", PreflightResult.OK, f"the API server would take all {len(made)}"
            ),
        )


def _pod(plan: Plan) -> tuple[Object, ...]:
    """The first pod as its Job would make it."""
    template = next((spec["template"] for spec in _job_specs(plan) if "template" in spec), None)
    if template is None:
        return ()
    metadata = {**template["metadata"], "name": f"{plan.job.name}-preflight"}
    return ({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]},)


def _job_specs(plan: Plan) -> Iterator[Mapping[str, Any]]:
    """Per workload a table whose `template` is that of its pods."""
    for call in plan.calls:
        spec: Any = call.body.get("spec") or {}
        replicas = [*(spec.get("pytorchReplicaSpecs") or {}).values(), *(spec.get("replicaSpecs") or ())]
        yield from (row for row in (spec, *replicas) if "template" in row)


def _refused(api: Api, body: Object, name: str) -> PreflightCheck | None:
    subject = f"{body['kind']} {body['metadata']['name']}"
    try:
        api.create(body, dry_run=True)
    except Refused as refusal:
        error = explained(refusal, name)
        if body["kind"] == "Pod" and refusal.status == 403 and "cannot create resource" in refusal.said:
            return _unseen(
                subject, "without the right to create pods it is not known what admission says of them"
            )
        if refusal.status == 404:
            return _wrong(subject, str(error), f"Create namespace {api.namespace}, or name another one.")
        result = PreflightResult.NO_CAPACITY if isinstance(error, QuotaExceeded) else PreflightResult.WRONG
        return PreflightCheck(subject, result, str(error))
    return None


def _queue(api: Api, options: KubernetesOptions) -> Iterator[PreflightCheck]:
    if not options.queue:
        return
    subject = f"LocalQueue {options.queue}"
    if api.get(LOCAL_QUEUE, options.queue) is None:
        yield _wrong(
            subject, f"namespace {api.namespace} has none of that name", "Correct queue in [cluster.options]."
        )
    else:
        yield PreflightCheck(subject, PreflightResult.OK, "it is there")


def _nodes(api: Api, plans: tuple[Plan, ...], options: KubernetesOptions) -> Iterator[PreflightCheck]:
    """Whether there are enough nodes that have what is asked for; whether it is free now is not known."""
    needed = max((plan.job.nodes for plan in plans), default=0)
    spec: Mapping[str, Any] = next(
        (spec["template"]["spec"] for plan in plans for spec in _job_specs(plan)), {}
    )
    selector = spec.get("nodeSelector") or {}
    asked = {options.gpu_resource: options.gpus_per_node, EFA: options.efa_per_node}
    nodes = [node for node in api.items(NODE) if _selected(node, selector)]
    fit = [node for node in nodes if all(_allocatable(node, name) >= count for name, count in asked.items())]
    ready = [node for node in fit if _serves(node)]
    words = ", ".join(f"{count} {name}" for name, count in asked.items() if count) or "what is asked for"
    said = f"{len(ready)} of {len(nodes)} nodes are ready and have {words} allocatable; {needed} are needed"
    if options.one_pod_per_node and len(ready) < needed:
        if len(fit) >= needed:
            yield PreflightCheck(
                "nodes",
                PreflightResult.NO_CAPACITY,
                said,
                "Some are cordoned or not ready: kubectl get nodes.",
            )
        else:
            remedy = "Correct the node selector and the numbers in [cluster.options]; without a device plugin no GPU is allocatable."
            yield _wrong("nodes", said, remedy)
    elif not ready:
        yield PreflightCheck("nodes", PreflightResult.NO_CAPACITY, said, "Look at kubectl get nodes.")
    else:
        yield PreflightCheck("nodes", PreflightResult.OK, said)


def _selected(node: Object, selector: Mapping[str, str]) -> bool:
    labels = (node.get("metadata") or {}).get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _allocatable(node: Object, name: str) -> float:
    return quantity(((node.get("status") or {}).get("allocatable") or {}).get(name, "0"))


def _serves(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(row.get("type") == "Ready" and row.get("status") == "True" for row in conditions)
    return ready and not (node.get("spec") or {}).get("unschedulable")


def _quotas(api: Api, plans: tuple[Plan, ...]) -> Iterator[PreflightCheck]:
    """Whether every pod of the largest job fits into the namespace's quotas, as far as the pods say what they ask for."""
    wants = _wanted(max(plans, key=lambda plan: plan.job.nodes)) if plans else {}
    for quota in api.items(QUOTA):
        status, name = quota.get("status") or {}, quota["metadata"]["name"]
        hard, used = status.get("hard") or {}, status.get("used") or {}
        for key in sorted(set(hard) & set(wants)):
            left = quantity(hard[key]) - quantity(used.get(key, "0"))
            if wants[key] > left:
                said = f"{key}: {wants[key]:g} are needed, and {left:g} of {hard[key]} are left"
                result = (
                    PreflightResult.NO_CAPACITY
                    if wants[key] <= quantity(hard[key])
                    else PreflightResult.WRONG
                )
                yield PreflightCheck(
                    f"ResourceQuota {name}", result, said, "Ask for more, or end what uses it up."
                )


def _wanted(plan: Plan) -> dict[str, float]:
    """Resources as quotas name them, of all pods together."""
    spec = next(iter(_job_specs(plan)), None)
    if spec is None:
        return {}
    resources = spec["template"]["spec"]["containers"][0].get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    asked = {**{f"requests.{name}": value for name, value in {**limits, **requests}.items()}, "pods": "1"}
    asked |= {f"limits.{name}": value for name, value in limits.items() if name in ("cpu", "memory")}
    return {name: quantity(value) * plan.job.nodes for name, value in asked.items()}


def quantity(value: object) -> float:
    """A quantity of the API ("8", "1500m", "1Ti") as a number; 0 for none."""
    from kubernetes.utils.quantity import parse_quantity

    try:
        return float(parse_quantity(str(value)))
    except ValueError:
        return 0.0


def _wrong(subject: str, message: str, remedy: str = "") -> PreflightCheck:
    return PreflightCheck(subject, PreflightResult.WRONG, message, remedy)


def _unanswered(error: LaunchError) -> PreflightCheck:
    """The API server gave no answer."""
    return PreflightCheck("API server", PreflightResult.UNSEEN, str(error), ASK_ELSEWHERE, unreachable=True)


def _unseen(subject: str, message: str) -> PreflightCheck:
    return PreflightCheck(subject, PreflightResult.UNSEEN, message)
