"""`prelaunch site monitoring` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.flows.cli.conftest import Run

GATES = Path(__file__).parents[3] / "deployments" / "gates"
LOCAL = str(GATES / "local.toml")
P5 = str(GATES / "slurm-p5.toml")


@pytest.fixture
def run(run: Run) -> Run:
    """The command in this process."""
    return lambda *words: run("site", "monitoring", *words)


def test_targets_are_printed_or_replace_a_file(run: Run, tmp_path: Path) -> None:
    """What Prometheus reads meanwhile is the old file or the new one: it is another file, not the old one written over."""
    file = tmp_path / "nodes.json"
    code, out, _ = run("targets", LOCAL)
    run("targets", LOCAL, "--out", file)
    before = file.stat().st_ino, file.read_text()
    assert (0, 2, out) == (code, len(json.loads(out)), before[1])
    code, said, _ = run("targets", P5, LOCAL, "--out", file, "--nodes", "n1")
    assert (2, before) == (code, (file.stat().st_ino, file.read_text())), said
    code, said, _ = run("targets", P5, "--nodes", "n[1-4]", "--out", file)

    assert (0, f"{file}: 4 nodes\n", 4) == (code, said, len(json.loads(file.read_text())))
    assert before[0] != file.stat().st_ino
    assert [file] == list(tmp_path.iterdir())


def test_a_gate_file_without_nodes_is_refused_with_the_way_to_name_them(run: Run, tmp_path: Path) -> None:
    """And nothing is written; a file that cannot be written is refused as well."""
    code, out, err = run("targets", P5, "--out", tmp_path / "nodes.json")
    assert (2, "", []) == (code, out, list(tmp_path.iterdir()))
    assert "sinfo --all -h -N -o %N -p PARTITION" in err
    assert 2 == run("targets", LOCAL, "--out", tmp_path / "none" / "nodes.json")[0]
    assert 2 == run("targets", tmp_path / "none.toml")[0]


@pytest.mark.parametrize(
    "words",
    [
        ("targets",),
        ("config", "--port", "gpu=1"),
        ("config", "--out", "x", "--on-call", "y", "--owner", "y", "--heartbeat", "y"),
        ("config", "--out", "x", "--alertmanager", "y", "--on-call", "http://y", "--owner", "http://y", "--heartbeat", "http://y"),
    ],
)  # fmt: skip
def test_words_that_are_wrong_are_refused(run: Run, words: tuple[str, ...]) -> None:
    """With exit code 2, before anything is written."""
    assert 2 == run(*words)[0]


def test_a_configuration_is_written_with_its_rules(run: Run, tmp_path: Path) -> None:
    """Again over an older one."""
    url = "http://127.0.0.1/"
    hooks = ("--on-call", f"{url}a", "--owner", f"{url}b", "--heartbeat", f"{url}c")
    words = ("config", "--out", tmp_path / "p", *hooks, "--slurm", "c:9341")
    run(*words)
    code, out, err = run(*words, "--remote-write", "https://aps/w", "--region", "us-west-2")

    assert (0, 3) == (code, len(out.splitlines())), err
    found = yaml.safe_load((tmp_path / "p" / "prometheus.yml").read_text())
    assert "15s" == found["global"]["scrape_interval"]
    assert "us-west-2" == found["remote_write"][0]["sigv4"]["region"]
    assert (tmp_path / "p" / found["rule_files"][0]).is_file()
