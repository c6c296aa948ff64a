"""A HyperPod cluster of three nodes with its Slurm, the back end that asks both, and the environment of its boto3 client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from tasks.launchers.sagemaker.api import Clients, Limits
from tasks.machines.base import Mark
from tasks.machines.hyperpod import ActBy, HyperPodMachines
from tests.fakes.hyperpod import CLUSTER, REGION, HyperPod, hyperpod
from tests.tasks.machines.slurm_fake import FailingSlurm, FakeSlurm
from tests.tasks.store.servers import environment

HOSTS = ("ip-10-0-0-1", "ip-10-0-0-2", "ip-10-0-0-3")
NODE = HOSTS[1]
MARK = Mark("p5-20261125-083000-1f3a", "gpu.ecc")
PATIENT = Limits(connect_s=5.0, read_s=20.0, deadline_s=20.0, pause_s=0.001, longest_pause_s=0.005)
# For servers that never answer, and for questions that are refused for ever.
QUICK = replace(PATIENT, read_s=0.3)
BRIEF = replace(PATIENT, deadline_s=0.2)


@dataclass
class World:
    """`machines` acts by the API, `by_reason` by a reason in Slurm, `deep` by the API and with deep checks."""

    api: HyperPod
    slurm: FakeSlurm
    machines: HyperPodMachines
    by_reason: HyperPodMachines
    deep: HyperPodMachines

    def fenced(self, node: str = NODE) -> None:
        """A node that Prelaunch took out of service."""
        self.slurm.fence(node, MARK)
        self.slurm.acts.clear()

    def limited(self, limits: Limits) -> HyperPodMachines:
        """The back end with other time limits."""
        return HyperPodMachines(CLUSTER, REGION, self.slurm, clients=Clients(REGION, limits, attempts=1))


@contextmanager
def world(patch: pytest.MonkeyPatch) -> Iterator[World]:
    """The cluster, until the end of the block."""
    with hyperpod(HOSTS) as api:
        for key, value in environment(api.url).items():
            patch.setenv(key, value)
        slurm = FailingSlurm.of(*HOSTS)
        clients = Clients(REGION, PATIENT, attempts=1)
        made = [HyperPodMachines(CLUSTER, REGION, slurm, how, clients) for how in (ActBy.API, ActBy.REASON)]
        deep = HyperPodMachines(CLUSTER, REGION, slurm, clients=clients, deep_check=True)
        yield World(api, slurm, made[0], made[1], deep)
