"""Deployments from a folder with packages of its own: `prefect deploy`, a worker and its runs use Prelaunch's code, from source.

Without a worker: tests/deployments/test_prefect_yaml.py.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tasks.orchestration.server.server import EmbeddedServer
from tests.installation.fresh import ROOT
from tests.installation.hostile import environment, hostile_folder, imported

PREFECT = str(Path(sys.executable).with_name("prefect"))
FILE = str(ROOT / "deployments" / "prefect.yaml")
POOL = "prelaunch"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template_dir: Path) -> Iterator[EmbeddedServer]:
    """A server of this file: its deployments, with their automations, are nobody else's."""
    made = EmbeddedServer(tmp_path_factory.mktemp("server"), template_dir)
    made.start()
    try:
        made.wait_ready()
        yield made
    finally:
        made.stop()


@dataclass(frozen=True)
class Project:
    """Somebody's project, and the server that a person's environment names there."""

    folder: Path
    api: httpx.Client
    environment: dict[str, str]

    def prefect(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`prefect WORDS` in the folder, as a person types it."""
        return subprocess.run(
            (PREFECT, *words), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def deployed(self) -> dict[str, dict[str, Any]]:
        """The deployments by name, after `prefect deploy` as docs/server.md has it."""
        self.api.post("/work_pools/", json={"name": POOL, "type": "process"})
        done = self.prefect("--no-prompt", "deploy", "--all", "--prefect-file", FILE)
        assert (0, []) == (done.returncode, imported(self.folder)), done.stdout + done.stderr
        return {made["name"]: made for made in self.ask("/deployments/filter", {})}

    def ordered(self, deployment: dict[str, Any]) -> str:
        """The id of a run that reaps a run which does not exist."""
        parameters = {"flow_run_id": str(uuid.uuid4())}
        made = self.ask(f"/deployments/{deployment['id']}/create_flow_run", {"parameters": parameters})
        return str(made["id"])

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        """What the server answers."""
        answer = self.api.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def state(self, run: str) -> str:
        """The name of the run's state."""
        return str(self.api.get(f"/flow_runs/{run}").json()["state_name"])


@contextmanager
def project(folder: Path, server: EmbeddedServer, path: str | None) -> Iterator[Project]:
    """A hostile folder with this PYTHONPATH, or with none."""
    told = server.client_environment({})
    user, _, password = told["PREFECT_API_AUTH_STRING"].partition(":")
    with httpx.Client(base_url=server.url, auth=(user, password), timeout=60, trust_env=False) as api:
        yield Project(hostile_folder(folder), api, environment(path, **told, HOME=str(folder)))


@pytest.mark.long
@pytest.mark.parametrize("path", [None, "."], ids=["no path", "the folder on the path"])
def test_a_worker_there_runs_prelaunchs_flows(
    tmp_path: Path, server: EmbeddedServer, path: str | None
) -> None:
    """A worker that a person starts in such a folder runs Prelaunch's flow, whatever PYTHONPATH says."""
    with project(tmp_path / "project", server, path) as mine:
        run = mine.ordered(mine.deployed()["reap"])
        done = mine.prefect("worker", "start", "--type", "process", "--pool", POOL, "--run-once")

        assert (0, []) == (done.returncode, imported(mine.folder)), done.stdout + done.stderr
        assert "LeftAlone" == mine.state(run)
