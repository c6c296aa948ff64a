"""JobSpec -> the objects of one job in the API's own words. Pure: it reads neither disk, nor network, nor environment.

ConfigMap <job>          bundle.json, pass.json; the job's record is in its annotations (job_record.py)
ConfigMap <job>-code     the checks and the agent, unless the image has them
ConfigMap <job>-answers  what a person decided, once somebody has
Secret <job>             the key of the exchange and the training's variables
Service <job>            headless: every pod has a name from its start on
Job <job>-0 ... or <job> the pods
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from checks.exchange import secret_key
from tasks.launchers import job_rules
from tasks.launchers.base import ApiCall, JobSpec, Plan
from tasks.launchers.kubernetes.options import KubernetesOptions, PodCode, Workload
from tasks.launchers.kubernetes.pod import (
    ANSWERS_SUFFIX,
    CODE_SUFFIX,
    JOB_LABEL,
    MANAGED,
    MANAGER,
    START,
    UPLOAD_S,
    pod_of,
)
from tasks.launchers.kubernetes.pod_template import Table
from tasks.launchers.kubernetes.workload_forms import FORMS
from tasks.launchers.node_code import code_archive, start_script

# A pod's name has the job's in front, and room for its number and five random characters.
JOB_NAME = r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?"
LABEL_VALUE = r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
# What would tell the gate's agent, or a shell on the way to it, what to do.
RESERVED_NAMES = ("BASH_ENV", "ENV")
ARCHIVE = "prelaunch.tar.gz"
OWN_FILES = (ARCHIVE, START, secret_key.FILE)
# The pods end what is late; the Job's own limit also counts the time in which it waits for nodes, and is behind it.
BACKSTOP_S = 3600.0
# How long ended pods stay, so that people can look at them.
KEPT_S = 72 * 3600


def make_plan(job: JobSpec, options: KubernetesOptions, template: Mapping[str, Any]) -> Plan:
    """Every object of the job; `uploads` are the files in its ConfigMaps and its Secret. Raises LaunchRejected."""
    _require_possible(job)
    files = {f"configmap/{job.name}/{name}": data for name, data in job.files.items()}
    if options.code is PodCode.CONFIGMAP:
        files[f"configmap/{job.name}{CODE_SUFFIX}/{ARCHIVE}"] = code_archive()
        files[f"configmap/{job.name}{CODE_SUFFIX}/{START}"] = start_script()
    secrets = {f"secret/{job.name}/{name}": value.encode() for name, value in job.environment.items()}
    objects = (service(job), *workloads(job, options, template))
    calls = (ApiCall("kubernetes", f"create {body['kind']}", job.name, body) for body in objects)
    return Plan(job, tuple(calls), {**files, **secrets})


def config_maps(plan: Plan) -> tuple[Table, ...]:
    """The ConfigMaps, the job's record first."""
    job, contents = plan.job, dict[str, dict[str, str]]()
    contents[job.name] = {}
    for address, data in plan.uploads.items():
        object_type, name, file = address.split("/", 2)
        if object_type == "configmap":
            contents.setdefault(name, {})[file] = base64.b64encode(data).decode()
    contents[job.name + ANSWERS_SUFFIX] = {}
    return tuple(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name, job), **({"binaryData": data} if data else {})}
        for name, data in contents.items()
    )  # fmt: skip


def secret(plan: Plan, key: bytes) -> Table:
    """The Secret with the key of the exchange and the training's variables."""
    values = {
        address.split("/", 2)[2]: data
        for address, data in plan.uploads.items()
        if address.startswith("secret/")
    }
    data = {
        name: base64.b64encode(value).decode() for name, value in {**values, secret_key.FILE: key}.items()
    }
    object_metadata = metadata(plan.job.name, plan.job)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": object_metadata, "type": "Opaque", "data": data}


def service(job: JobSpec) -> Table:
    """The headless Service. Pods need each other's addresses before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job.name, job),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB_LABEL: job.name}},
    }


def workloads(job: JobSpec, options: KubernetesOptions, template: Mapping[str, Any]) -> tuple[Table, ...]:
    """What holds the pods. Raises LaunchRejected."""
    form = FORMS[options.workload]
    if form.each:
        pods = (pod_of(job, options, template, index) for index in range(job.nodes))
        jobs = ({**_job_spec(job, options), "template": pod} for pod in pods)
        return tuple(_workload(f"{job.name}-{index}", job, spec, options) for index, spec in enumerate(jobs))
    pod = pod_of(job, options, template, None)
    specs: dict[Workload, Callable[[], Table]] = {
        Workload.INDEXED: lambda: _indexed_spec(job, options, pod),
        Workload.PYTORCHJOB: lambda: _pytorch_spec(job, options, pod),
        Workload.HYPERPODPYTORCHJOB: lambda: _hyperpod_spec(job, options, pod),
    }
    return (_workload(job.name, job, specs[options.workload](), options),)


def metadata(name: str, job: JobSpec) -> Table:
    """Name and labels; what of the tags is no value of a label is an annotation."""
    labels, annotations = {MANAGED: MANAGER, JOB_LABEL: job.name}, dict[str, str]()
    for key, value in job.tags.items():
        table = labels if re.fullmatch(LABEL_VALUE, value) else annotations
        table[f"prelaunch.dev/{re.sub('[^a-z0-9-]', '-', key.lower().removeprefix('prelaunch:'))}"] = value
    return {"name": name, "labels": labels, **({"annotations": annotations} if annotations else {})}


def _workload(name: str, job: JobSpec, spec: Table, options: KubernetesOptions) -> Table:
    meta, resource = metadata(name, job), FORMS[options.workload].resource
    if options.queue:
        meta["labels"]["kueue.x-k8s.io/queue-name"] = options.queue
    if options.auto_resume:
        resume = {"enable-job-auto-resume": "true", "job-max-retry-count": str(options.auto_resume_retries)}
        meta["annotations"] = {
            **meta.get("annotations", {}),
            **{f"sagemaker.amazonaws.com/{key}": value for key, value in resume.items()},
        }
    return {"apiVersion": resource.api_version, "kind": resource.name, "metadata": meta, "spec": spec}


def _indexed_spec(job: JobSpec, options: KubernetesOptions, pod: Table) -> Table:
    numbered = {"completionMode": "Indexed", "completions": job.nodes, "parallelism": job.nodes}
    # Without it a pod that is being ended on a silent node would get a second one beside it.
    return {**_job_spec(job, options), **numbered, "podReplacementPolicy": "Failed", "template": pod}


def _pytorch_spec(job: JobSpec, options: KubernetesOptions, pod: Table) -> Table:
    """Never run. Source: the API reference of Kubeflow's Training Operator v1."""
    # The operator fails a job whose containers were started again that often, all of them together, and each start of the job ends on
    # every node (training-operator, pkg/core/job.go, PastBackoffLimit).
    again = options.auto_resume_retries * job.nodes + 1 if options.auto_resume else 0
    policy = {"backoffLimit": again, **_operator_policy(job, options)}
    restart = "OnFailure" if options.auto_resume else "Never"
    worker = {"replicas": job.nodes, "restartPolicy": restart, "template": pod}
    return {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}}


def _hyperpod_spec(job: JobSpec, options: KubernetesOptions, pod: Table) -> Table:
    """Never run. Source: AWS, "Using the training operator to run jobs" of SageMaker HyperPod."""
    policy = _operator_policy(job, options)
    if options.auto_resume:
        policy["jobMaxRetryCount"] = options.auto_resume_retries
    replicas = [{"name": "pods", "replicas": job.nodes, "template": pod}]
    return {"nprocPerNode": str(job.ranks_per_node), "runPolicy": policy, "replicaSpecs": replicas}


def _operator_policy(job: JobSpec, options: KubernetesOptions) -> Table:
    """What both operators call the same. HyperPod's default time to live is 0: it would remove an ended job before it is read."""
    common = _job_spec(job, options)
    limits = {key: common[key] for key in ("activeDeadlineSeconds", "ttlSecondsAfterFinished")}
    return {"cleanPodPolicy": "None", **limits}


def _job_spec(job: JobSpec, options: KubernetesOptions) -> Table:
    waits_s = options.start_minutes * 60 + options.image_minutes * 60
    starts = 1 + options.auto_resume_retries if options.auto_resume else 1  # each may wait for a node
    seconds = math.ceil(starts * waits_s + job.max_runtime_s + options.grace_s + UPLOAD_S + BACKSTOP_S)
    return {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "activeDeadlineSeconds": seconds,
        "ttlSecondsAfterFinished": KEPT_S,
    }


def _require_possible(job: JobSpec) -> None:
    job_rules.require_name(job, JOB_NAME, "Choose another name for the gate.")
    job_rules.require_end(job)
    job_rules.require_no_request(job, "Pods are described in pod_template_file.")
    job_rules.require_files(job, OWN_FILES)
    job_rules.require_variables(job, ("PRELAUNCH_",), RESERVED_NAMES, "a shell or the gate's agent")
