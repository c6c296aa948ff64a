"""`prelaunch monitoring` as a person types it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from checks.process.free_ports import free_port
from flows.cli.main import main
from tests.tasks.monitoring import expositions
from tests.tasks.monitoring.expositions import page, serving

GATES = Path(__file__).parents[3] / "deployments" / "gates"
LOCAL = str(GATES / "local.toml")
P5 = str(GATES / "slurm-p5.toml")
Capture = pytest.CaptureFixture[str]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: Capture) -> Run:
    """The command in this process."""

    def runner(*words: object) -> tuple[int, str, str]:
        code = main(["monitoring", *map(str, words)])
        out, err = capfd.readouterr()
        return code, out, err

    return runner


@pytest.fixture
def targets(run: Run, tmp_path: Path) -> Path:
    """The targets of one CPU node, which is this machine."""
    file = tmp_path / "nodes.json"
    assert (
        0 == run("targets", GATES / "slurm-cpu.toml", "--nodes", "a=127.0.0.1,b=127.0.0.1", "--out", file)[0]
    )
    return file


def test_targets_are_printed_or_replace_a_file(run: Run, tmp_path: Path) -> None:
    """What Prometheus reads meanwhile is the old file or the new one: it is another file, not the old one written over."""
    file = tmp_path / "nodes.json"
    code, out, _ = run("targets", LOCAL)
    run("targets", LOCAL, "--out", file)
    before = file.stat().st_ino, file.read_text()
    assert (0, 2, out) == (code, len(json.loads(out)), before[1])
    code, said, _ = run("targets", P5, LOCAL, "--out", file, "--format", "json", "--nodes", "n1")
    assert (2, before) == (code, (file.stat().st_ino, file.read_text())), said
    code, said, _ = run("targets", P5, "--nodes", "n[1-4]", "--out", file)

    assert (0, f"{file}: 4 nodes\n", 4) == (code, said, len(json.loads(file.read_text())))
    assert before[0] != file.stat().st_ino
    assert [file] == list(tmp_path.iterdir())


def test_a_gate_file_without_nodes_is_refused_with_the_way_to_name_them(run: Run, tmp_path: Path) -> None:
    """And nothing is written; a file that cannot be written is refused as well."""
    code, out, err = run("targets", P5, "--out", tmp_path / "nodes.json")
    assert (2, "", []) == (code, out, list(tmp_path.iterdir()))
    assert "sinfo -h -N -o %N -p PARTITION" in err
    assert 2 == run("targets", LOCAL, "--out", tmp_path / "none" / "nodes.json")[0]
    assert 2 == run("targets", tmp_path / "none.toml")[0]


def test_every_exporter_up_is_zero(run: Run, targets: Path) -> None:
    """One line with the number."""
    now = time.time()
    with (
        serving(page(expositions.watch(now))) as watch,
        serving(page(expositions.node(now))) as node,
        serving(page(expositions.STORE)) as store,
    ):
        ports = ("--port", f"prelaunch-watch={watch}", "--port", f"node={node}")

        assert (0, "5 UP\n", "") == run("verify", targets, *ports, "--exporter", f"127.0.0.1:{store}")


def test_an_exporter_that_is_not_up_is_one(run: Run, targets: Path) -> None:
    """It is named with its state, and so is what it lacks; in JSON as well."""
    now = time.time()
    with serving(page(expositions.watch(now - 1000))) as watch, serving(page("node_uname_info 1\n")) as node:
        ports = (
            "--port",
            f"prelaunch-watch={watch}",
            "--port",
            f"node={node}",
            "--exporter",
            f"127.0.0.1:{free_port()}",
        )
        code, out, _ = run("verify", targets, *ports)
        in_json, document, _ = run("verify", targets, *ports, "--format", "json")

    lines = out.splitlines()
    assert (1, 1, 6, "2 LACKS, 2 STALE, 1 DOWN") == (code, in_json, len(lines), lines[-1])
    assert lines[0].startswith("DOWN   prelaunch-exporter -")
    assert "lacks node_textfile_scrape_error" in out and "the last round ended 1" in out
    assert [["node_textfile_scrape_error"]] * 2 == [
        row["lacks"] for row in json.loads(document)["exporters"] if row["state"] == "LACKS"
    ]


def test_no_exporter_at_all_is_three(run: Run, targets: Path) -> None:
    """Then it may be this machine that reaches no node."""
    ports = ("--port", f"prelaunch-watch={free_port()}", "--port", f"node={free_port()}")
    code, out, _ = run("verify", targets, *ports)

    assert (3, True) == (code, "Look first whether this machine reaches the nodes." in out)


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "no-such-file"),
        ("verify", "TARGETS", "--exporter", "9403"),
        ("verify", "TARGETS", "--slurm", "h:99999"),
        ("verify", "TARGETS", "--port", "gpu=1"),
        ("verify", "TARGETS", "--timeout-s", "0"),
        ("config", "--out", "x", "--on-call", "y", "--owner", "y", "--heartbeat", "y"),
        ("config", "--out", "x", "--alertmanager", "y", "--on-call", "http://y", "--owner", "http://y", "--heartbeat", "http://y"),
    ],
)  # fmt: skip
def test_words_that_are_wrong_are_refused(run: Run, targets: Path, words: tuple[str, ...]) -> None:
    """With exit code 2, before anything is asked or written."""
    assert 2 == run(*(str(targets) if word == "TARGETS" else word for word in words))[0]


def test_a_configuration_is_written_with_its_rules(run: Run, tmp_path: Path) -> None:
    """Again over an older one."""
    hooks = [
        word
        for name in ("on-call", "owner", "heartbeat")
        for word in (f"--{name}", f"http://127.0.0.1/{name}")
    ]
    words = ("config", "--out", tmp_path / "p", *hooks, "--slurm", "c:9341")
    run(*words)
    code, out, err = run(
        *words, "--remote-write", "https://aps/w", "--region", "us-west-2", "--interval-s", "30"
    )

    assert (0, 3) == (code, len(out.splitlines())), err
    found = yaml.safe_load((tmp_path / "p" / "prometheus.yml").read_text())
    assert ("30s", "us-west-2") == (
        found["global"]["scrape_interval"],
        found["remote_write"][0]["sigv4"]["region"],
    )
    assert (tmp_path / "p" / found["rule_files"][0]).is_file()
