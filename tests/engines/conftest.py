"""One Slurm cluster for all tests of this folder, which one worker runs, and another one whose nodes can be rebooted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.slurm_cluster import SlurmCluster, running_cluster
from tests.engines.slurm_reboots import RebootingCluster
from tests.waiting import until


@pytest.fixture(scope="session")
def running_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Four nodes."""
    with running_cluster(SlurmCluster, tmp_path_factory.mktemp("slurm"), 4) as cluster:
        yield cluster


@pytest.fixture
def slurm(running_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """The cluster, whose commands this process has on its PATH; afterwards no job of the test is left."""
    monkeypatch.setenv("PATH", running_slurm.path)
    yield running_slurm
    running_slurm.run("scancel", "--user=root", check=False)
    running_slurm.until_idle()


@pytest.fixture(scope="session")
def running_reboots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RebootingCluster]:
    """Three nodes that can be rebooted."""
    with running_cluster(RebootingCluster, tmp_path_factory.mktemp("reboots"), 3) as cluster:
        yield cluster


@pytest.fixture
def reboots(running_reboots: RebootingCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RebootingCluster]:
    """These nodes; afterwards all of them wait for work, no job is left, and nothing is reserved."""
    cluster = running_reboots
    monkeypatch.setenv("PATH", cluster.path)
    yield cluster
    cluster.run("scancel", "--user=root", check=False)
    cluster.reboots()
    until(lambda: not cluster.run("squeue", "-h"))
    for line in cluster.run("scontrol", "show", "reservation", "--oneliner").splitlines():
        if line.startswith("ReservationName="):
            cluster.run("scontrol", "delete", line.split()[0])
    for node in cluster.nodes:
        cluster.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
    cluster.until_idle()
