"""What the API server says of a job's workloads and pods, as our job states and kinds of failure: literal tables. Pure.

The words are those of the API (k8s.io/api, core/v1 and batch/v1), of the kubelet (pkg/kubelet: eviction, images, lifecycle) and of
the scheduler, of Kubernetes 1.20 to 1.37. None of them proves that hardware is broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tasks.launchers.base import FAILED_NODE_GRACE_S, JobState, Trouble
from tasks.launchers.kubernetes.api import Object
from tasks.launchers.kubernetes.workload_forms import CONTAINERS, number_of
from tasks.text.inert import one_line

# Pod phases.
PHASES: Mapping[str, JobState] = {
    "Pending": JobState.PENDING,
    "Running": JobState.RUNNING,
    "Succeeded": JobState.SUCCEEDED,
    "Failed": JobState.FAILED,
    "Unknown": JobState.UNKNOWN,
}
# status.reason of a pod that failed. Any other word: its container ended badly.
TROUBLES: Mapping[str, Trouble] = {
    "DeadlineExceeded": Trouble.MAX_RUNTIME,
    **dict.fromkeys(("Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"), Trouble.SERVICE),
    "UnexpectedAdmissionError": Trouble.SERVICE,
    "Preempting": Trouble.STOPPED,
    **dict.fromkeys(("NodeAffinity", "NodePorts", "PodOSNotSupported", "AppArmor"), Trouble.CONFIGURATION),
}
# "OutOf" and a resource, "OutOfcpu" as well as "OutOfvpc.amazonaws.com/efa": the node had less of it left than the scheduler believed
# (pkg/kubelet/lifecycle/predicate.go).
OUT_OF = "OutOf"
# Why a container waits: these do not pass by themselves, those may, and any other word is a start that goes on.
NEVER_STARTS = frozenset(("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"))
# A kubelet that has not heard of a Secret or ConfigMap yet says CreateContainerConfigError, and tries again.
SYNCS = "failed to sync "
# The node's container runtime could not start it (pkg/kubelet/container/sync_result.go), as where a GPU is gone: the message has the
# runtime's words. It is no mistake of the gate file.
RUNTIME_FAILS = "RunContainerError"
RUNTIME_ENDS = ("StartError", "ContainerCannotRun")
MAY_PASS = frozenset(
    (
        "ErrImagePull",
        "ImagePullBackOff",
        "ImageInspectError",
        "RegistryUnavailable",
        "CreateContainerError",
        "SignatureValidationFailed",
    )
)
# Conditions of workloads that hold (status "True"), first one first: of Jobs, of PyTorchJobs and of HyperPodPyTorchJobs.
CONDITIONS: Mapping[str, JobState] = {
    **dict.fromkeys(("Complete", "Completed", "Succeeded"), JobState.SUCCEEDED),
    "Failed": JobState.FAILED,
    **dict.fromkeys(("Suspended", "Restarting"), JobState.PENDING),
}
# Why a Job failed. BackoffLimitExceeded and PodFailurePolicy: its pods say it.
JOB_TROUBLES: Mapping[str, Trouble] = {
    "BackoffLimitExceeded": Trouble.ENDED,
    "PodFailurePolicy": Trouble.ENDED,
    "FailedIndexes": Trouble.ENDED,
    "DeadlineExceeded": Trouble.MAX_RUNTIME,
}
UNSCHEDULABLE = "Unschedulable"
# The first one in this order is reported, if there are several.
WORST = (
    Trouble.CONFIGURATION, Trouble.QUOTA, Trouble.NO_CAPACITY, Trouble.MAX_RUNTIME, Trouble.STOPPED, Trouble.SERVICE, Trouble.ENDED,
)  # fmt: skip
MOST_NAMED = 8


@dataclass(frozen=True)
class PodEnding:
    """What the agent wrote into the termination message."""

    attempt: str = ""
    reason: str = ""


@dataclass(frozen=True)
class PodView:
    """One pod. `node` is the gate's name for it, `host` the node of Kubernetes, `waits` why its container does not start, and
    `reason` that of its end, both in the API's words.

    `unschedulable` is the scheduler's message while no node is found for it, `ends` since it is being deleted. It was started again
    `restarts` times, its container by the kubelet or the pod in the place of another; `before` is how it ended the last time.
    """

    name: str
    node: str
    made_at: str
    state: JobState
    reason: str = ""
    message: str = ""
    host: str = ""
    unschedulable: str = ""
    waits: str = ""
    exit_code: int | None = None
    ends: bool = False
    ending: PodEnding = field(default_factory=PodEnding)
    restarts: int = 0
    before: str = ""

    @property
    def trouble(self) -> Trouble:
        """What went wrong; NONE for a pod that ended well or still runs."""
        if self.state is JobState.FAILED:
            capacity = Trouble.NO_CAPACITY if self.reason.startswith(OUT_OF) else Trouble.ENDED
            return TROUBLES.get(self.reason, capacity)
        if self.waits == RUNTIME_FAILS:
            return Trouble.ENDED
        never = self.waits in NEVER_STARTS and SYNCS not in self.message
        return Trouble.CONFIGURATION if never else Trouble.NONE

    @property
    def text(self) -> str:
        """For people."""
        where = f" on {self.host}" if self.host else ""
        if self.unschedulable:
            return f"{self.node} waits for a node: {self.unschedulable}"
        if self.state is JobState.PENDING:
            return f"{self.node}{where} does not run yet: {self.waits or 'it is being prepared'}" + self._more
        if self.state is JobState.SUCCEEDED:
            return f"{self.node}{where} ended well"
        if self.state is JobState.FAILED and self.exit_code is not None:
            return f"{self.node}{where} {_ended_with(self.exit_code, self.reason, self.ending)}{self._more}"
        if self.waits:
            return f"{self.node}{where} waits for its next start: {self.waits}{self._more}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.node}{where} is {self.state.value}{reason}{self._more}"

    @property
    def again(self) -> str:
        """For people, of a pod that was started again; "" of any other."""
        where = f" on {self.host}" if self.host else ""
        times = "once" if self.restarts == 1 else f"{self.restarts} times"
        before = f"; before, it {self.before}" if self.before else ""
        return f"{self.node}{where} was started again {times}{before}" if self.restarts else ""

    @property
    def _more(self) -> str:
        return f" ({self.message})" if self.message else ""


@dataclass(frozen=True)
class WorkloadView:
    """One Job: its state, and why it failed."""

    name: str
    state: JobState
    trouble: Trouble = Trouble.NONE
    message: str = ""


@dataclass(frozen=True)
class PodsState:
    """The state of all of them together. `stuck` are the pods that may never start, by their nodes' names."""

    state: JobState
    trouble: Trouble
    detail: str
    exit_codes: Mapping[str, int]
    stuck: tuple[str, ...] = ()


def pod_view(pod: Object) -> PodView | None:
    """The pod as far as a gate is interested; None for one that has no number."""
    meta, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    number = number_of(pod)
    if number is None:
        return None
    container = _container(status)
    ended = (container.get("state") or {}).get("terminated") or {}
    waiting = (container.get("state") or {}).get("waiting") or {}
    code = ended.get("exitCode")
    return PodView(
        name=str(meta.get("name") or ""),
        node=f"node-{number}",
        made_at=str(meta.get("creationTimestamp") or ""),
        state=PHASES.get(str(status.get("phase") or "Pending"), JobState.UNKNOWN),
        reason=str(status.get("reason") or ended.get("reason") or ""),
        message=one_line(str(status.get("message") or waiting.get("message") or _runtime_said(ended)), 400),
        host=str(spec.get("nodeName") or ""),
        unschedulable=_unschedulable(status),
        waits=str(waiting.get("reason") or ""),
        exit_code=code if type(code) is int else None,
        ends=bool(meta.get("deletionTimestamp")),
        ending=ending_of(str(ended.get("message") or "")),
        restarts=_count(container.get("restartCount")),
        before=_before((container.get("lastState") or {}).get("terminated") or {}),
    )


def _runtime_said(ended: Mapping[str, Any]) -> str:
    """Why the runtime could not start a container that then counts as ended (StartError, ContainerCannotRun); "" for one that ran."""
    return str(ended.get("message") or "") if ended.get("reason") in RUNTIME_ENDS else ""


def ending_of(message: str) -> PodEnding:
    """The termination message; an empty one where the agent wrote none."""
    try:
        record = json.loads(message)
        return PodEnding(str(record["attempt"]), one_line(str(record["reason"]), 300))
    except (ValueError, TypeError, KeyError):
        return PodEnding()


def workload_view(workload: Object) -> WorkloadView:
    """The Job, by the first of its conditions that holds."""
    name = str((workload.get("metadata") or {}).get("name") or "")
    status = workload.get("status") or {}
    conditions = status.get("conditions") or ()
    holds = {item.get("type"): item for item in conditions if item.get("status") == "True"}
    for condition, state in CONDITIONS.items():
        if condition in holds:
            reason, message = (str(holds[condition].get(key) or "") for key in ("reason", "message"))
            trouble = JOB_TROUBLES.get(reason, Trouble.ENDED) if state is JobState.FAILED else Trouble.NONE
            return WorkloadView(
                name, state, trouble, one_line(": ".join(filter(None, (reason, message))), 300)
            )
    return WorkloadView(name, JobState.RUNNING if status.get("active") else JobState.PENDING)


def newest(pods: Iterable[PodView]) -> tuple[PodView, ...]:
    """The result holds the newest pod of each node, in the order of the nodes. A pod in the place of another one counts as started
    again.
    """
    latest: dict[str, PodView] = {}
    for pod in sorted(pods, key=lambda pod: (pod.made_at, pod.name)):
        if former := latest.get(pod.node):
            code = former.exit_code
            before = (
                _ended_with(code, former.reason, former.ending)
                if code is not None
                else former.reason and f"was {former.reason}"
            )
            pod = replace(pod, restarts=pod.restarts + former.restarts + 1, before=pod.before or before)
        latest[pod.node] = pod
    return tuple(sorted(latest.values(), key=lambda pod: int(pod.node.rpartition("-")[2])))


def together(nodes: int, workloads: Sequence[WorkloadView], pods: Sequence[PodView]) -> PodsState:
    """The job's state: PENDING until every pod has started, and final once every workload and every pod is."""
    current = newest(pods)
    codes = {pod.node: pod.exit_code for pod in current if pod.exit_code is not None}
    if workloads and all(job.state.final for job in workloads):
        return _ended(workloads, current, codes)
    suspended = [job for job in workloads if job.message and job.state is JobState.PENDING]
    waiting = [pod for pod in current if pod.state is JobState.PENDING]
    stuck = tuple(pod.node for pod in waiting if pod.waits in MAY_PASS)
    failed = [pod for pod in current if pod.trouble is not Trouble.NONE]
    never = [pod for pod in waiting if pod.trouble is not Trouble.NONE]
    if never:
        wrong = {pod.trouble for pod in never}
        return PodsState(
            JobState.FAILED, next(case for case in WORST if case in wrong), _listed(never), codes
        )
    held = f"{suspended[0].name} is suspended: {suspended[0].message}" if suspended else ""
    without = [pod for pod in waiting if pod.unschedulable]
    if failed and (without or (held and len(workloads) > 1)):
        # The pods that ran have waited for the others, and have given up.
        detail = "; ".join(filter(None, (held, _listed([*without, *failed]))))
        return PodsState(JobState.FAILED, Trouble.NO_CAPACITY, detail, codes)
    if held:
        return PodsState(JobState.PENDING, Trouble.NONE, held, codes)
    missing = nodes - len(current) if not any(job.state.final for job in workloads) else 0
    if waiting or missing > 0:
        detail = _listed(waiting) or f"{missing} of {nodes} pods are not there yet"
        return PodsState(JobState.PENDING, Trouble.NONE, detail, codes, stuck)
    ends = [pod for pod in current if pod.ends]
    detail = f"{_listed(ends)}; the kubelet has not confirmed its end" if ends else _running(current)
    return PodsState(JobState.RUNNING, Trouble.NONE, detail, codes)


def has_ended(workloads: Sequence[WorkloadView], pods: Sequence[PodView]) -> bool:
    """Whether nothing of the job is left to be ended. A pod that is being deleted may be on a node that never answers."""
    left = (pod for pod in pods if not pod.ends)
    return all(view.state.final for view in workloads) and all(pod.state.final for pod in left)


def outliving(pods: Iterable[PodView], codes: Mapping[str, int]) -> tuple[str, ...]:
    """The nodes whose pods still run although others ended with an error. An Indexed Job ends such pods by itself."""
    if not any(codes.values()):
        return ()
    return tuple(
        pod.node for pod in pods if pod.state is JobState.RUNNING and not pod.ends and pod.node not in codes
    )


def cut_off_text(codes: Iterable[tuple[str, int]], cause: str) -> str:
    """How a training ended whose other nodes were ended because of those that failed."""
    failed = [f"{node} ended with {code}" for node, code in codes if code]
    later = f"the other nodes still ran {FAILED_NODE_GRACE_S:.0f} s later and were ended"
    return "; ".join(filter(None, (cause, *failed[:MOST_NAMED], later)))


def _ended(workloads: Sequence[WorkloadView], pods: Sequence[PodView], codes: Mapping[str, int]) -> PodsState:
    if all(job.state is JobState.SUCCEEDED for job in workloads):
        return PodsState(JobState.SUCCEEDED, Trouble.NONE, "every pod ended well", codes)
    failed = [pod for pod in pods if pod.state is JobState.FAILED]
    troubles = {pod.trouble for pod in failed} or {job.trouble for job in workloads}
    # A Job that was ended by its own limit has no pods any more.
    troubles |= {job.trouble for job in workloads if job.trouble is Trouble.MAX_RUNTIME and not failed}
    trouble = next((case for case in WORST if case in troubles), Trouble.ENDED)
    detail = _listed(failed) or "; ".join(f"{job.name}: {job.message}" for job in workloads if job.message)
    if trouble is Trouble.MAX_RUNTIME:
        detail = f"it reached its max runtime: {detail}"
    return PodsState(JobState.FAILED, trouble, detail, codes)


def _listed(pods: Sequence[PodView]) -> str:
    more = f"; and {len(pods) - MOST_NAMED} more" if len(pods) > MOST_NAMED else ""
    return "; ".join(pod.text for pod in pods[:MOST_NAMED]) + more


def _running(pods: Sequence[PodView]) -> str:
    """How many run, and of which there is more to say: they ended, wait for their next start, or were started again."""
    ended = [pod for pod in pods if pod.state.final]
    waits = [pod for pod in pods if pod.waits and not pod.state.final]
    again = [pod.again for pod in pods if pod.again]
    more = "; and others" if len(again) > MOST_NAMED else ""
    rest = (_listed(ended), _listed(waits), "; ".join(again[:MOST_NAMED]) + more)
    return "; ".join(filter(None, (f"{len(pods) - len(ended) - len(waits)} of {len(pods)} pods run", *rest)))


def _ended_with(code: int, engine_reason: str, ending: PodEnding) -> str:
    reason = ending.reason or (engine_reason if engine_reason not in ("Error", "Completed") else "")
    return f"ended with {code}" + (f": {reason}" if reason else "")


def _before(ended: Mapping[str, Any]) -> str:
    """How a container ended the last time, "" if it was never started before."""
    code = ended.get("exitCode")
    if type(code) is not int:
        return ""
    return _ended_with(code, str(ended.get("reason") or ""), ending_of(str(ended.get("message") or "")))


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The gate's container, or the init container that has not ended well yet."""
    for container in status.get("initContainerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if not ended or ended.get("exitCode"):
            return dict(container)
    containers = status.get("containerStatuses") or ()
    return next((dict(container) for container in containers if container.get("name") in CONTAINERS), {})


def _unschedulable(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return one_line(str(condition.get("message") or condition.get("reason") or UNSCHEDULABLE), 300)
    return ""
