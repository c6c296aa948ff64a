"""GitHub's action and GitLab's job in a repository that has no file of this one: each installs its own Prelaunch and runs a gate."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

import pytest

from tasks.orchestration.server.server import EmbeddedServer
from tests.flows.gates import write_gate
from tests.pipelines.pipeline import fetched, load, play, play_gitlab, without_network
from tests.pipelines.test_pipelines import GITLAB, results

REF = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("node", "code"), [("wrong", 1), ("healthy", 0)])
def test_the_action_runs_in_a_foreign_repository(
    tmp_path: Path, prefect_backend: EmbeddedServer, node: str, code: int
) -> None:
    """It installs the Prelaunch of its own commit and runs that; the repository has a gate file alone."""
    action, work, temp = tmp_path / "_actions", tmp_path / "work", tmp_path / "temp"
    temp.mkdir()
    gate = write_gate(work)
    steps = [
        {
            "uses": f"team/prelaunch/deployments/github@{REF}",
            "with": {"gate-file": gate.name, "check-only": "true"},
        },
        {"name": "Train", "run": "touch trained"},
    ]
    environment = {"FAKE_NODE": node, **prefect_backend.client_environment({}), **without_network(temp)}
    played = play(
        {"steps": steps}, {}, work, environment, {f"team/prelaunch@{REF}": fetched(action / "prelaunch")}
    )

    assert (played.code, (work / "trained").exists()) == (code, code == 0), played.said
    assert played.kept == results(code)
    assert f"command={temp}/prelaunch-environment/bin/prelaunch" in played.output
    assert list(temp.glob("prelaunch-environment/lib/python*/site-packages/flows/cli/gate.py"))


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("node", "code"), [("wrong", 1), ("healthy", 0)])
def test_gitlabs_job_runs_in_a_foreign_project(
    tmp_path: Path, prefect_backend: EmbeddedServer, node: str, code: int
) -> None:
    """Which included the file and has no other of this project."""
    work, number = tmp_path / "work", uuid4().hex
    gate = write_gate(work)
    environment = {
        "FAKE_NODE": node, "CI_JOB_ID": number, "PRELAUNCH": "", "PRELAUNCH_GATE_FILE": gate.name,
        "PRELAUNCH_CHECK_ONLY": "true", "PRELAUNCH_PACKAGE": str(fetched(tmp_path / "prelaunch")),
        **prefect_backend.client_environment({}), **without_network(tmp_path),
    }  # fmt: skip
    try:
        played = play_gitlab(load(GITLAB)[".prelaunch-gate"], work, environment)
        installed = list(Path(f"/tmp/prelaunch-{number}").glob("lib/python*/site-packages/flows/cli/gate.py"))
    finally:
        shutil.rmtree(f"/tmp/prelaunch-{number}", ignore_errors=True)
        Path(f"/tmp/prelaunch-gate-{number}.sh").unlink(missing_ok=True)

    assert (code, results(code), 1) == (played.code, played.kept, len(installed)), played.said
