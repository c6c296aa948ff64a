"""The controllers of the stand-in: Jobs of Kubernetes, and PyTorchJobs as Kubeflow's operator has them. It is a simulation.

Of PyTorchJobs there are workers alone: pods of fixed names, which the kubelet starts again where the restart policy says so, until the
containers were started again `backoffLimit` times (training-operator, pkg/core/job.go).
"""

from __future__ import annotations

import uuid

from tests.fakes.kubernetes.api_server import ApiServer, Object, stamp

COMPLETION = "batch.kubernetes.io/job-completion-index"
BACKOFF = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}


def round_of(server: ApiServer) -> None:
    """Look at every workload once. The caller has the lock."""
    for plural, look in (("jobs", _job), ("pytorchjobs", _pytorch_job)):
        for job in list(server.objects[plural].values()):
            owned = (pod for pod in server.objects["pods"].values() if _owner(pod) == job["metadata"]["name"])
            pods = list(owned)
            if "deletionTimestamp" in job["metadata"]:
                for pod in pods:
                    pod["metadata"].setdefault("deletionTimestamp", stamp())
                if not pods:
                    del server.objects[plural][job["metadata"]["name"]]
            elif not job.setdefault("status", {}).get("conditions"):
                look(server, job, pods)


def _owner(pod: Object) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["name"])


def _job(server: ApiServer, job: Object, pods: list[Object]) -> None:
    spec, status = job["spec"], job["status"]
    if spec.get("suspend"):
        return
    phases = [pod["status"]["phase"] for pod in pods]
    if phases.count("Succeeded") >= spec["completions"]:
        _ends(job, "Complete")
        return
    if "Failed" in phases and not any(phase in ("Pending", "Running") for phase in phases):
        _ends(job, "Failed", BACKOFF)
        return
    indexed = spec.get("completionMode") == "Indexed"
    taken = {pod["metadata"]["annotations"].get(COMPLETION) for pod in pods} if indexed else set()
    if "Failed" not in phases:
        for index in range(spec["completions"]):
            if (indexed and str(index) not in taken) or (not indexed and not pods):
                number = f"-{index}" if indexed else ""
                name = f"{job['metadata']['name']}{number}-{uuid.uuid4().hex[:5]}"
                _new_pod(server, job, spec["template"], name, {COMPLETION: str(index)} if indexed else {})
    status["active"] = sum(phase in ("Pending", "Running") for phase in phases)


def _pytorch_job(server: ApiServer, job: Object, pods: list[Object]) -> None:
    worker, policy = job["spec"]["pytorchReplicaSpecs"]["Worker"], job["spec"]["runPolicy"]
    names = [f"{job['metadata']['name']}-worker-{index}" for index in range(worker["replicas"])]
    phases = [pod["status"]["phase"] for pod in pods]
    rows = [row for pod in pods for row in pod["status"].get("containerStatuses") or ()]
    restarts = sum(row.get("restartCount", 0) for row in rows)
    if phases.count("Succeeded") == len(names):
        _ends(job, "Succeeded")
    elif "Failed" in phases or restarts >= max(policy["backoffLimit"], 1):
        _ends(job, "Failed", BACKOFF)
    for name in set(names) - {pod["metadata"]["name"] for pod in pods}:
        spec = {**worker["template"]["spec"], "restartPolicy": worker["restartPolicy"]}
        _new_pod(server, job, {**worker["template"], "spec": spec}, name, {})


def _ends(job: Object, kind: str, said: Object | None = None) -> None:
    job["status"]["conditions"] = [{"type": kind, "status": "True", **(said or {})}]


def _new_pod(server: ApiServer, job: Object, template: Object, name: str, annotations: Object) -> None:
    meta: Object = {
        "name": name, "creationTimestamp": stamp(), "uid": str(uuid.uuid4()),
        "labels": dict(template["metadata"].get("labels") or {}), "annotations": annotations,
        "ownerReferences": [{"kind": job["kind"], "name": job["metadata"]["name"]}],
    }  # fmt: skip
    server.objects["pods"][name] = {
        "apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**template["spec"]}, "status": {"phase": "Pending"},
    }  # fmt: skip
