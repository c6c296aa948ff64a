"""The Kubernetes launcher keeps the contract of all launchers, over a stand-in that really runs the pods. It is a simulation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from checks.documents.decode import decode
from tasks.launchers.base import JobState
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.kubernetes.options import KubernetesOptions
from tests.fakes.kubernetes.cluster import IMAGE, Cluster, kubernetes
from tests.tasks.launchers.contract import CONTRACT, WAIT, Bench, every_node_runs_and_reports, name_of, until
from tests.tasks.store.servers import BUCKET, environment, moto, named


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes."""
    with kubernetes(tmp_path_factory.mktemp("kubernetes")) as made:
        yield made


@pytest.fixture(autouse=True)
def clean(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a node must not get; afterwards nothing of the test's jobs runs."""
    monkeypatch.setenv("PREFECT_API_KEY", "not for nodes")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield
    assert [] == cluster.running()


def bench_of(cluster: Cluster, folder: Path, **changes: Any) -> Bench:
    """Launchers over one cluster."""
    on_volume = changes.get("reports") == "volume"
    # The pods have the checkout's code: to unpack and compile it in each of them was most of these tests' time.
    given = {
        "code": "image", "image": IMAGE, "kubeconfig_file": cluster.kubeconfig, "grace_s": 1.0, "image_minutes": 0.0,
        "poll_seconds": 0.1, **({"folder": str(folder / "shared"), "volume_claim": "shared"} if on_volume else {}), **changes,
    }  # fmt: skip
    options = decode(KubernetesOptions, given, "options")
    return Bench(lambda: KubernetesLauncher(folder / "root", options), folder, 30.0, agent=True)


@pytest.fixture
def launchers(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Benches over the cluster; afterwards none of their jobs is left."""
    made = bench_of(cluster, tmp_path)
    yield lambda **changes: bench_of(cluster, tmp_path, **changes)
    for name in cluster.server.names("configmaps"):
        made.again().cancel(name)


@pytest.mark.parametrize("promise", CONTRACT, ids=name_of)
def test_contract(promise: Callable[[Bench], None], launchers: Callable[..., Bench]) -> None:
    """See tests/tasks/launchers/contract.py."""
    promise(launchers())


def test_indexed_job_with_code_in_a_configmap_reports_to_a_volume(launchers: Callable[..., Bench]) -> None:
    """All that can differ."""
    every_node_runs_and_reports(launchers(reports="volume", workload="indexed", code="configmap"))


def test_reports_come_through_s3(cluster: Cluster, tmp_path: Path) -> None:
    """The pods copy what they write to a bucket (moto over HTTP), with credentials of their own; their logs carry no files.

    While the bucket is not there the job's state is known all the same, and its end is not reported before its reports are.
    """
    before = set(cluster.server.logs)
    with moto() as url, named(url):
        rows = [{"name": name, "value": value} for name, value in environment(url).items()]
        template = tmp_path / "pod.yaml"
        template.write_text(json.dumps({"spec": {"containers": [{"name": "prelaunch", "env": rows}]}}))
        bench = bench_of(
            cluster, tmp_path, reports="s3", prefix=f"s3://{BUCKET}/gates", region="us-east-1", pod_template_file=str(template)
        )  # fmt: skip
        launcher, early = bench.again(), bench.job(WAIT, nodes=1)
        launcher.submit(launcher.plan(early))
        seen = until(launcher, early.name, 30.0, lambda status: status.state is JobState.RUNNING)
        boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket=BUCKET)
        launcher.cancel(early.name)
        every_node_runs_and_reports(bench)
    mine = {pod: rows for pod, rows in cluster.server.logs.items() if pod not in before}
    lines = [line for rows in mine.values() for _, line in rows if "PRELAUNCH_REPORT" in line]

    assert "reports cannot be read now" in seen.detail and "NoSuchBucket" in seen.detail
    assert (len(mine), lines) == (3, [])
