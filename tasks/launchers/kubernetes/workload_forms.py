"""What holds the pods of a job, by the option `workload`: which object, how its pods are named, and how one knows its number. Pure.

JobSet and TrainJob would be rows of FORMS. The two of operators were never run: their objects follow the documentation of Kubeflow's
Training Operator 1.7 to 1.9 and of Amazon SageMaker HyperPod ("Auto-resume functionality", "Using the HyperPod training operator").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.launchers.kubernetes.api import HYPERPOD_JOB, JOB, PYTORCH_JOB, ObjectKind
from tasks.launchers.kubernetes.options import Workload

INDEX_LABEL = "prelaunch.dev/node-index"
# Kubernetes 1.21 and later: the controller sets it on each pod of an Indexed Job.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
# Operators number their pods at the end of the name: <job>-worker-0, <job>-pods-0.
NUMBERED = re.compile(r"-(\d+)$")


@dataclass(frozen=True)
class WorkloadForm:
    """One kind of workload. `each` says that every node has one of its own.

    `container` is the name that the container must have. `address` is what the pods resolve each other by, with % for the number and
    {job} for the job's name. `number` is the field of the pod that ends with its number; "" where the launcher writes it.
    """

    resource: ObjectKind
    each: bool = False
    container: str = "prelaunch"
    address: str = "{job}-%.{job}"
    number: str = ""


FORMS: Mapping[Workload, WorkloadForm] = {
    Workload.JOBS: WorkloadForm(JOB, each=True, address="node-%.{job}"),
    Workload.INDEXED: WorkloadForm(JOB, number=f"metadata.annotations['{COMPLETION_INDEX}']"),
    # Its operator makes a headless service of the pod's name for each pod, and wants a container of this name.
    Workload.PYTORCHJOB: WorkloadForm(PYTORCH_JOB, False, "pytorch", "{job}-worker-%", "metadata.name"),
    Workload.HYPERPODPYTORCHJOB: WorkloadForm(
        HYPERPOD_JOB, False, "pytorch", "{job}-pods-%.{job}", "metadata.name"
    ),
}
CONTAINERS = frozenset(form.container for form in FORMS.values())


def number_of(pod: Mapping[str, Any]) -> int | None:
    """The number of a pod among those of its job; None if it has none."""
    meta = pod.get("metadata") or {}
    number = (meta.get("labels") or {}).get(INDEX_LABEL) or (meta.get("annotations") or {}).get(
        COMPLETION_INDEX
    )
    if str(number or "").isdecimal():
        return int(str(number))
    owners = {owner.get("kind") for owner in meta.get("ownerReferences") or ()}
    if owners & {PYTORCH_JOB.name, HYPERPOD_JOB.name} and (
        match := NUMBERED.search(str(meta.get("name") or ""))
    ):
        return int(match[1])
    return None
