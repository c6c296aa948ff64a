"""A folder with flows/, tasks/, checks/ and tests/ of its own: Prelaunch runs its own code there, from the wheel and from source.

A whole gate of the wheel is in tests/documents/test_readme.py, which runs the README's commands in such a folder.
"""

from __future__ import annotations

import json
import os
import re
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
from tests.documents.test_readme import NODE_RUN, REPORT, SEVERAL
from tests.installation.fresh import ROOT, installed
from tests.installation.hostile import NO_NUMPY, environment, hostile_folder, imported

SOURCE = Path(sys.executable).parent
LOCAL_POLICY = ROOT / "deployments" / "policies" / "local.toml"
__all__ = ["installed"]

PREFECT = str(SOURCE / "prefect")
FILE = str(ROOT / "deployments" / "prefect.yaml")
POOL = "prelaunch"


def run(programs: Path, folder: Path, path: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    """`prelaunch WORDS` in the folder, as a person types it."""
    return subprocess.run(
        (str(programs / "prelaunch"), *words), cwd=folder, env=environment(path, HOME=str(folder)),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


NEW = (
    ("init", "mine.toml", "--engine", "local", "--instance-type", "cpu", "--nodes", "2"),
    ("plan", "mine.toml", "--offline"),
    ("site", "schema", "gate"),
    ("site", "completion", "bash"),
)


# The wheel with the folder on the path: tests/documents/test_readme.py.
@pytest.mark.parametrize(("kind", "path"), [("source", "."), ("wheel", None)])
def test_commands_run_prelaunchs_code(tmp_path: Path, installed: Path, kind: str, path: str | None) -> None:
    """Help, plan, facts, a new gate file and its schema, completion, the checks' own commands, and the files to edit."""
    programs, folder = SOURCE if kind == "source" else installed, hostile_folder(tmp_path / "project")
    shown = run(programs, folder, path, "--help")
    commands = [
        ("plan", "local", "--offline"),
        ("facts", "cpu"),
        ("node", "list"),
        ("site", "examples", "new"),
    ]
    commands += NEW if path is None else ()
    done = subprocess.run(
        (str(programs / "python"), "-c", SEVERAL), cwd=folder, env=environment(path, HOME=str(folder)),
        input=json.dumps([("prelaunch", *words) for words in commands]), capture_output=True, text=True, check=False,
    )  # fmt: skip
    codes = [json.loads(line)[0] for line in done.stdout.splitlines()]

    assert (0, [0] * len(commands)) == (shown.returncode, codes), shown.stderr + done.stderr
    assert [] == imported(folder)
    if path is None:
        schema = (folder / "mine.toml").read_text().splitlines()[0].removeprefix("#:schema file://")
        assert Path(schema).is_file() and (folder / "new" / "schemas" / "policy.schema.json").exists()
    assert os.access(folder / "new" / "ci" / "gate.sh", os.X_OK)
    assert (folder / "new" / "server" / "prelaunch-worker.service").exists()


@pytest.mark.long  # the gate of tests/documents/test_readme.py, from the wheel, starts the same checks in such a folder
@pytest.mark.timeout(200)
def test_this_nodes_checks_are_prelaunchs(tmp_path: Path) -> None:
    """`prelaunch node run` where the checks' processes start in the folder itself: from source, with the folder on PYTHONPATH.

    torch finds no numpy there, either; every check measures without it.
    """
    folder = hostile_folder(tmp_path / "project")
    (folder / "numpy.py").write_text(NO_NUMPY)
    done = run(SOURCE, folder, ".", *NODE_RUN.split()[1:])

    assert (0, []) == (done.returncode, imported(folder)), done.stderr
    assert re.search(r"(\d+) of \1 observations", done.stdout), done.stdout + done.stderr
    judged = run(SOURCE, folder, ".", "judge", REPORT, "--policy", str(LOCAL_POLICY))
    assert (0, []) == (judged.returncode, imported(folder)), judged.stderr


LOAD = """
import sys
from prefect.flows import load_flow_from_entrypoint
for entrypoint in sys.argv[1:]:
    print(load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False).fn.__code__.co_filename)
"""


def test_deployments_load_prelaunchs_flows(tmp_path: Path, installed: Path) -> None:
    """By the entry points of prefect.yaml, from the wheel. From source, deployed and run: tests/deployments/test_prefect_yaml.py."""
    folder = hostile_folder(tmp_path / "project")
    entrypoints = set(re.findall(r"entrypoint: (\S+)", (ROOT / "deployments" / "prefect.yaml").read_text()))
    done = subprocess.run(
        (str(installed / "python"), "-c", LOAD, *sorted(entrypoints)), cwd=folder, env=environment(".", HOME=str(folder)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    flows = next(installed.parent.glob("lib/python*/site-packages")) / "flows"
    files = [str(flows / f"{name}.py") for name in ("commission", "gate", "reap", "remedy")]

    assert ([], files) == (imported(folder), done.stdout.split()), done.stderr


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
def test_a_worker_there_runs_our_flows(tmp_path: Path, server: EmbeddedServer, path: str | None) -> None:
    """A worker that a person starts in such a folder runs Prelaunch's flow, whatever PYTHONPATH says."""
    with project(tmp_path / "project", server, path) as mine:
        run = mine.ordered(mine.deployed()["reap"])
        done = mine.prefect("worker", "start", "--type", "process", "--pool", POOL, "--run-once")

        assert (0, []) == (done.returncode, imported(mine.folder)), done.stdout + done.stderr
        assert "LeftAlone" == mine.state(run)
