"""`prelaunch cluster-config` as a person types it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.flows.cli.conftest import Ended, Run
from tests.tasks.parallelcluster.clusters import VARIABLES

ROOT = Path(__file__).parents[3]
PASSES = '{"package": "3.16.1", "refused": []}'
REFUSES = '{"package": "3.16.1", "refused": ["Scheduling: Unknown field."]}'


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process, in an empty folder, with the variables of a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)

    def runner(*words: object, says: str | None = None) -> Ended:
        if says is not None:
            folder = tmp_path.parent / f"{tmp_path.name}-bin"
            folder.mkdir()
            for name in ("python", "pcluster"):
                (folder / name).write_text(f"#!/bin/sh\necho {shlex.quote(says)}\n")
                (folder / name).chmod(0o755)
            monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return run("cluster-config", *words)

    return runner


def test_a_configuration_that_was_validated_is_written_and_the_commands_are_printed(
    run: Run, tmp_path: Path
) -> None:
    """stdout is a script for a shell: comments and commands; what was and was not validated is on stderr."""
    code, out, err = run(says=PASSES)
    shell = subprocess.run(("sh", "-n"), input=out, text=True, check=False)

    assert (0, 0) == (code, shell.returncode)
    assert "p5.48xlarge" in yaml.safe_load((tmp_path / "ml-cluster.yaml").read_text())["Scheduling"]["SlurmQueues"][0][
        "ComputeResources"
    ][0].values()  # fmt: skip
    assert (
        "\npcluster create-cluster -n ml-cluster -c ml-cluster.yaml -r us-west-2 --rollback-on-failure false\n"
        in out
    )
    assert "the schema of aws-parallelcluster 3.16.1 accepts it" in err
    assert "drained and idle" in (tmp_path / "ml-cluster.yaml").read_text()


def test_a_configuration_that_is_refused_is_not_written(run: Run, tmp_path: Path) -> None:
    """An earlier file of that name stays as it was, and no command is printed."""
    (tmp_path / "c.yaml").write_text("old")
    code, out, err = run("--out", "c.yaml", says=REFUSES)

    assert (1, "", "old") == (code, out, (tmp_path / "c.yaml").read_text())
    assert "aws-parallelcluster 3.16.1 refuses: Scheduling: Unknown field." in err
    assert "c.yaml was not written. The file of that name is an older one." in err
    assert {"c.yaml"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("says", [None, "", "{}"])
def test_a_configuration_that_nothing_validated_is_written_with_an_exit_code_of_its_own(
    run: Run, tmp_path: Path, says: str | None
) -> None:
    """Without ParallelCluster, and with one that gives no answer."""
    code, _, err = run("--out", "c.yaml", says=says)

    assert 3 == code
    assert "was NOT validated" in err
    assert (tmp_path / "c.yaml").is_file()


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


@pytest.mark.parametrize("variables", [{"KEY_PAIR_NAME": b'\xff"\n'}, {"INSTANCE": b"p5.48xlarge\nOs: x"}])
def test_hostile_variables_are_refused_in_one_line_each(
    tmp_path: Path, variables: Mapping[str, bytes]
) -> None:
    """Bytes that are no text come through the real environment."""
    environment = {
        **{name.encode(): value.encode() for name, value in VARIABLES.items()},
        b"PATH": b"/usr/bin:/bin",
    }
    environment |= {name.encode(): value for name, value in variables.items()} | {b"PYTHONPATH": bytes(ROOT)}
    done = subprocess.run(
        (sys.executable, "-m", "flows.cli.main", "cluster-config"), cwd=tmp_path, env=environment,
        capture_output=True, check=False,
    )  # fmt: skip

    assert (2, b"", 1) == (done.returncode, done.stdout, done.stderr.count(b"\n"))
    assert next(iter(variables)).encode() in done.stderr
    assert [] == list(tmp_path.iterdir())
