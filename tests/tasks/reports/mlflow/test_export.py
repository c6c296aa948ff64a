"""A gate as a run of MLflow: the names that others have, a value that is missing is no zero, and a server that fails costs seconds."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from checks.documents.report import load
from checks.model import Outcome, Planned, Report, Scope, Value
from checks.process.free_ports import free_port
from tasks.reports.mlflow import export as exports
from tasks.reports.mlflow.export import ExportError, ExportRejected, export, require_address
from tasks.reports.mlflow.run import ARTIFACT, MlflowRun, run_of
from tests.fakes.mlflow import Failure, MlflowServer, mlflow_server
from tests.sample_reports import POLICY, healthy, verdict_of, wrong_sums
from tests.waiting import until

GPUS = ("gpu.inventory", "gpu.memory", "gpu.thermal", "gpu.utilisation")
ARN = "arn:aws:sagemaker:us-west-2:123456789012:mlflow-tracking-server/checks"

START_S = 300.0


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    """A stand-in that serves."""
    with mlflow_server() as made:
        yield made


def report(temperatures: tuple[int | None, ...] = (31, None, 0)) -> Report:
    """Two nodes; node-0 has three GPUs, of which one shows no temperature and one shows zero degrees."""
    made = wrong_sums(healthy(6, 2), "node-1/rank-3")
    values: dict[str, dict[str, Value]] = {
        "gpu.inventory": {"models": ("A", "A", "A"), "driver": ("570",)},
        "gpu.memory": {"memory_total_mib": (100, 100, 100), "memory_used_mib": (1, 2, 3)},
        "gpu.thermal": {"temperature_c": temperatures},
        "gpu.utilisation": {"utilisation_percent": (None, None, 7)},
    }
    first = replace(made.observations[0], subject="node-0", outcome=Outcome.MEASURED)
    rows = [replace(first, check=check, metrics=values[check]) for check in GPUS]
    plan = [Planned(check, Scope.NODE, tuple(values[check])) for check in GPUS]
    return replace(made, plan=(*made.plan, *plan), observations=(*made.observations, *rows))


@functools.cache
def run(gate_id: str = "g-1") -> MlflowRun:
    """The run of that report."""
    made = report()
    return run_of(made, verdict_of(made), POLICY, gate_id)


@pytest.mark.parametrize("fails", [False, True])
def test_an_export_leaves_the_environment_as_it_was(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that a gate on this machine starts inherits it, and MLflow's client of that training would never try again."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "120")
    before, during = dict(os.environ), dict[str, str]()

    def sent(*_: object) -> str:
        during.update(os.environ)
        if fails:
            raise OSError("no route")
        return "run-1"

    monkeypatch.setattr(exports, "_require_packages", lambda uri: None)
    monkeypatch.setattr(exports, "_sent", sent)
    with pytest.raises(ExportError) if fails else contextlib.nullcontext():
        exports.export(run(), "http://127.0.0.1:9", "e")

    assert ("0", "120") == (during["MLFLOW_HTTP_REQUEST_MAX_RETRIES"], during["MLFLOW_HTTP_REQUEST_TIMEOUT"])
    assert before == dict(os.environ)


def test_the_names_are_those_of_the_other_tool_and_ours() -> None:
    """Parameters, tests as 0 or 1, numbers of nodes and GPUs."""
    made = run()

    assert "health-check-2026-11-21-08-00" == made.name
    assert {"total_nodes": "6", "gpus_per_node": "0", "expected_total_gpus": "0", "overall_status": "FAIL",
            "prelaunch_answer": "no_go", "prelaunch_gate_id": "g-1"}.items() <= made.params.items()  # fmt: skip
    assert {
        "test_nccl_communication": 0.0, "node_0_gpu_0_temperature_c": 31.0, "node_0_gpu_1_memory_used_mb": 2.0,
        "prelaunch_nodes_condemned": 1.0, "prelaunch_nodes_observed": 6.0,
    }.items() <= made.metrics.items()  # fmt: skip
    worst, median = (made.metrics[f"prelaunch/compute.gemm/gflops/{one}"] for one in ("worst", "median"))
    assert worst <= median


def test_mlflow_metrics_omit_unmeasured_values() -> None:
    """A GPU without a temperature has none; one of zero degrees has zero."""
    metrics = run().metrics

    assert "node_0_gpu_1_temperature_c" not in metrics
    assert 0.0 == metrics["node_0_gpu_2_temperature_c"]
    known = [name for name in metrics if name.endswith("utilization_percent")]
    assert ["node_0_gpu_2_utilization_percent"] == known


def test_a_run_is_logged_completely(server: MlflowServer) -> None:
    """Experiment, parameters, metrics, the report as it is judged again, and an end; where it is, is said."""
    place = export(run(), server.uri, "checks")
    (made,) = server.runs

    assert {"checks": "1"} == server.experiments
    assert ("FINISHED", "health-check-2026-11-21-08-00") == (made.status, made.name)
    assert (run().params, run().metrics) == (made.params, made.metrics)
    assert report().gate_id == load(made.artifacts[ARTIFACT]).gate_id
    assert f"{server.uri} experiment checks, run {made.run_id}" == place


def test_a_gate_that_is_exported_again_has_one_run(server: MlflowServer) -> None:
    """A step of a flow may run twice; another gate has its own."""
    assert export(run(), server.uri, "checks") == export(run(), server.uri, "checks")
    export(run("g-2"), server.uri, "checks")

    assert ["g-1", "g-2"] == [made.tags["prelaunch.gate_id"] for made in server.runs]


def test_many_metrics_go_in_several_calls(server: MlflowServer) -> None:
    """At most a thousand each, as MLflow takes them."""
    many = replace(run(), metrics={f"m/{place}": float(place) for place in range(2500)})
    export(many, server.uri, "checks")

    assert 2500 == len(server.runs[0].metrics)
    assert 4 == sum("log-batch" in call for call in server.calls)


@pytest.mark.parametrize(
    ("at", "failure"),
    [
        *(("runs/create", failure) for failure in Failure),
        *((at, failure) for at in ("get-by-name", "log-batch", "mlflow-artifacts") for failure in (Failure.ERROR, Failure.RESET)),
        ("get-by-name", Failure.EMPTY),
        ("log-batch", Failure.HANG),
        ("mlflow-artifacts", Failure.REDIRECT),
    ],
)  # fmt: skip
def test_a_server_that_fails_is_an_error_in_time(
    server: MlflowServer, monkeypatch: pytest.MonkeyPatch, at: str, failure: Failure
) -> None:
    """Whatever it does, and wherever: an error with the address and no secret, within the time; no run is called finished."""
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hunter22-of-the-test")
    server.failure, server.at = failure, at
    with pytest.raises(ExportError) as caught:
        export(run(), server.uri, "checks", 1.0)

    assert "hunter22" not in str(caught.value)
    assert "FINISHED" not in [made.status for made in server.runs]


def test_a_server_that_is_not_there_is_an_error() -> None:
    """With what to look at."""
    with pytest.raises(ExportError, match="Check that it runs"):
        export(run(), f"http://127.0.0.1:{free_port()}", "checks")


def test_an_unusable_proxy_is_an_error(server: MlflowServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of `ssh -D` in all_proxy, where nothing listens."""
    for name in ("no_proxy", "NO_PROXY"):  # a Prefect server of this process sets them
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:9")
    with pytest.raises(ExportError, match="proxy variables"):
        export(run(), server.uri, "checks")


def test_a_token_is_sent_and_its_absence_named(server: MlflowServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As MLflow's own client takes it from the environment."""
    server.token = "hunter22-of-the-test"
    with pytest.raises(ExportError, match="MLFLOW_TRACKING_TOKEN"):
        export(run(), server.uri, "checks")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", server.token)
    export(run(), server.uri, "checks")

    assert ["FINISHED"] == [made.status for made in server.runs]


@pytest.mark.parametrize(
    "uri",
    ["", "file:///tmp/mlruns", "sqlite:///x.db", "databricks", "http://", "https://h?x=1", "http://h:port", "arn:aws:s3:::bucket",
     "https://me:hunter22@host", "ftp://host"],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_rejected(uri: str) -> None:
    """Before anybody is asked, and without repeating a password."""
    with pytest.raises(ExportRejected) as caught:
        export(run(), uri, "checks")

    assert "hunter22" not in str(caught.value)


def test_an_arn_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy names it."""
    require_address(ARN)
    monkeypatch.setitem(sys.modules, "sagemaker_mlflow", None)

    with pytest.raises(ExportRejected, match=r"pip install 'prelaunch\[mlflow\]'"):
        export(run(), ARN, "checks")


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
    def ready() -> bool:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            return httpx.get(url, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    until(ready, lambda: log.read_text()[-2000:], START_S, 0.5)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_real_server_takes_a_run_once(uri: str) -> None:
    """All parameters and metrics, the report as its artifact, and an end; exported again it is the same run."""
    place = export(run(), uri, "checks", 60.0)
    again = export(run(), uri, "checks", 60.0)
    run_id = place.rpartition(" ")[2]
    run_of_server = httpx.get(f"{uri}/api/2.0/mlflow/runs/get", params={"run_id": run_id}, timeout=30)
    info, data = (run_of_server.json()["run"][key] for key in ("info", "data"))
    wanted = {"run_id": run_id, "path": "health_check_metrics.json"}
    artifact = httpx.get(f"{uri}/get-artifact", params=wanted, timeout=30).content

    assert place == again
    assert ("FINISHED", run().name) == (info["status"], info["run_name"])
    assert run().params == {one["key"]: one["value"] for one in data["params"]}
    assert run().metrics == {one["key"]: one["value"] for one in data["metrics"]}
    assert report().gate_id == load(artifact).gate_id
