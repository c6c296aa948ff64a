"""kernel.hardware: whose want of memory a process was killed for. The lines are in the forms of Linux's own sources."""

from __future__ import annotations

import pytest

from checks.check import fault_of
from checks.probes.kernel import hardware
from checks.probes.kernel.hardware import OwnCgroup, measured, of_own_job
from tests.checks.local_policy import verdicts
from tests.checks.probes.kernel.world import log_of

POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0000_1111_2222_333344445555.slice"
STEP = "/system.slice/slurmstepd.scope/job_7/step_batch"
KILLED = "Killed process {pid} (python) total-vm:812kB, anon-rss:765kB, file-rss:0kB, shmem-rss:0kB, UID:0"
HEAD = "oom-kill:constraint={},nodemask=(null),cpuset=/,mems_allowed=0-1,"


def machine(pid: int = 1) -> str:
    """The machine has no memory left."""
    return (
        f"[ 9990.0] {HEAD.format('CONSTRAINT_NONE')}global_oom,task_memcg=/a,task=python,pid={pid},uid=0\n"
        f"[ 9990.1] Out of memory: {KILLED.format(pid=pid)}\n"
    )


def limit(path: str, pid: int = 2) -> str:
    """The limit of a cgroup was reached."""
    return (
        f"[ 9991.0] {HEAD.format('CONSTRAINT_MEMCG')}oom_memcg={path},task_memcg={path}/x,task=python,pid={pid},uid=0\n"
        f"[ 9991.1] Memory cgroup out of memory: {KILLED.format(pid=pid)}\n"
    )


@pytest.mark.parametrize(
    ("text", "own", "counts"),
    [
        (machine(), OwnCgroup(STEP, 0), (1, 0, 0)),
        (machine(), None, (1, 0, 0)),
        (limit("/system.slice/slurmstepd.scope/job_8"), OwnCgroup(STEP, 0), (0, 0, 1)),
        (limit("/system.slice/slurmstepd.scope/job_7/step_0"), OwnCgroup(STEP, 0), (1, 1, 0)),
        (machine() + limit("/other.service") + limit(STEP, 9), OwnCgroup(STEP, 1), (2, 1, 1)),
        # A kill of the machine after one of a cgroup, of a process with the same number.
        (limit("/other.service", 5) + machine(5), OwnCgroup(STEP, 0), (1, 0, 1)),
        # The same, where the line about the first one is lost.
        (limit("/other.service", 5).splitlines(True)[0] + machine(5), OwnCgroup(STEP, 0), (1, 0, 0)),
        # In a namespace the own path is hidden, and the own counter says how many were its own.
        (limit("/kubepods/podx/1") + limit("/kubepods/podx/2", 6), OwnCgroup("/", 1), (1, 1, 1)),
        (limit("/kubepods/podx/1"), OwnCgroup("/", None), (0, 0, 1)),
        (limit("/other.service"), OwnCgroup("", None), (0, 0, 1)),
        # A log of elsewhere, and a line whose cgroup is lost: whose limit it was is not known, so it counts.
        (limit("/other.service"), None, (1, 0, 0)),
        (f"[ 9991.1] Memory cgroup out of memory: {KILLED.format(pid=2)}\n", OwnCgroup(STEP, 0), (1, 0, 0)),
    ],
)  # fmt: skip
def test_whose_limit_was_reached(text: str, own: OwnCgroup | None, counts: tuple[int, int, int]) -> None:
    """Kills that count, those among them by the own job's limit, and those by the limits of other jobs."""
    found = measured(log_of(text, hardware.find), own).metrics

    assert (found["oom_kill"], found["oom_kill_own_job"], found["oom_kill_other_jobs"]) == counts
    assert fault_of(hardware.hardware, found) == ""
    said = [("WARN", "APPLICATION", "oom_kill")] if counts[0] else []
    assert verdicts("kernel.hardware", {**found, "covers_s": 86400}) == said


@pytest.mark.parametrize(
    ("path", "own", "is_own"),
    [
        (f"{POD}/cri-1.scope", f"{POD}/cri-2.scope", True),
        (POD, f"{POD}/cri-2.scope", True),
        (POD.replace("3333", "3334"), f"{POD}/cri-2.scope", False),
        ("/kubepods.slice", f"{POD}/cri-2.scope", True),
        ("/user.slice/user-0.slice/session-1.scope", "/user.slice/user-0.slice/session-1.scope", True),
        ("/user.slice/user-0.slice/session-10.scope", "/user.slice/user-0.slice/session-1.scope", False),
        ("/user.slice/user-0.slice", "/user.slice/user-0.slice/session-1.scope", True),
        ("/x", "", False),
    ],
)  # fmt: skip
def test_which_cgroups_are_those_of_the_own_job(path: str, own: str, is_own: bool) -> None:
    """A step of the own job of Slurm, a container of the own pod, and whatever contains them."""
    assert of_own_job(path, own) is is_own
