"""What the API server says, as our states: tables of pods and Jobs, written as the API of Kubernetes writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tasks.launchers.base import JobState, Trouble
from tasks.launchers.kubernetes import job_states
from tests.tasks.launchers.golden import GOLDEN, golden_text
from tests.tasks.parameters import spread

DELETED = "2026-11-26T10:05:00Z"
COMPLETE = {"type": "Complete", "status": "True"}
SUSPENDED = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
PENDING, RUNNING = JobState.PENDING, JobState.RUNNING


def pod(
    index: int = 0, phase: str = "Running", made: str = "2026-11-26T10:00:00Z", **status: Any
) -> dict[str, Any]:
    """A pod of node `index`."""
    labels = {"prelaunch.dev/node-index": str(index)}
    meta = {"name": f"job-{index}-abcde", "labels": labels, "creationTimestamp": made}
    return {"metadata": meta, "spec": {"nodeName": f"worker-{index}"}, "status": {"phase": phase, **status}}


def waiting(reason: str, message: str = "", index: int = 1) -> dict[str, Any]:
    """The second pod, whose container waits."""
    row = {"name": "prelaunch", "state": {"waiting": {"reason": reason, "message": message}}}
    return pod(index, "Pending", containerStatuses=[row])


def ended(code: int, index: int = 0, reason: str = "", message: str = "") -> dict[str, Any]:
    """A pod whose container has ended."""
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}}
    status: dict[str, Any] = {"containerStatuses": [{"name": "prelaunch", "state": state}]}
    status |= {"reason": reason} if reason else {}
    return pod(index, "Failed" if code or reason else "Succeeded", **status)


def unschedulable() -> dict[str, Any]:
    """The second pod, for which there is no node."""
    said = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    return pod(1, "Pending", conditions=[row])


def deleted(running: dict[str, Any]) -> dict[str, Any]:
    """The pod while its kubelet ends it."""
    return {**running, "metadata": {**running["metadata"], "deletionTimestamp": DELETED}}


def job(index: int = 0, *conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    """A Job with these conditions."""
    return {"metadata": {"name": f"job-{index}"}, "status": {"conditions": list(conditions), **status}}


def failed(reason: str = "BackoffLimitExceeded") -> dict[str, str]:
    """The condition of a Job that failed."""
    return {"type": "Failed", "status": "True", "reason": reason, "message": "Job has failed"}


def views(*pods: dict[str, Any]) -> list[job_states.PodView]:
    """What is seen of these pods."""
    return [view for view in map(job_states.pod_view, pods) if view is not None]


def verdict(jobs: list[dict[str, Any]], pods: list[dict[str, Any]]) -> job_states.PodsState:
    """Of all of them, on two nodes."""
    return job_states.together(2, [job_states.workload_view(row) for row in jobs], views(*pods))


def again(index: int, times: int, state: dict[str, Any], message: str = "") -> dict[str, Any]:
    """A pod whose container was started again, after it ended with 1."""
    before = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
    row = {"name": "pytorch", "restartCount": times, "state": state, "lastState": before}
    return pod(index, containerStatuses=[row])


# Two Jobs that have not ended.
TWO = [job(index, active=1) for index in range(2)]
HALF = [job(0, COMPLETE), job(1)]
# The kubelet tries again.
CACHE = "failed to sync secret cache: timed out waiting for the condition"
SAID = '{"attempt": "abc", "node": "node-0", "exit_code": 1, "reason": "no_go: GPU 3"}'
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting it"}}


def half_failed(reason: str = "BackoffLimitExceeded") -> list[dict[str, Any]]:
    """Two Jobs of which one failed."""
    return [job(0, COMPLETE), job(1, failed(reason))]


VERDICTS: Mapping[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    # It runs once every pod has started. A pod that waits for a node waits, and is no failure.
    "both run": (TWO, [pod(0), pod(1)]),
    "one ended well": (TWO, [pod(0), ended(0, 1)]),
    "no node": (TWO, [pod(0), unschedulable()]),
    "creating": (TWO, [pod(0), waiting("ContainerCreating")]),
    "one of two": (TWO, [pod(0)]),
    "none of two": (TWO, []),
    # The launcher decides how long it waits for an image.
    "image backs off": (TWO, [pod(0), waiting("ImagePullBackOff", "Back-off")]),
    "image fails": (TWO, [pod(0), waiting("ErrImagePull")]),
    "secret cache": (TWO, [pod(0), waiting("CreateContainerConfigError", CACHE)]),
    # A pod that can never start would wait for ever.
    "invalid image": (TWO, [pod(0), waiting("InvalidImageName", "bad")]),
    "never pulled": (TWO, [pod(0), waiting("ErrImageNeverPull", "bad")]),
    "wrong container": (TWO, [pod(0), waiting("CreateContainerConfigError", "bad")]),
    # The first one ended because the second one never came: no machine is at fault, and nothing is waited for.
    "gave up on one without a node": (TWO, [ended(3, 0), unschedulable()]),
    # Of plain Jobs Kueue admits one by one. A single workload that was evicted from its queue is admitted again, and waits.
    "gave up on one that is not admitted": ([job(0, failed()), job(1, SUSPENDED)], [ended(3, 0)]),
    "evicted from its queue": ([job(0, SUSPENDED)], [ended(3, 0)]),
    "not admitted": ([job(0, SUSPENDED)], []),
    # It has ended when all of it has, and not when its pods say so: the controller may still make another.
    "complete": ([job(0, COMPLETE), job(1, COMPLETE)], [ended(0, 0), ended(0, 1)]),
    "half complete": (HALF, [ended(0, 0), ended(0, 1)]),
    "half complete without a pod": (HALF, [ended(0, 0)]),
    # The engine's own failure is reported before that of a container which it may have caused.
    "exit code": (half_failed(), [ended(0, 0), ended(7, 1)]),
    "deadline of a pod": (half_failed(), [ended(0, 0), ended(143, 1, "DeadlineExceeded")]),
    "evicted": (half_failed(), [ended(0, 0), ended(137, 1, "Evicted")]),
    "evicted beside an exit code": (half_failed(), [ended(7, 0), ended(137, 1, "Evicted")]),
    "out of CPUs": (half_failed(), [ended(0, 0), pod(1, "Failed", reason="OutOfcpu")]),
    "deadline of the job": (half_failed("DeadlineExceeded"), [ended(0, 0)]),
    "an unknown reason": (half_failed("SomethingNew"), [ended(0, 0)]),
    # A container in its pod, as an operator's, or a pod in the place of another; and what it waits for.
    "started again": (TWO, [again(0, 2, BACK_OFF, SAID), ended(137, 1, "Evicted"), pod(1, made="2026-11-26T10:05:00Z")]),
    # While its kubelet is silent it may run.
    "being deleted": (TWO, [pod(0), deleted(pod(1))]),
}  # fmt: skip


def test_what_pods_and_jobs_say_together_is_the_golden_text() -> None:
    """State, trouble, exit codes, who waits for an image, and the words; UPDATE_GOLDEN=1 writes it."""
    found = {name: verdict(*seen) for name, seen in VERDICTS.items()}
    said = "".join(
        f"{name}: {one.state.name} {one.trouble.name} {dict(one.exit_codes)} {list(one.stuck)}\n  {one.detail}\n"
        for name, one in found.items()
    )

    assert said == golden_text(GOLDEN / "kubernetes_states.txt", said)


def test_a_replaced_pod_does_not_count() -> None:
    """The newest of each node does."""
    old, new = pod(0, "Failed"), pod(0, made="2026-11-26T10:05:00Z")
    states = [(view.node, view.state) for view in job_states.newest(views(new, old, pod(1)))]

    assert states == [("node-0", RUNNING), ("node-1", RUNNING)]


def test_the_termination_message_has_the_verdict() -> None:
    """Also where no report came; what another program wrote is none."""
    view = job_states.pod_view(ended(1, 0, message=SAID))

    assert view is not None and view.ending == job_states.PodEnding("abc", "no_go: GPU 3")
    assert "no_go: GPU 3" in view.text
    assert [job_states.ending_of(text) for text in ("", "{}", "[1]", "Traceback", '{"attempt": 1')] == [
        job_states.PodEnding()
    ] * 5


def test_an_init_container_that_fails_is_what_the_pod_waits_for() -> None:
    """The site's template may have one."""
    row = {"name": "setup", "state": {"waiting": {"reason": "ErrImageNeverPull"}}}

    assert views(pod(0, "Pending", initContainerStatuses=[row]))[0].trouble is Trouble.CONFIGURATION


def test_a_pod_of_an_indexed_job_is_known_by_its_number() -> None:
    """A pod without any is none of the gate's."""
    plain = pod(0)
    del plain["metadata"]["labels"]
    indexed = {**plain, "metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": "3"}}}

    assert job_states.pod_view(plain) is None
    assert isinstance(view := job_states.pod_view(indexed), job_states.PodView) and view.node == "node-3"


def test_an_unknown_phase_or_word_never_ends_a_job() -> None:
    """UNKNOWN has a deadline in the gate."""
    assert views(pod(0, "Sleeping"))[0].state is JobState.UNKNOWN
    assert not any(
        state.final for phase, state in job_states.PHASES.items() if phase not in ("Succeeded", "Failed")
    )
    assert Trouble.NONE not in {*job_states.TROUBLES.values(), *job_states.JOB_TROUBLES.values()}


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ("Succeeded", JobState.SUCCEEDED),
        ("Failed", JobState.FAILED),
        ("Restarting", PENDING),
        ("Running", RUNNING),
    ],
)
def test_the_conditions_of_operators(condition: str, state: JobState) -> None:
    """A pod is known by the number at the end of its name, if an operator owns it."""
    workload = job(0, {"type": condition, "status": "True"}, active=1)
    owned = {"metadata": {"name": "gate-1-worker-3", "ownerReferences": [{"kind": "PyTorchJob"}]}}

    assert job_states.workload_view(workload).state is state
    assert views(owned)[0].node == "node-3"
    assert job_states.pod_view({"metadata": {"name": "gate-1-worker-3"}}) is None


# It takes the place of a pod that is being deleted.
REPLACED = {**ended(0), "metadata": pod(made=DELETED)["metadata"]}


@pytest.mark.parametrize(
    ("jobs", "is_over", "pods"),
    spread(
        ([job(0, COMPLETE)], True, ([ended(0, 0), ended(0, 1)], [deleted(pod(0)), REPLACED])),
        ([job(0, failed())], True, ([ended(1, 0)], [ended(1, 0), deleted(pod(1))])),
        ([job(0, failed())], False, ([ended(1, 0), pod(1)], [ended(1, 0), unschedulable()])),
        (TWO, False, ([ended(0, 0), ended(0, 1)],)),
    ),
)
def test_a_job_is_over_once_none_of_its_pods_can_run(
    jobs: list[dict[str, Any]], pods: list[dict[str, Any]], is_over: bool
) -> None:
    """A workload may fail while its pods run. One that was replaced, and is being deleted, holds up no job that ended well."""
    assert job_states.has_ended([job_states.workload_view(row) for row in jobs], views(*pods)) is is_over


@pytest.mark.parametrize(
    ("reason", "trouble"),
    [
        ("OutOfcpu", Trouble.NO_CAPACITY),
        ("OutOfvpc.amazonaws.com/efa", Trouble.NO_CAPACITY),
        ("OOMKilled", Trouble.ENDED),
        ("Evicted", Trouble.SERVICE),
        ("AppArmor", Trouble.CONFIGURATION),
    ],
)
def test_a_resource_that_a_node_has_not_left_is_capacity(reason: str, trouble: Trouble) -> None:
    """Whatever its name: device plugins make their own."""
    assert trouble is views(pod(0, "Failed", reason=reason))[0].trouble


GONE_GPU = "failed to create task: OCI runtime create failed: nvidia-container-cli: device error: GPU-1f3a: unknown device: unknown"


@pytest.mark.parametrize(
    "state",
    [
        {"terminated": {"reason": "StartError", "exitCode": 128, "message": GONE_GPU}},
        {"terminated": {"reason": "ContainerCannotRun", "exitCode": 127, "message": GONE_GPU}},
        {"waiting": {"reason": "RunContainerError", "message": GONE_GPU}},
    ],
)
def test_runtime_failure_names_the_node_and_is_no_mistake_of_the_gate_file(state: dict[str, Any]) -> None:
    """A GPU that is gone is not mended by correcting a file."""
    phase = "Failed" if "terminated" in state else "Pending"
    broken = pod(1, phase, containerStatuses=[{"name": "prelaunch", "state": state}])
    detail = verdict([], [pod(0), broken]).detail

    assert Trouble.ENDED is views(broken)[0].trouble
    assert "worker-1" in detail and "GPU-1f3a: unknown device" in detail


def test_a_container_that_ran_says_nothing_but_its_agents_words() -> None:
    """Its termination message may be any file."""
    state = {"terminated": {"reason": "Error", "exitCode": 1, "message": "the last line of a training"}}
    (view,) = views(pod(1, "Failed", containerStatuses=[{"name": "prelaunch", "state": state}]))
    assert "last line" not in view.text
