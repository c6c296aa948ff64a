"""The Kubernetes back end for machines on a real API server, scheduler and kubelets (1.20.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.launchers.base import JobState
from tasks.launchers.kubernetes.api import Api
from tasks.machines.base import ActRefused, Holder, Mark, ServiceState
from tasks.machines.kubernetes import KubernetesMachines
from tests.engines.kubernetes.benches import bench, launcher
from tests.engines.kubernetes.cluster import KubernetesCluster
from tests.tasks.launchers.contract import SAY, until, until_final

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(3600)]
MARK = Mark("gate-1", "gpu.ecc")


def test_a_fenced_node_runs_only_our_retest_and_serves_again_once_it_is_freed(
    cluster: KubernetesCluster, tmp_path: Path
) -> None:
    """The scheduler keeps other pods off it; what was cordoned by somebody else stays so."""
    machines = KubernetesMachines(api=Api("default", cluster.kubeconfig))
    before = machines.by_name()
    machines.fence("worker-1", MARK)
    try:
        one, spec = launcher(cluster, tmp_path), bench(cluster, tmp_path).job(SAY)
        one.submit(one.plan(spec))
        waiting = until(one, spec.name, 60.0, lambda status: "waits for a node" in status.detail)
        one.cancel(spec.name)

        place = machines.open_retest("worker-1", ("worker-0",), MARK)
        testing = machines.by_name()
        retest, again = launcher(cluster, tmp_path, **dict(place.options)), bench(cluster, tmp_path).job(SAY)
        retest.submit(retest.plan(again))
        ended = until_final(retest, again.name, 90.0)
        machines.close_retest("worker-1", MARK)
    finally:
        machines.free("worker-1", MARK)
    after = machines.by_name()
    with pytest.raises(ActRefused, match="somebody who cordoned it"):
        machines.fence("worker-2", MARK)

    assert waiting.state is JobState.PENDING
    assert testing["worker-1"].service is ServiceState.TESTING
    assert testing["worker-0"].holder is Holder.PRELAUNCH
    assert ended.state is JobState.SUCCEEDED
    assert {said["engine_node"] for said in ended.machines.values()} == {"worker-0", "worker-1"}
    first, last = ([(row.service, row.status) for row in rows.values()] for rows in (before, after))
    assert first == last
