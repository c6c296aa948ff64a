"""`prelaunch fleet export`: the run that it makes, what it rejects before anybody is asked, and a server that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.process.free_ports import free_port
from flows.cli.main import main
from tests.fakes.mlflow import mlflow_server
from tests.flows.cli.conftest import Run
from tests.flows.cli.test_main import judge_words
from tests.sample_reports import healthy


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command on a healthy report."""
    return ["fleet", "export", *judge_words(tmp_path, healthy())[1:]]


def test_a_report_becomes_a_run(words: list[str], run: Run) -> None:
    """The words of the other tool are taken; the address of the run is the result."""
    with mlflow_server() as server:
        flags = ["--mlflow-uri", server.uri, "--mlflow-experiment-name", "sagemaker-cluster-test"]
        ended, again = run(*words, *flags), run(*words, *flags, "--format", "json")

    assert (0, 0) == (ended.code, again.code)
    assert f" run {server.runs[0].run_id}\n" in ended.out
    assert ["PASS"] == [made.params["overall_status"] for made in server.runs]
    assert ended.out.strip() == again.document["run"]
    assert {"sagemaker-cluster-test"} == set(server.experiments)


def test_the_address_may_come_from_the_environment(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As MLflow's own client takes it; the experiment is that of the other tool."""
    with mlflow_server() as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        assert 0 == main(words)

    assert {"sagemaker-health-checks"} == set(server.experiments)


def test_export_rejects_a_file_that_is_no_report(tmp_path: Path) -> None:
    """Nothing is exported of it."""
    (tmp_path / "x.json").write_text("{")

    for name in ("x.json", "none.json"):
        assert 2 == main(["fleet", "export", str(tmp_path / name), "--mlflow-uri", "http://127.0.0.1:9"])


def test_a_server_that_is_not_there_is_a_service_error(words: list[str], run: Run) -> None:
    """Exit code 5."""
    code, _, err = run(*words, "--mlflow-uri", f"http://127.0.0.1:{free_port()}")
    assert 5 == code and "Check that it runs" in err
