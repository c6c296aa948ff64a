"""The same against MLflow's own server: it takes every name, value and file, and shows one run."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from checks.documents.report import load
from checks.process.free_ports import free_port
from tasks.reports.mlflow.export import export
from tests.tasks.reports.mlflow.test_export import report, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
START_S = 300.0


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of this environment's MLflow, on loopback; it and what it started are ended."""
    if importlib.util.find_spec("mlflow.server") is None:
        pytest.skip("not installed: mlflow. Remedy: pip install mlflow")
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    argv = (
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{folder}/runs.sqlite", "--artifacts-destination", str(folder / "artifacts"),
    )  # fmt: skip
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        _until_ready(process, f"http://127.0.0.1:{port}/health", folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def _until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-2000:])


def test_the_real_server_takes_a_run_once(uri: str) -> None:
    """All parameters and metrics, the report as its artifact, and an end; exported again it is the same run."""
    place = export(run(), uri, "checks", 60.0)
    again = export(run(), uri, "checks", 60.0)
    run_id = place.rpartition(" ")[2]
    found: dict[str, Any] = httpx.get(
        f"{uri}/api/2.0/mlflow/runs/get", params={"run_id": run_id}, timeout=30
    ).json()
    info, data = found["run"]["info"], found["run"]["data"]
    artifact = httpx.get(
        f"{uri}/get-artifact", params={"run_id": run_id, "path": "health_check_metrics.json"}, timeout=30
    ).content

    assert place == again
    assert ("FINISHED", run().name) == (info["status"], info["run_name"])
    assert run().params == {one["key"]: one["value"] for one in data["params"]}
    assert run().metrics == {one["key"]: one["value"] for one in data["metrics"]}
    assert report().gate_id == load(artifact).gate_id
