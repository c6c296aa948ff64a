"""The Kubernetes launcher keeps the contract of all launchers, over a real API server and kubelets (1.20.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.engines.kubernetes.benches import bench
from tests.engines.kubernetes.cluster import KubernetesCluster
from tests.tasks.launchers.contract import CONTRACT, name_of

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module", params=["logs", "volume"])
def promises(
    request: pytest.FixtureRequest,
    running_kubernetes: KubernetesCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[str, Future[None]]]:
    """A few of them at the same time, each with a folder of its own; the volume is a folder of the machine."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(3) as pool:
        patch.setenv("PREFECT_API_KEY", "not for nodes")
        patch.delenv("OMP_NUM_THREADS", raising=False)
        made = {}
        for promise in CONTRACT:
            folder = tmp_path_factory.mktemp("contract")
            volume = {"reports": "volume", "folder": str(folder / "shared")}
            on_volume = volume if request.param == "volume" else {}
            made[name_of(promise)] = pool.submit(promise, bench(running_kubernetes, folder, **on_volume))
        yield made
    running_kubernetes.clean()


@pytest.mark.parametrize("promise", [name_of(promise) for promise in CONTRACT])
def test_contract(promise: str, promises: Mapping[str, Future[None]]) -> None:
    """See tests/tasks/launchers/contract.py."""
    promises[promise].result(timeout=600)
