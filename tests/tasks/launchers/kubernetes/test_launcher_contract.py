"""The Kubernetes launcher keeps the contract of all launchers, over a stand-in that really runs the pods. It is a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.kubernetes.options import KubernetesOptions, Reports, Workload
from tests.fakes.kubernetes.cluster import IMAGE, Cluster, kubernetes
from tests.tasks.launchers.contract import CONTRACT, Bench, name_of


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes."""
    with kubernetes(tmp_path_factory.mktemp("kubernetes")) as made:
        yield made


@pytest.fixture(params=["logs", "volume", "indexed"])
def bench(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """Launchers over one cluster; afterwards nothing of their jobs runs."""
    monkeypatch.setenv("PREFECT_API_KEY", "not for nodes")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    on_volume, indexed = request.param == "volume", request.param == "indexed"
    options = KubernetesOptions(
        IMAGE,
        kubeconfig_file=cluster.kubeconfig,
        workload=Workload.INDEXED if indexed else Workload.JOBS,
        reports=Reports.VOLUME if on_volume else Reports.LOGS,
        folder=str(tmp_path / "shared") if on_volume else "",
        volume_claim="shared" if on_volume else "",
        grace_s=1.0,
        image_minutes=0.0,
        poll_seconds=0.1,
    )
    yield Bench(lambda: KubernetesLauncher(tmp_path / "root", options), tmp_path, 30.0, agent=True)
    for name in cluster.server.names("configmaps"):
        KubernetesLauncher(tmp_path / "root", options).cancel(name)
    assert [] == cluster.running()


@pytest.mark.parametrize("promise", CONTRACT, ids=name_of)
def test_contract(promise: Callable[[Bench], None], bench: Bench) -> None:
    """See tests/tasks/launchers/contract.py."""
    promise(bench)
