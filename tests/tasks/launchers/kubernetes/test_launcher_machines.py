"""Which machines a job ran on, as the API server of the stand-in says it. It is a simulation."""

from __future__ import annotations

from tests.fakes.kubernetes.cluster import Cluster
from tests.tasks.launchers.contract import WAIT
from tests.tasks.launchers.kubernetes.jobs import Make, job, started


def test_the_boot_that_the_kubelet_reports_is_kept_for_each_start(cluster: Cluster, make: Make) -> None:
    """A node may be rebooted below a pod: what the kubelet said before would make a healthy node a liar. Without the right to ask,
    only the node is known; after the end it is known without asking.
    """
    launcher, spec = started(make(), job(WAIT, nodes=1))
    before = launcher.state(spec.name).machines["node-0"]
    cluster.server.denied.add(("get", "nodes"))
    unseen = make().state(spec.name).machines["node-0"]
    cluster.server.denied.clear()
    (name,) = cluster.server.names("pods")
    with cluster.server.lock:
        cluster.server.objects["nodes"][before["engine_node"]]["status"]["nodeInfo"]["bootID"] = "another"
    unchanged = launcher.state(spec.name).machines["node-0"]
    with cluster.server.lock:
        cluster.server.objects["pods"][name]["status"]["containerStatuses"][0]["restartCount"] = 1
    after = launcher.state(spec.name).machines["node-0"]
    launcher.cancel(spec.name)

    assert unseen == {"engine_node": before["engine_node"]}
    assert (before["engine_boot_id"], after["engine_boot_id"]) == (cluster.boot_id, "another")
    assert unchanged == before  # asked once per start
