"""A faulty machine in a cluster or a pool: replaced or rebooted, by AWS's own decision.

"Cluster repair" and "Warm pools" (Amazon SageMaker AI, "Resume training from a checkpoint"): at most 10 repairs a job; a pool with a
faulty instance "enters repair mode to reboot or replace" it and can be used again, so that ReusedByJob proves no machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.sagemaker.cluster import Ended
from tests.fakes.sagemaker.job import Job

if TYPE_CHECKING:
    from tests.fakes.sagemaker.plane import Plane


def after_failure(plane: Plane, job: Job, ended: Ended) -> bool:
    """Whether the cluster was repaired, so that the containers start again."""
    with plane.lock:
        if plane.dials.repair == "off" or job.repairs >= plane.dials.repairs_most or ended.first is None:
            return False
        job.repairs += 1
        job.machines = [plane.fleet.replace(m) if m is ended.first.machine else m for m in job.machines]
    job.move("Restarting", "Repairing training cluster due to hardware failure")
    return True


def in_pool(plane: Plane, job: Job, index: int) -> str:
    """Replace one machine of the job's pool; its id afterwards. The pool stays as it is for everybody who looks.

    Raises KeyError where the job has no pool that is Available.
    """
    pool = plane.pools.of(job)
    if pool is None:
        raise KeyError(f"{job.name} has no pool that is Available")
    pool.machines[index] = plane.fleet.replace(pool.machines[index])
    return pool.machines[index].id
