"""`prelaunch site parallelcluster` as a person types it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.flows.cli.conftest import Run
from tests.tasks.parallelcluster.clusters import VARIABLES

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process, in an empty folder, with the variables of a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)

    return lambda *words: run("site", "parallelcluster", *words)


def test_a_configuration_is_written_and_the_commands_are_printed(run: Run, tmp_path: Path) -> None:
    """stdout is a script for a shell: comments and commands; who has yet to validate it is on stderr."""
    code, out, err = run()
    shell = subprocess.run(("sh", "-n"), input=out, text=True, check=False)

    assert (0, 0) == (code, shell.returncode)
    text = (tmp_path / "ml-cluster.yaml").read_text()
    (queue,) = yaml.safe_load(text)["Scheduling"]["SlurmQueues"]
    assert "p5.48xlarge" in queue["ComputeResources"][0].values() and "drained and idle" in text
    create = "create-cluster -n ml-cluster -c ml-cluster.yaml -r us-west-2 --rollback-on-failure false"
    assert f"\npcluster {create}\n" in out
    assert "The printed dry run has ParallelCluster and AWS validate it." in err


@pytest.mark.parametrize(
    ("words", "unset", "name"),
    [
        ((), "INSTANCE", "INSTANCE is not set"),
        (("--out", "/proc/c.yaml"), None, "/proc/c.yaml"),
        (("nowhere.yaml",), None, "nowhere.yaml"),
        (("--name", "0cluster"), None, "--name"),
    ],
)
def test_a_value_that_is_wrong_is_refused_before_anything_is_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], unset: str | None, name: str
) -> None:  # fmt: skip
    """With a line that names it."""
    if unset:
        monkeypatch.delenv(unset)
    code, out, err = run(*words)

    assert (2, "") == (code, out)
    assert name in err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("variable", "value"), [("KEY_PAIR_NAME", b'\xff"\n'), ("INSTANCE", b"p5.48xlarge\nOs: x")]
)
def test_hostile_variables_are_refused_in_one_line_each(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: bytes
) -> None:
    """Also bytes that are no text."""
    monkeypatch.setenv(variable, os.fsdecode(value))
    code, out, err = run()

    assert (2, "", 1, []) == (code, out, err.count("\n"), list(tmp_path.iterdir()))
    assert variable in err
