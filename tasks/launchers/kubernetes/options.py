"""What a gate file's [cluster.options] may say if the launcher is "kubernetes". Pure.

Sources: the API reference of Kubernetes 1.20 to 1.37; Kueue, "Run Kubernetes Jobs".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from checks.value_types import Range, Text
from tasks.launchers.base import REPLACED_S, RESUMED_TWICE, LaunchRejected, NodePlacement

# Object names of the API (RFC 1123), and names of resources and classes, which may have a domain in front.
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
Name = Annotated[str, Text(rf"({LABEL})?", 63, "must have only lower-case letters, digits and dashes")]
OBJECT, OBJECT_FORM = r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?", "must be the name of an object of Kubernetes"
RESOURCE = r"([a-z0-9.-]+/)?[A-Za-z0-9][A-Za-z0-9._-]*"
# Plain Jobs have no gang scheduling.
JOIN_S = 600.0
FOLDER = r"(/[^\s\"'\\,:$`%]+)?"


class Workload(StrEnum):
    """What holds the pods: a Job per node, one Job whose pods have numbers (Kubernetes 1.24 and later), or an operator's object."""

    JOBS = "jobs"
    INDEXED = "indexed"
    PYTORCHJOB = "pytorchjob"
    HYPERPODPYTORCHJOB = "hyperpodpytorchjob"


class PodCode(StrEnum):
    """Where a pod finds the checks: in a ConfigMap, as the gate has them, or in its image."""

    CONFIGMAP = "configmap"
    IMAGE = "image"


class Reports(StrEnum):
    """How reports reach the gate: as lines of the pods' logs, as objects in S3, or as files on a volume that the gate sees as well."""

    LOGS = "logs"
    S3 = "s3"
    VOLUME = "volume"


# With a Job per node each pod gets its own node. The pods of an Indexed Job get the same nodes in any order, and find out which.
PINNABLE = (Workload.JOBS, Workload.INDEXED)


@dataclass(frozen=True)
class KubernetesOptions:
    """`context` and `kubeconfig_file` choose the cluster; without them kubectl's own, or in a pod its service account.

    `image` runs the checks, and the training unless that has its own. `pod_template_file` is YAML of a pod (metadata, spec) for
    resources, tolerations, volumes and the like. `gpus_per_node` of `gpu_resource` and `efa_per_node` of vpc.amazonaws.com/efa are
    limits of the container. `queue` is a LocalQueue of Kueue. With `one_pod_per_node` no two pods of a job share a node.
    `only_nodes` ("a,b") are the only ones that its pods may get, also while Prelaunch holds them (re-tests).

    `prefix` is s3://bucket/prefix in `region` (reports = "s3"); `folder` is a path that the pods see on `volume_claim`, or on the
    template's volume "reports", and that this machine sees as well (reports = "volume"). `priority_class` is a PriorityClass of the
    cluster.

    `start_minutes` is how long pods may wait for nodes, `image_minutes` for an image that cannot be pulled now; `grace_s` is how long
    the training may take to end. With `exclude_failed` a refused gate submits another job, without the nodes that failed.

    `auto_resume` lets HyperPod start the workload of an operator again, `auto_resume_retries` times, after it replaced a node: every
    start is gated anew.
    """

    image: Annotated[str, Text(r"\S+", 500, "must be an image, without spaces")]
    namespace: Annotated[str, Text(LABEL, 63, "must be the name of a namespace")] = "default"
    context: Annotated[str, Text(r"\S*", 500, "must have no spaces")] = ""
    kubeconfig_file: str = ""
    workload: Workload = Workload.JOBS
    placement: NodePlacement = NodePlacement.IN_JOB
    code: PodCode = PodCode.CONFIGMAP
    pod_template_file: str = ""
    service_account: Name = ""
    gpus_per_node: Annotated[int, Range(0, 64)] = 0
    gpu_resource: Annotated[str, Text(RESOURCE, 253, "must be the name of a resource")] = "nvidia.com/gpu"
    efa_per_node: Annotated[int, Range(0, 64)] = 0
    queue: Name = ""
    priority_class: Annotated[str, Text(OBJECT, 253, OBJECT_FORM)] = ""
    only_nodes: Annotated[str, Text(r"([a-z0-9.-]+(,[a-z0-9.-]+)*)?", 100_000, "must be names of nodes")] = ""
    one_pod_per_node: bool = True
    exclude_failed: bool = False
    reports: Reports = Reports.LOGS
    prefix: Annotated[str, Text(r"(s3://[a-z0-9][a-z0-9.-]+(/\S*)?)?", 900, "must be s3://bucket/prefix")] = (
        ""
    )
    region: Annotated[str, Text(r"([a-z]{2}(-[a-z]+)+-\d)?", 32, "must be a region, such as us-east-1")] = ""
    folder: Annotated[str, Text(FOLDER, 512, "must be an absolute path without spaces")] = ""
    volume_claim: Annotated[str, Text(OBJECT, 253, OBJECT_FORM)] = ""
    python: Annotated[str, Text(r"(/\S+)?", 512, "must be an absolute path without spaces")] = ""
    interface: Annotated[str, Text(r"[A-Za-z0-9_.-]*", 15, "must be the name of a network interface")] = ""
    auto_resume: bool = False
    auto_resume_retries: Annotated[int, Range(0, 100)] = 2
    grace_s: Annotated[float, Range(0, 600)] = 60.0
    start_minutes: Annotated[float, Range(0.01, 40320)] = 60.0
    image_minutes: Annotated[float, Range(0, 1440)] = 10.0
    poll_seconds: Annotated[float, Range(0.1, 300)] = 5.0

    def __post_init__(self) -> None:
        """Raise LaunchRejected for contradictions."""
        for problem in self._contradictions():
            raise LaunchRejected(problem)

    def _contradictions(self) -> Iterator[str]:
        pinned = self.placement is NodePlacement.PINNED
        if (self.reports is Reports.S3) != bool(self.prefix and self.region):
            yield 'reports = "s3" needs a prefix and a region, and nothing else uses them.'
        if (self.reports is Reports.VOLUME) != bool(self.folder):
            yield 'reports = "volume" needs a folder, and nothing else uses one.'
        if self.volume_claim and not self.folder:
            yield 'volume_claim is for reports = "volume". Name a folder on it.'
        if pinned and self.workload not in PINNABLE:
            yield 'placement = "pinned" needs workload = "jobs" or "indexed": operators place their pods themselves.'
        if pinned and self.workload is Workload.INDEXED and not self.one_pod_per_node:
            yield (
                'placement = "pinned" with workload = "indexed" needs one_pod_per_node: each pod takes one of the nodes that passed.'
            )
        if self.auto_resume and self.workload not in (Workload.PYTORCHJOB, Workload.HYPERPODPYTORCHJOB):
            yield 'auto_resume needs workload = "pytorchjob" or "hyperpodpytorchjob": HyperPod resumes no other.'
        if self.auto_resume and self.reports is Reports.LOGS:
            yield 'auto_resume needs reports = "s3" or "volume": the log of a container that was started again may be gone.'
        if self.auto_resume and self.exclude_failed:
            yield RESUMED_TWICE

    @property
    def joins_s(self) -> float:
        """How long the pods of one start wait for each other."""
        return REPLACED_S if self.auto_resume else JOIN_S
