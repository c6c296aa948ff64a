"""Managed warm pools, after "Train using SageMaker-managed warm pools" (Amazon SageMaker AI, developer guide).

The caller holds the control plane's lock.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from tests.fakes.sagemaker.dials import Dials
from tests.fakes.sagemaker.job import Job, Pool
from tests.fakes.sagemaker.machines import Fleet, Machine


@dataclass
class WarmPool:
    """Machines that wait for the next matching job, until `until`."""

    job: Job
    machines: list[Machine]
    until: float


def key(request: dict[str, Any]) -> str:
    """What must be identical: "Matching training jobs" lists these and no others.

    Role; InstanceCount, InstanceType, VolumeKmsKeyId, VolumeSizeInGB; security groups and subnets; traffic encryption; isolation.
    (With session tag chaining the tags' keys count as well; the stand-in has no session tags.)
    """
    resources, vpc = request.get("ResourceConfig") or {}, request.get("VpcConfig") or {}
    named = ("InstanceCount", "InstanceType", "VolumeKmsKeyId", "VolumeSizeInGB")
    matched = [request["RoleArn"], *(resources.get(name) for name in named)]
    matched += [sorted(vpc.get("SecurityGroupIds", ())), sorted(vpc.get("Subnets", ()))]
    switches = ("EnableInterContainerTrafficEncryption", "EnableNetworkIsolation")
    return json.dumps([*matched, *(bool(request.get(name)) for name in switches)])


class Pools:
    """Every pool of the account."""

    def __init__(self, fleet: Fleet, dials: Dials) -> None:
        self._fleet, self._dials = fleet, dials
        self._available: list[WarmPool] = []

    def claim(self, job: Job) -> list[Machine]:
        """The machines of a pool that matches, if any: they are the job's now, and the pool is Reused."""
        self.expire()
        if job.request.get("EnableManagedSpotTraining"):
            return []
        wanted = key(job.request)
        for pool in self._available:
            if key(pool.job.request) == wanted:
                self._available.remove(pool)
                self._end(pool, Pool.REUSED)
                pool.job.reused_by = job.name
                for machine in pool.machines:
                    machine.owner = job.name
                reverse = self._dials.pool_order == "reversed"
                return pool.machines[::-1] if reverse else pool.machines
        return []

    def retain(self, job: Job) -> None:
        """The job's machines wait from now on."""
        job.pool, job.changed = Pool.AVAILABLE, time.time()
        self._available.append(WarmPool(job, job.machines, time.time() + job.keep_alive_s))

    def update(self, job: Job, seconds: int) -> bool:
        """UpdateTrainingJob: another keep-alive, 0 to release. False where the pool is not Available."""
        self.expire()
        found = self.of(job)
        if found is None:
            return False
        job.request["ResourceConfig"]["KeepAlivePeriodInSeconds"] = seconds
        found.until = job.pool_from + seconds if seconds else 0.0
        self.expire()
        return True

    def of(self, job: Job) -> WarmPool | None:
        """The job's own, while it is Available."""
        return next((pool for pool in self._available if pool.job is job), None)

    def expire(self) -> None:
        """End what is over."""
        for pool in [pool for pool in self._available if pool.until <= time.time()]:
            self._available.remove(pool)
            self._end(pool, Pool.TERMINATED)
            self._fleet.give_back(pool.machines)

    def _end(self, pool: WarmPool, status: Pool) -> None:
        pool.job.pool, pool.job.pool_to = status, time.time()
        pool.job.changed = time.time()
