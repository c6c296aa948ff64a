"""What a plan needs of the cluster, before anything is made: rights, objects that the API server takes, quota, nodes, queue, secrets.

Every object is created with dryRun=All, which runs all admission and keeps nothing; a pod of its own as well, because quota, Pod
Security, priority classes and service accounts are looked at where a pod is made and not where its Job is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.launchers.base import LaunchError, LaunchRejected, Plan, PreflightCheck, QuotaExceeded
from tasks.launchers.kubernetes import objects
from tasks.launchers.kubernetes.api import (
    ACCESS_REVIEW,
    CONFIG_MAP,
    LOCAL_QUEUE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Api,
    ApiRefused,
    Object,
    ObjectKind,
    explained,
    grant,
    refusal_group,
)
from tasks.launchers.kubernetes.options import KubernetesOptions
from tasks.launchers.kubernetes.workload_forms import FORMS, WorkloadForm
from tasks.launchers.preflight import no_capacity, ok, run_checks, unanswered, unseen, wrong

# What the launcher does, each with the sub-resource "" or "log".
Right = tuple[ObjectKind, tuple[str, ...], str]
RIGHTS: tuple[Right, ...] = (
    (POD, ("list",), ""),
    (POD, ("get",), "log"),
    (CONFIG_MAP, ("create", "delete", "get", "patch"), ""),
    (SECRET, ("create", "delete", "get"), ""),
    (SERVICE, ("create", "delete", "get"), ""),
)
ASK_ELSEWHERE = "Run this where kubectl version answers, or name the cluster with context or kubeconfig_file in [cluster.options]."
EFA = "vpc.amazonaws.com/efa"
# The types of Secrets with credentials of registries (k8s.io/api, core/v1). A kubelet leaves others out.
PULL_SECRETS = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


def check(api: Api, plans: tuple[Plan, ...], options: KubernetesOptions) -> tuple[PreflightCheck, ...]:
    """Everything that can be known now; nothing of it stays. Raises nothing, and ends by a deadline."""
    try:
        lines = [ok("API server", f"it is {api.version()}")]
    except ApiRefused as refusal:
        return (wrong("API server", str(explained(refusal, "the API server"))),)
    except LaunchRejected as error:
        return (wrong("API server", str(error)),)
    except LaunchError as error:
        return (_without_answer(error),)
    checks = (
        lambda: _rights(api, FORMS[options.workload]),
        lambda: _objects(api, plans),
        lambda: _pull_secrets(api, _pod_spec(plans)),
        lambda: _queue(api, options),
        lambda: _nodes(api, plans, options),
    )
    return run_checks(lines, checks, _without_answer)


def _without_answer(error: LaunchError) -> PreflightCheck:
    """The line for a question that the API server refused, or did not answer."""
    if not isinstance(error, ApiRefused):
        return unanswered("API server", str(error), ASK_ELSEWHERE)
    rule = grant(error.verb, error.plural, refusal_group(error.plural)) if error.status == 403 else ""
    return unseen(error.plural, str(error), rule)


def rights(form: WorkloadForm) -> tuple[Right, ...]:
    """Every right that a gate with such workloads uses."""
    return ((form.resource, ("create", "delete", "list"), ""), *RIGHTS)


def _rights(api: Api, form: WorkloadForm) -> Iterator[PreflightCheck]:
    """Every verb that the launcher uses, by SelfSubjectAccessReview, which everybody may create."""
    requested = [(target, verb, sub) for target, verbs, sub in rights(form) for verb in verbs]
    lacking = [right for right in requested if not _may(api, *right)]
    for target, verb, sub in lacking:
        plural = f"{target.plural}/{sub}" if sub else target.plural
        message = f"you may not {verb} {plural} in namespace {api.namespace}"
        yield wrong(f"right to {verb} {plural}", message, grant(verb, plural, target.group))
    if not lacking:
        yield ok("rights", f"all that a gate does in namespace {api.namespace} is allowed")


def _may(api: Api, target: ObjectKind, verb: str, sub: str) -> bool:
    attributes = {"namespace": api.namespace, "verb": verb, "group": target.group, "resource": target.plural}
    if sub:
        attributes["subresource"] = sub
    spec = {"resourceAttributes": attributes}
    review = {"apiVersion": ACCESS_REVIEW.api_version, "kind": ACCESS_REVIEW.name, "spec": spec}
    return bool((api.create(review).get("status") or {}).get("allowed"))


def _objects(api: Api, plans: tuple[Plan, ...]) -> Iterator[PreflightCheck]:
    for plan in plans:
        name = plan.job.name
        bodies = (*objects.config_maps(plan), objects.secret(plan, b""), *(call.body for call in plan.calls))
        problems = dict[str, PreflightCheck]()
        for body in (*bodies, *_pod(plan)):
            if problem := _refused(api, body, name):
                problems.setdefault(problem.message, problem)
        yield from problems.values()
        if not problems:
            yield ok(f"objects of {name}", f"the API server would take all {len(bodies)}")


def _pod(plan: Plan) -> Iterator[Object]:
    """The first pod as its Job would make it."""
    for spec in [*_job_specs(plan)][:1]:
        metadata = {**spec["template"]["metadata"], "name": f"{plan.job.name}-preflight"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec["template"]["spec"]}


def _job_specs(plan: Plan) -> Iterator[Mapping[str, Any]]:
    """Per workload a table whose `template` is that of its pods."""
    for call in plan.calls:
        spec: Any = call.body.get("spec") or {}
        replicas = [*(spec.get("pytorchReplicaSpecs") or {}).values(), *(spec.get("replicaSpecs") or ())]
        yield from (spec_part for spec_part in (spec, *replicas) if "template" in spec_part)


def _pod_spec(plans: tuple[Plan, ...]) -> Mapping[str, Any]:
    """The spec of the first pod, {} without one."""
    return next((spec["template"]["spec"] for plan in plans for spec in _job_specs(plan)), {})


def _refused(api: Api, body: Object, name: str) -> PreflightCheck | None:
    subject = f"{body['kind']} {body['metadata']['name']}"
    try:
        api.create(body, dry_run=True)
    except ApiRefused as refusal:
        error = explained(refusal, name)
        if body["kind"] == "Pod" and refusal.status == 403 and "cannot create resource" in refusal.message:
            return unseen(
                subject, "without the right to create pods it is not known what admission says of them"
            )
        if refusal.status == 404:
            return wrong(subject, str(error), f"Create namespace {api.namespace}, or name another one.")
        line = no_capacity if isinstance(error, QuotaExceeded) else wrong
        return line(subject, str(error))
    return None


def _pull_secrets(api: Api, spec: Mapping[str, Any]) -> Iterator[PreflightCheck]:
    """Whether the secrets with which the pods' images are pulled are there and of the right type; nothing where they have none.

    What the pod template or the declared service account names is wrong if it cannot be used. A secret of the namespace's default
    service account is not: nodes may have credentials of their own, or need none.
    """
    names, where = spec.get("imagePullSecrets") or (), "the pod template"
    declared = bool(names) or "serviceAccountName" in spec
    if not names:
        account = str(spec.get("serviceAccountName") or "default")
        where = f"service account {account}"
        service_account = api.get(SERVICE_ACCOUNT, account)
        if service_account is None and declared:
            remedy = "Create it, or correct service_account in [cluster.options]."
            yield wrong(where, f"namespace {api.namespace} has none of that name", remedy)
        names = (service_account or {}).get("imagePullSecrets") or ()
    for name in dict.fromkeys(str(reference.get("name") or "") for reference in names):
        secret = api.get(SECRET, name)
        if secret is not None and secret.get("type") in PULL_SECRETS:
            yield ok(f"Secret {name}", f"it is there, and {where} names it to pull images with")
            continue
        problem = "it is not there" if secret is None else f"its type is {secret.get('type') or 'Opaque'}"
        message = f"{where} names it to pull images with, and {problem}: a kubelet leaves it out"
        remedy = (
            f"Make it with kubectl create secret docker-registry {name} -n {api.namespace}, or take it out."
        )
        yield (wrong if declared else unseen)(f"Secret {name}", message, remedy)


def _queue(api: Api, options: KubernetesOptions) -> Iterator[PreflightCheck]:
    if not options.queue:
        return
    subject = f"LocalQueue {options.queue}"
    if api.get(LOCAL_QUEUE, options.queue) is None:
        message = f"namespace {api.namespace} has none of that name"
        yield wrong(subject, message, "Correct queue in [cluster.options].")
    else:
        yield ok(subject, "it is there")


def _nodes(api: Api, plans: tuple[Plan, ...], options: KubernetesOptions) -> Iterator[PreflightCheck]:
    """Whether there are enough nodes that have what is asked for; whether it is free now is not known."""
    needed = max((plan.job.nodes for plan in plans), default=0)
    selector = _pod_spec(plans).get("nodeSelector") or {}
    wants = {options.gpu_resource: options.gpus_per_node, EFA: options.efa_per_node}
    nodes = [node for node in api.items(NODE) if _selected(node, selector, options.only_nodes)]
    fit = [node for node in nodes if all(_allocatable(node, name) >= count for name, count in wants.items())]
    ready = [node for node in fit if _serves(node, options.only_nodes)]
    limits = ", ".join(f"{count} {name}" for name, count in wants.items() if count) or "what is asked for"
    text = f"{len(ready)} of {len(nodes)} nodes are ready and have {limits} allocatable; {needed} are needed"
    least = needed if options.one_pod_per_node else 1
    if len(ready) >= least:
        yield ok("nodes", text)
    elif len(fit) >= least or not options.one_pod_per_node:
        yield no_capacity("nodes", text, "Some are cordoned or not ready: kubectl get nodes.")
    else:
        remedy = "Correct the node selector and the numbers in [cluster.options]; without a device plugin no GPU is allocatable."
        yield wrong("nodes", text, remedy)


def _selected(node: Object, selector: Mapping[str, str], only_nodes: str) -> bool:
    meta = node.get("metadata") or {}
    if only_nodes and meta.get("name") not in only_nodes.split(","):
        return False
    labels = meta.get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _allocatable(node: Object, name: str) -> float:
    return quantity(((node.get("status") or {}).get("allocatable") or {}).get(name, "0"))


def _serves(node: Object, only_nodes: str) -> bool:
    """A re-test's pods tolerate the cordon of the only nodes that they may get."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    return ready and (only_nodes != "" or not (node.get("spec") or {}).get("unschedulable"))


def quantity(value: object) -> float:
    """A quantity of the API ("8", "1500m", "1Ti") as a number; 0 for none."""
    from kubernetes.utils.quantity import parse_quantity

    try:
        return float(parse_quantity(str(value)))
    except ValueError:
        return 0.0
