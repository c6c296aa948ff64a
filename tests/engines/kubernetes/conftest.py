"""One cluster of Kubernetes for all tests of this folder, which one worker runs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.engines.kubernetes.cluster import (
    BUILD,
    BUILT,
    PROGRAMS,
    KubernetesCluster,
    kubernetes_cluster,
    unavailable,
)

SIMULATED = "00000000-1111-2222-3333-444444444444"


@pytest.fixture(scope="session")
def running_kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """Two nodes for all tests, and a third one, cordoned, whose kubelet reports a boot id that is simulated."""
    if not all((BUILT / "bin" / name).exists() for name in PROGRAMS):
        argv = (str(BUILD), str(BUILT))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=3000, check=False)
        if done.returncode:
            pytest.skip(f"Kubernetes cannot be built here: {done.stderr[-500:]}")
    if why := unavailable():
        pytest.skip(why)
    with kubernetes_cluster(tmp_path_factory.mktemp("kubernetes"), 3, {2: SIMULATED}) as cluster:
        cluster.kubectl("cordon", "worker-2")
        yield cluster


@pytest.fixture
def cluster(running_kubernetes: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """The cluster; afterwards nothing of the test is left."""
    yield running_kubernetes
    running_kubernetes.clean()
