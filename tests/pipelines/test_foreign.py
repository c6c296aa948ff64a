"""GitHub's action and GitLab's job in a repository that has no file of this one: each installs its own Prelaunch and runs a gate."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from checks.version import ENGINE
from tasks.orchestration.server.server import EmbeddedServer
from tests.flows.gates import write_gate
from tests.pipelines.pipeline import ROOT, fetched, load, play, play_gitlab, without_network
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


def _install(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "RUNNER_TEMP": str(folder), **environment}
    script = folder / "deployments" / "ci" / "install.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / script.relative_to(folder), script)
    return subprocess.run([script], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PRELAUNCH_EXTRAS": "torch]; touch x #"}, "extras are names"),
        ({"PRELAUNCH_PYTHON": "/bin/false"}, "is not Python 3.11 or newer"),
        ({"PRELAUNCH_EXTRAS": "torch", "PRELAUNCH_PACKAGE": "./x.whl"}, "a package names its extras itself"),
    ],
)
def test_install_script_refuses_what_it_cannot_install(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    """Before anything is written; no value becomes code."""
    (tmp_path / "pyproject.toml").write_text("")
    done = _install(tmp_path, **environment)

    assert 2 == done.returncode and said in done.stderr
    assert ["deployments", "pyproject.toml"] == sorted(path.name for path in tmp_path.iterdir())


# Plays an interpreter and pip: it writes down what is to be installed.
PYTHON = """#!/bin/sh
case "$*" in
    *venv*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    *install*) echo "$@" >>asked; exit $FAKE_PIP ;;
esac
"""


@pytest.mark.parametrize(
    ("checkout", "environment", "asked"),
    [
        (False, {}, ["prelaunch=={release}"]),
        (False, {"PRELAUNCH_EXTRAS": "torch"}, ["prelaunch[torch]=={release}"]),
        (False, {"PRELAUNCH_PACKAGE": "./x.whl[torch]"}, ["./x.whl[torch]"]),
        (True, {"PRELAUNCH_EXTRAS": "torch"}, ["torch", "{root}[torch]"]),
        (True, {}, ["{root}"]),
    ],
)
def test_install_script_installs_the_checkout_or_the_matching_release(
    tmp_path: Path, checkout: bool, environment: dict[str, str], asked: list[str]
) -> None:
    """Or what was named; a checkout alone has the versions that it was tested with."""
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    for name in ("pyproject.toml", "constraints.txt") if checkout else ():
        (tmp_path / name).write_text("")
    named = {"PRELAUNCH_PYTHON": str(tmp_path / "python"), "GITHUB_OUTPUT": str(tmp_path / "output")}
    done = _install(tmp_path, **named, **environment, FAKE_PIP="0")
    refused = _install(tmp_path, **named, **environment, FAKE_PIP="1")
    lines = (tmp_path / "asked").read_text().splitlines()[: len(asked)]

    assert (0, 2) == (done.returncode, refused.returncode), done.stderr
    assert [one.format(release=ENGINE, root=tmp_path) for one in asked] == [
        line.split()[-1] for line in lines
    ]
    assert all(("--constraint" in line) is checkout for line in lines)
    assert "Name a package (package, PRELAUNCH_PACKAGE)" in refused.stderr
    assert "command=" in (tmp_path / "output").read_text()
