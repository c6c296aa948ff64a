"""Machines for a job: a warm pool that matches, else free ones, else Pending until there are some or patience ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.fakes.sagemaker.job import Job, Pool
from tests.fakes.sagemaker.machines import Machine

if TYPE_CHECKING:
    from tests.fakes.sagemaker.plane import Plane

POLL_S = 0.05
FOREVER_S = 172800  # "Training plans": without MaxPendingTimeInSeconds a job waits for 2 days
RETRYING = "Insufficient capacity error from EC2 while launching instances, retrying!"
NONE_LEFT = (
    "Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)
STOPPED, WAITED = "Stopped", "MaxWaitTimeExceeded"


def acquire(plane: Plane, job: Job) -> str:
    """ "" when the job has machines, else Stopped, MaxWaitTimeExceeded or the FailureReason."""
    asked = time.time()
    fails = plane.dials.meant in job.name and _next_fails(plane)
    while fails or not _take(plane, job, asked):
        if job.secondary != "Pending":
            job.move("Pending", RETRYING)
        if job.pause(POLL_S):
            return STOPPED
        if _spot_waited(job):
            return WAITED
        if fails or time.time() > asked + _patience(plane, job):
            return f"{plane.dials.capacity_error}: {NONE_LEFT}"
    return ""


def _take(plane: Plane, job: Job, asked: float) -> bool:
    with plane.lock:
        found = plane.pools.claim(job)
        if not found and plane.dials.capacity and time.time() >= asked + plane.dials.capacity_after_s:
            found = _free(plane, job)
        job.machines = found
        if found and job.keep_alive_s:
            others = [o for o in plane.jobs.values() if o is not job and o.pool is Pool.IN_USE]
            in_use = sum(len(o.machines) for o in others if o.groups[0].type == job.groups[0].type)
            job.pool = Pool.IN_USE if plane.pools.retains(job, in_use) else Pool.TERMINATED
        return bool(found)


def _free(plane: Plane, job: Job) -> list[Machine]:
    """All of them or none. With preferences the first type that has enough is chosen ("InstancePreferences")."""
    for preference in job.resources.get("InstancePreferences") or ():
        count = preference.get("InstanceCount") or job.resources.get("InstanceCount", 1)
        found = plane.fleet.take(preference["InstanceType"], count, job.name)
        if found:
            job.selected_type, job.selected_count = preference["InstanceType"], count
            return found
    if job.resources.get("InstancePreferences"):
        return []
    return _groups(plane, job, _wanted(job))


def _wanted(job: Job) -> list[tuple[str, int, str]]:
    """(type, count, UltraServer). API reference, PlacementSpecification: so many instances on that UltraServer."""
    placed: list[dict[str, Any]] = (job.resources.get("InstancePlacementConfig") or {}).get(
        "PlacementSpecifications"
    ) or []
    if placed:
        kind = job.groups[0].type
        return [(kind, spec["InstanceCount"], spec.get("UltraServerId", "")) for spec in placed]
    return [(group.type, group.count, "") for group in job.groups]


def _groups(plane: Plane, job: Job, wanted: list[tuple[str, int, str]]) -> list[Machine]:
    taken: list[Machine] = []
    for kind, count, server in wanted:
        found = plane.fleet.take(kind, count, job.name, server)
        if not found:
            plane.fleet.give_back(taken)
            return []
        taken += found
    return taken


def _next_fails(plane: Plane) -> bool:
    with plane.lock:
        fails = plane.dials.next_capacity_errors > 0
        plane.dials.next_capacity_errors -= fails
        return fails


def _patience(plane: Plane, job: Job) -> float:
    stopping = job.request.get("StoppingCondition") or {}
    given = plane.dials.pending_s
    return float(stopping.get("MaxPendingTimeInSeconds", FOREVER_S) if given is None else given)


def _spot_waited(job: Job) -> bool:
    """StoppingCondition: MaxWaitTimeInSeconds "includes the time spent waiting for Spot capacity"."""
    wait = (job.request.get("StoppingCondition") or {}).get("MaxWaitTimeInSeconds")
    return wait is not None and time.time() > job.created + wait
