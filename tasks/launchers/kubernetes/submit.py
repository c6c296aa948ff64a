"""Submits a job once, however many gates try at the same moment, and ends it with all its pods.

Names are unique in a namespace, so that every object is made once: whoever finds one of its own job goes on with the next.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from checks.exchange import secret_key
from tasks.launchers import base
from tasks.launchers.interruption import patiently
from tasks.launchers.kubernetes import job_record, objects
from tasks.launchers.kubernetes.api import (
    CONFIG_MAP,
    EXISTS,
    KINDS,
    POD,
    SECRET,
    SERVICE,
    Api,
    ApiRefused,
    Object,
    explained,
    explaining,
)
from tasks.launchers.kubernetes.job_states import PodView, newest, pod_view
from tasks.launchers.kubernetes.pod import ANSWERS_SUFFIX, CODE_SUFFIX, JOB_LABEL, MANAGED, MANAGER
from tasks.launchers.kubernetes.workload_forms import WorkloadForm

T = TypeVar("T")
# A rolling update of the control plane takes about so long.
SILENT_S, AGAIN_S = 60.0, 2.0
SUFFIXES = (CODE_SUFFIX, ANSWERS_SUFFIX)


def submit(api: Api, plan: base.Plan, form: WorkloadForm) -> base.JobHandle:
    """Make every object of the job, or adopt those that are there. Raises LaunchError; after LaunchRejected or NoCapacity nothing is
    left of a job whose record was made here.
    """
    name, token = plan.job.name, secrets.token_hex(8)
    record, *others = objects.config_maps(plan)
    annotations = record["metadata"].setdefault("annotations", {})
    annotations |= {job_record.NODES: str(plan.job.nodes), job_record.SUBMISSION: token}
    current = job_record.record_of(_create(api, name, record) or record, name)
    adopted = current.submission != token
    if adopted and (current.over or current.submitted):
        return base.JobHandle(name, adopted)
    try:
        for body in (*others, objects.secret(plan, secret_key.make()), *(call.body for call in plan.calls)):
            _create(api, name, body)
        latest = retried(lambda: job_record.read(api, name))
        if latest is not None and not latest.over:
            retried(lambda: job_record.write_submitted(api, name))
            return base.JobHandle(name, adopted)
    except (ApiRefused, base.LaunchRejected, base.NoCapacity):
        if not adopted:
            _withdraw(api, name, form, record=True)
        raise
    _withdraw(api, name, form, record=False)
    raise base.LaunchRejected(f"{name} was cancelled while it was submitted.")


def _withdraw(api: Api, name: str, form: WorkloadForm, record: bool) -> None:
    """End what was made of the job, and delete the rest. Raises UnseenJob where that is not possible."""
    try:
        end(api, name, form)
        remove(api, name, record)
    except base.LaunchError as error:
        command = f"kubectl delete {form.resource.plural} -n {api.namespace} -l {JOB_LABEL}={name}"
        raise base.UnseenJob(f"{name} was not ended, and may run ({error}). End it: {command}") from error


def end(api: Api, name: str, form: WorkloadForm) -> None:
    """Delete the job's workloads, each after its pods. Raises ApiRefused, EngineUnavailable."""
    for workload in workloads(api, name, form):
        api.delete(form.resource, str(workload["metadata"]["name"]))


def end_all(api: Api, name: str, form: WorkloadForm, within_s: float, poll_s: float) -> None:
    """End the job; returns when the API server has none of its workloads and pods any more. Raises LaunchError."""
    deadline, last_request, remains = time.monotonic() + within_s, 0.0, ""
    while True:
        try:
            if time.monotonic() - last_request > AGAIN_S or not last_request:
                last_request = time.monotonic()
                end(api, name, form)
            left = pods_of(api, name)
            if not left and not any(workloads(api, name, form)):
                return
            remains = "; ".join(f"{pod.name} on {pod.host or 'no node'}" for pod in left[:8]) or "its Jobs"
        except base.EngineUnavailable as error:
            # It may come back, and pods that are left would run to their limit.
            remains = str(error)
        except ApiRefused as refusal:
            raise explained(refusal, name) from refusal
        if time.monotonic() > deadline:
            raise base.LaunchError(
                f"{name} is not ended after {within_s:.0f} s, and may still run: {remains}. Look at kubectl get pods -o wide, and at "
                "the kubelets of these nodes; a pod ends only when its kubelet says so."
            )
        time.sleep(poll_s)


def remove(api: Api, name: str, record: bool = False) -> None:
    """Delete what pods need to start, and the record as well if asked. Raises LaunchError."""
    with explaining(name):
        places = [(SECRET, name), (SERVICE, name), *((CONFIG_MAP, name + suffix) for suffix in SUFFIXES)]
        for resource, object_name in [*places, *([(CONFIG_MAP, name)] if record else [])]:
            body = api.get(resource, object_name)
            if body is not None and job_record.is_ours(body, name):
                api.delete(resource, object_name)


def workloads(api: Api, name: str, form: WorkloadForm) -> Iterator[Object]:
    """The job's workloads. Raises ApiRefused, EngineUnavailable."""
    return api.items(form.resource, f"{JOB_LABEL}={name},{MANAGED}={MANAGER}")


def pods_of(api: Api, name: str) -> tuple[PodView, ...]:
    """All pods of the job, also those that were replaced. Raises ApiRefused, EngineUnavailable."""
    views = map(pod_view, api.items(POD, f"{JOB_LABEL}={name},{MANAGED}={MANAGER}"))
    return tuple(pod for pod in views if pod is not None)


def pod_of(api: Api, name: str, node: str) -> PodView | None:
    """The newest pod of one node. Raises ApiRefused, EngineUnavailable."""
    return next((pod for pod in newest(pods_of(api, name)) if pod.node == node), None)


def _create(api: Api, name: str, body: Object) -> Object | None:
    """The object of this job that is there already; None if it was made by the first request that was answered. Raises LaunchError."""
    resource, lost = KINDS[body["kind"]], False

    def create() -> None:
        nonlocal lost
        try:
            api.create(body)
        except base.EngineUnavailable:
            lost = True
            raise

    try:
        retried(create)
        return None
    except ApiRefused as refusal:
        reason = explained(refusal, name)
        if refusal.code == EXISTS:
            existing = retried(lambda: api.get(resource, body["metadata"]["name"]))
            if existing is not None and job_record.is_ours(existing, name):
                return existing
        elif lost:  # it may have been taken, and may hold what the quota lacks now
            message = f"{reason} Whether an earlier request was taken is not known."
            raise base.EngineUnavailable(message) from refusal
        raise reason from refusal


def retried(ask: Callable[[], T]) -> T:
    """What the API server answers, asked again while it is silent. Raises EngineUnavailable."""
    return patiently(ask, "the API server", SILENT_S, AGAIN_S)
