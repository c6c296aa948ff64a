"""What people hear of an outage of much of a cluster: one notification, and what was found on a node all the same."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml

from checks.process.free_ports import free_port
from tasks.monitoring.config import MonitoringSettings, rendered
from tests.deployments.monitoring.alert_world import Pages, World, get, until
from tests.deployments.monitoring.test_configuration import SETTINGS
from tests.deployments.monitoring.test_rules import ALERTS


@pytest.mark.needs("promtool")
def test_an_outage_of_a_cluster_silences_what_follows_from_it_and_no_finding() -> None:
    """Each alert about what does not come from a node; never one about what was found on it, or about another cluster."""
    [rule] = yaml.safe_load(rendered(SETTINGS)["alertmanager.yml"])["inhibit_rules"]
    [matcher] = rule["target_matchers"]
    silenced = {
        one["alert"]
        for one in ALERTS
        if re.fullmatch(matcher.partition("=~")[2].strip().strip('"'), one["alert"])
    }

    assert (['alertname = "PrelaunchClusterDown"'], ["cluster"]) == (rule["source_matchers"], rule["equal"])
    assert {
        "PrelaunchTargetDown",
        "PrelaunchTargetFlapping",
        "PrelaunchGpusUnmonitored",
        "PrelaunchDcgmFrozen",
        "PrelaunchMetricMissing",
        "PrelaunchWatchStale",
        "PrelaunchRoundIncomplete",
        "PrelaunchTextfileStale",
        "PrelaunchTextfileGone",
    } == silenced


@pytest.mark.needs("prometheus-alertmanager", "unshare")
@pytest.mark.root
def test_an_outage_of_64_nodes_is_one_notification(tmp_path: Path) -> None:
    """The real Alertmanager: of two nodes of another cluster both are named, in one notification as well."""
    port, hook = free_port(), free_port()
    with Pages(("127.0.0.1", hook)) as heard:
        address = f"http://127.0.0.1:{hook}"
        settings = MonitoringSettings(address + "/on-call", address + "/owner", address + "/heartbeat")
        (tmp_path / "alertmanager.yml").write_text(
            rendered(settings)["alertmanager.yml"].replace("group_wait: 10s", "group_wait: 2s")
        )
        program = "prometheus-alertmanager"
        argv = (
            *World.sharing(program), program, f"--config.file={tmp_path / 'alertmanager.yml'}", "--cluster.listen-address=",
            f"--storage.path={tmp_path / 'am'}", f"--web.listen-address=127.0.0.1:{port}", "--web.get-concurrency=16",
            "--web.timeout=30s",
        )  # fmt: skip
        with (
            open(tmp_path / "log", "wb") as log,
            subprocess.Popen(argv, stdout=log, stderr=log, cwd=tmp_path) as running,
        ):
            try:
                until("it is ready", lambda: get(f"http://127.0.0.1:{port}/api/v2/status") != {})
                down = [
                    _alert("PrelaunchTargetDown", cluster, node, job)
                    for cluster, nodes in (("big", range(64)), ("small", range(2)))
                    for node in nodes
                    for job in ("node", "prelaunch-watch")
                ]
                outage = [_alert("PrelaunchClusterDown", "big", "", "")]
                body = json.dumps(down + outage).encode()
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}/api/v2/alerts", body, {"Content-Type": "application/json"}
                )
                urllib.request.urlopen(request, timeout=10).close()
                until("both are heard", lambda: len(heard.posted) >= 2)
            finally:
                running.terminate()
    said = sorted(
        (body["groupLabels"]["alertname"], body["groupLabels"]["cluster"], len(body["alerts"]))
        for _, body in heard.posted
    )

    assert [("PrelaunchClusterDown", "big", 1), ("PrelaunchTargetDown", "small", 4)] == said


def _alert(name: str, cluster: str, node: object, job: str) -> dict[str, object]:
    labels = {
        "alertname": name, "cluster": cluster, "node": f"n{node}", "job": job, "instance": f"n{node}:1", "notify": "on-call"
    }  # fmt: skip
    return {"labels": labels, "annotations": {"summary": "x"}}
