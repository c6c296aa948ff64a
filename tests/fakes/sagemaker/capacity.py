"""Machines for a job: a warm pool that matches, else free ones, else Pending until there are some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.sagemaker.job import Job, Pool

if TYPE_CHECKING:
    from tests.fakes.sagemaker.plane import Plane

RETRYING = "Insufficient capacity error from EC2 while launching instances, retrying!"
STOPPED = "Stopped"


def acquire(plane: Plane, job: Job) -> str:
    """ "" when the job has machines, else Stopped or the FailureReason."""
    with plane.lock:
        fails = plane.dials.next_capacity_errors > 0
        plane.dials.next_capacity_errors -= fails
    if fails:
        job.move("Pending", RETRYING)
        return "InsufficientCapacityError: Unable to provision requested ML compute capacity."
    while not _take(plane, job):
        if job.secondary != "Pending":
            job.move("Pending", RETRYING)
        if job.pause(0.05):
            return STOPPED
    return ""


def _take(plane: Plane, job: Job) -> bool:
    with plane.lock:
        job.machines = plane.pools.claim(job) or plane.fleet.take(job.type, job.count, job.name)
        if job.machines and job.keep_alive_s:
            # "Considerations": no pool with Spot.
            job.pool = Pool.TERMINATED if job.request.get("EnableManagedSpotTraining") else Pool.IN_USE
        return bool(job.machines)
