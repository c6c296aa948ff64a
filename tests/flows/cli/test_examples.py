"""`prelaunch site examples DIR`: the files that a person edits, whole or not at all."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from flows.cli import examples
from flows.cli.main import main
from tests.flows.cli.conftest import Run
from tests.tasks.launchers.sagemaker.left import files_in

DEPLOYMENTS = Path(__file__).parents[3] / "deployments"
NAMED = (
    "gates/local.toml",
    "policies/nvidia.toml",
    "prefect.yaml",
    "server/prelaunch-worker.service",
    "server/runner.env",
    "examples/train_tiny.py",
    "github/action.yml",
    "github/gate-then-train.yml",
    "gitlab/prelaunch.gitlab-ci.yml",
    "ci/gate.sh",
    "slack.toml",
    "iam/orchestrator-jobs.json",
)


def test_the_files_are_those_of_the_installation(tmp_path: Path, run: Run) -> None:
    """In folders that did not exist; stdout has the path of each, one a line."""
    folder = tmp_path / "new" / "deployments"

    code, out, err = run("site", "examples", folder)
    copied = files_in(folder)
    assert (0, [str(folder / name) for name in sorted(copied)]) == (code, sorted(out.splitlines()))
    assert "" == err
    assert [] == [name for name in NAMED if name not in copied]
    assert [] == [name for name, data in copied.items() if data != (DEPLOYMENTS / name).read_bytes()]
    assert os.access(folder / "ci" / "gate.sh", os.X_OK)
    assert os.access(folder / "gates" / "local.toml", os.W_OK)


def test_a_gate_file_works_where_it_was_copied_to(tmp_path: Path, run: Run) -> None:
    """Its policy and its training are found beside it."""
    run("site", "examples", tmp_path / "mine")

    gates = tmp_path / "mine" / "gates"
    code, out, _ = run("plan", gates / "local.toml", "--offline", "--format", "shell")
    assert 0 == code and str(gates / ".." / "examples" / "train_tiny.py") in out


def test_examples_command_never_overwrites_a_file(tmp_path: Path, run: Run) -> None:
    """It stays as it is, also a link that leads nowhere; what is not there yet is written, and twice is once."""
    mine = tmp_path / "policies" / "nvidia.toml"
    mine.parent.mkdir()
    mine.write_text("mine")
    link = tmp_path / "policies" / "neuron.toml"
    link.symlink_to(tmp_path / "elsewhere")

    code, out, err = run("site", "examples", tmp_path)
    assert 0 == code and "mine" == mine.read_text()
    assert str(mine) not in out and not link.exists()
    assert str(tmp_path / "policies" / "local.toml") in out
    assert "prelaunch: 2 of the files were there already, and stay as they are\n" == err
    assert {"written": []} == run("site", "examples", tmp_path, "--format", "json").document


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, run: Run) -> None:
    """With the reason."""
    (tmp_path / "file").write_text("")

    code, _, err = run("site", "examples", tmp_path / "file")
    assert 2 == code and "it cannot be written (Not a directory)" in err
    assert "" == (tmp_path / "file").read_text()


def test_passwords_of_a_server_in_a_checkout_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor what builds the image, which needs the checkout."""
    shipped = tmp_path / "shipped"
    for name in (*examples.LEFT_OUT, "server/server.env", "examples/__pycache__/a.pyc"):
        (shipped / name).parent.mkdir(parents=True, exist_ok=True)
        (shipped / name).write_text("x")
    monkeypatch.setattr(examples, "SHIPPED", shipped)

    assert (Path("server/server.env"),) == examples.examples()


def test_the_workflow_of_github_finds_all_that_it_names(tmp_path: Path) -> None:
    """The copy is complete, and its times leave the gate to end by itself."""
    assert 0 == main(["site", "examples", str(tmp_path / "deployments")])
    text = (tmp_path / "deployments/github/gate-then-train.yml").read_text()
    named = set(re.findall(r"(?<!\w)(?:(?<=\./)|(?<!/))deployments/[\w./-]+", text))
    longest = 0
    for path in (tmp_path / "deployments/gates").glob("*.toml"):
        gate = tomllib.loads(path.read_text())
        waits = gate["cluster"]["options"].get("capacity_wait_minutes", 0)
        longest = max(longest, waits + gate["checks"]["max_runtime_minutes"])
    job, own = map(int, re.findall(r"timeout-minutes: \"?(\d+)", text))

    files = ("github", "gates/local.toml", "examples/train_tiny.py")
    assert {f"deployments/{file}" for file in files} <= named
    assert [] == [name for name in named if not (tmp_path / name).exists()]
    assert 0 < longest < own < job
    for name in ("gates/local.toml", "gates/sagemaker-cpu.toml"):
        assert 0 == main(["plan", str(tmp_path / "deployments" / name), "--offline"])
