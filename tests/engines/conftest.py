"""One Slurm cluster for all tests of this folder, which one worker runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.slurm_cluster import SlurmCluster, slurm_cluster, unavailable


@pytest.fixture(scope="session")
def running_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Four nodes."""
    if why := unavailable():
        pytest.skip(why)
    with slurm_cluster(tmp_path_factory.mktemp("slurm"), 4) as cluster:
        yield cluster


@pytest.fixture
def slurm(running_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """The cluster, whose commands this process has on its PATH; afterwards no job of the test is left."""
    monkeypatch.setenv("PATH", running_slurm.path)
    yield running_slurm
    running_slurm.run("scancel", "--user=root", check=False)
    running_slurm.until_idle()
