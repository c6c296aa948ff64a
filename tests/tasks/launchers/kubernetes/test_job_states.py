"""What the API server says, as our states: tables of pods and Jobs, written as the API of Kubernetes writes them."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.launchers.base import JobState, Trouble
from tasks.launchers.kubernetes import job_states
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


# Two Jobs that have not ended.
TWO = [job(index, active=1) for index in range(2)]


@pytest.mark.parametrize(
    ("pods", "state", "says"),
    [
        ([pod(0), pod(1)], RUNNING, "2 of 2 pods run"),
        ([pod(0), ended(0, 1)], RUNNING, "1 of 2 pods run; node-1 on worker-1 ended well"),
        ([pod(0), unschedulable()], PENDING, "node-1 waits for a node: 0/4 nodes are available"),
        ([pod(0), waiting("ContainerCreating")], PENDING, "ContainerCreating"),
        ([pod(0), waiting("ImagePullBackOff", "Back-off")], PENDING, "ImagePullBackOff (Back-off)"),
        ([pod(0)], PENDING, "1 of 2 pods are not there yet"),
        ([], PENDING, "2 of 2 pods are not there yet"),
    ],
)
def test_a_job_runs_once_every_pod_has_started(
    pods: list[dict[str, Any]], state: JobState, says: str
) -> None:
    """A pod that waits for a node waits, and is no failure."""
    found = verdict(TWO, pods)

    assert (found.state, found.trouble) == (state, Trouble.NONE)
    assert says in found.detail


def test_a_pod_that_can_never_start_is_a_wrong_request() -> None:
    """It would wait for ever."""
    for reason in ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"):
        found = verdict(TWO, [pod(0), waiting(reason, "bad")])

        assert (found.state, found.trouble) == (JobState.FAILED, Trouble.CONFIGURATION)
        assert f"node-1 on worker-1 does not run yet: {reason} (bad)" in found.detail


def test_an_image_that_may_come_is_waited_for() -> None:
    """The launcher decides how long."""
    assert verdict(TWO, [pod(0), waiting("ErrImagePull")]).stuck == ("node-1",)
    assert verdict(TWO, [pod(0), waiting("ContainerCreating")]).stuck == ()
    cache = "failed to sync secret cache: timed out waiting for the condition"  # the kubelet tries again
    assert verdict(TWO, [pod(0), waiting("CreateContainerConfigError", cache)]).state is PENDING


def test_pods_that_gave_up_on_one_without_a_node_lacked_capacity() -> None:
    """The first one ended because the second one never came: no machine is at fault, and nothing is waited for."""
    found = verdict(TWO, [ended(3, 0), unschedulable()])

    assert (found.state, found.trouble) == (JobState.FAILED, Trouble.NO_CAPACITY)


def test_pods_that_gave_up_on_a_job_that_is_not_admitted_lacked_capacity() -> None:
    """Of plain Jobs Kueue admits one by one. A single workload that was evicted from its queue is admitted again, and waits."""
    several = verdict([job(0, failed()), job(1, SUSPENDED)], [ended(3, 0)])

    assert (several.state, several.trouble) == (JobState.FAILED, Trouble.NO_CAPACITY)
    assert verdict([job(0, SUSPENDED)], [ended(3, 0)]).state is PENDING
    assert "suspended: JobSuspended" in verdict([job(0, SUSPENDED)], []).detail


def test_a_job_has_ended_when_all_of_it_has() -> None:
    """And not when its pods say so: the controller may still make another."""
    pods = [ended(0, 0), ended(0, 1)]

    assert verdict([job(0, COMPLETE), job(1, COMPLETE)], pods).state is JobState.SUCCEEDED
    assert verdict([job(0, COMPLETE), job(1)], pods).state is RUNNING
    assert verdict([job(0, COMPLETE), job(1)], [ended(0, 0)]).state is RUNNING
    one_failed = verdict([job(0, COMPLETE), job(1, failed())], [ended(0, 0), ended(7, 1)])
    assert {"node-0": 0, "node-1": 7} == one_failed.exit_codes


@pytest.mark.parametrize(
    ("pods", "condition", "trouble", "says"),
    [
        ([ended(0, 0), ended(7, 1)], failed(), Trouble.ENDED, "node-1 on worker-1 ended with 7"),
        ([ended(0, 0), ended(143, 1, "DeadlineExceeded")], failed(), Trouble.MAX_RUNTIME, "max runtime"),
        ([ended(0, 0), ended(137, 1, "Evicted")], failed(), Trouble.SERVICE, "Evicted"),
        ([ended(7, 0), ended(137, 1, "Evicted")], failed(), Trouble.SERVICE, "Evicted"),
        ([ended(0, 0), pod(1, "Failed", reason="OutOfcpu")], failed(), Trouble.NO_CAPACITY, "OutOfcpu"),
        ([ended(0, 0)], failed("DeadlineExceeded"), Trouble.MAX_RUNTIME, "max runtime"),
        ([ended(0, 0)], failed("SomethingNew"), Trouble.ENDED, "SomethingNew"),
    ],
)
def test_failed_job_reports_its_cause_with_engine_failures_first(
    pods: list[dict[str, Any]], condition: dict[str, str], trouble: Trouble, says: str
) -> None:
    """The engine's own failure is reported before that of a container which it may have caused."""
    found = verdict([job(0, COMPLETE), job(1, condition)], pods)

    assert (found.state, found.trouble) == (JobState.FAILED, trouble)
    assert says in found.detail


def test_a_replaced_pod_does_not_count() -> None:
    """The newest of each node does."""
    old, new = pod(0, "Failed"), pod(0, made="2026-11-26T10:05:00Z")
    states = [(view.node, view.state) for view in job_states.newest(views(new, old, pod(1)))]

    assert states == [("node-0", RUNNING), ("node-1", RUNNING)]


def again(index: int, times: int, state: dict[str, Any], message: str = "") -> dict[str, Any]:
    """A pod whose container was started again, after it ended with 1."""
    before = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
    row = {"name": "pytorch", "restartCount": times, "state": state, "lastState": before}
    return pod(index, containerStatuses=[row])


def test_how_often_pods_were_started_again_and_why_is_said() -> None:
    """A container in its pod, as an operator's, or a pod in the place of another; and what it waits for."""
    said = '{"attempt": "abc", "node": "node-0", "exit_code": 1, "reason": "no_go: GPU 3"}'
    back_off = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting it"}}
    evicted = ended(137, 1, "Evicted")
    later = pod(1, made="2026-11-26T10:05:00Z")
    text = verdict(TWO, [again(0, 2, back_off, said), evicted, later]).detail

    assert "node-0 on worker-0 was started again 2 times; before, it ended with 1: no_go: GPU 3" in text
    assert "node-0 on worker-0 waits for its next start: CrashLoopBackOff (back-off 20s" in text
    assert "node-1 on worker-1 was started again once; before, it ended with 137: Evicted" in text
    assert "again" not in verdict(TWO, [pod(0), pod(1)]).detail


def test_a_pod_that_is_being_deleted_is_not_gone() -> None:
    """While its kubelet is silent it may run."""
    found = verdict(TWO, [pod(0), deleted(pod(1))])

    assert (found.state, "has not confirmed its end" in found.detail) == (RUNNING, True)


def test_the_termination_message_has_the_verdict() -> None:
    """Also where no report came; what another program wrote is none."""
    said = '{"attempt": "abc", "node": "node-0", "exit_code": 1, "reason": "no_go: GPU 3"}'
    view = job_states.pod_view(ended(1, 0, message=said))

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
