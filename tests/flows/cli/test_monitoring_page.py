"""`prelaunch monitoring page` with a real watch: a line in the kernel log, one page, and nothing after that."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from checks.documents import open_findings as documents
from checks.documents.open_findings import FindingKey, OpenFinding, OpenFindings
from checks.model import Action, Cause, Level
from checks.process.free_ports import free_port
from checks.process.machine_state import FINDINGS
from flows.cli.main import main
from tests.checks.watch.test_watch_command import stamp, until, watching

ROOT = Path(__file__).parents[3]
GATES = ROOT / "deployments" / "gates"


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The targets of the local gate file, whose store is here."""
    monkeypatch.chdir(tmp_path)
    text = (GATES / "local.toml").read_text()
    (tmp_path / "gate.toml").write_text(
        text.replace("../policies", str(GATES.parent / "policies")).replace("nodes = 2", "nodes = 1")
    )
    file = tmp_path / "nodes.json"
    assert 0 == main(["monitoring", "targets", "gate.toml", "--out", str(file)])
    return file


def page(capfd: pytest.CaptureFixture[str], targets: Path, port: int, *more: str) -> tuple[int, str, str]:
    capfd.readouterr()
    code = main(["monitoring", "page", "gate.toml", str(targets), "--port", f"prelaunch-watch={port}", *more])
    out, err = capfd.readouterr()
    return code, out, err


def test_what_a_watch_finds_is_told_once(
    tmp_path: Path, targets: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "messages"
    log.write_text(f"{stamp()} node-0 kernel: Linux version 6.1.0\n")
    key = FindingKey("gpu.ecc", "GPU 5", "dram_uncorrected_volatile", Cause.HARDWARE)
    old = OpenFinding(
        key, Level.FAIL, Action.RESET_GPU, "has 3 uncorrectable errors in GPU 5", "Reset it.", True, "watch", time.time(),
        time.time(), 0.0, "b",
    )  # fmt: skip
    with watching(tmp_path, log) as watch:
        page(capfd, targets, watch.port)  # what the test's own log means for the watch is told here
        assert 3 == page(capfd, targets, watch.port)[0], "the kernel log of a test is no evidence"
        known = documents.load((watch.state / FINDINGS).read_bytes())
        (watch.state / FINDINGS).write_bytes(documents.dump(OpenFindings(open=(*known.open, old))))
        until("the watch has read its file", lambda: watch.open_fails())
        code, out, err = page(capfd, targets, watch.port)
        assert 1 == code
        assert "opened gpu.ecc/dram_uncorrected_volatile/GPU 5" in out
        assert "NOTIFICATION local: " in err
        assert "has 3 uncorrectable errors in GPU 5 (between gates)" in err
        code, out, err = page(capfd, targets, watch.port, "--format", "json")
        said = json.loads(out)
        assert (1, "") == (code, err)
        assert [] == said["news"]["opened"]
        assert watch.findings("--close", key.name, "--by", "dana").returncode == 0
        until("the watch sees that it is closed", lambda: not watch.open_fails())
        assert f"closed {key.name}" in page(capfd, targets, watch.port)[1]


def test_a_node_without_a_watch_is_told_after_three_looks(
    targets: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port("127.0.0.1")
    said = [page(capfd, targets, port) for _ in range(4)]

    assert [3] * 4 == [code for code, _, _ in said]
    assert [False, False, True, False] == ["NOTIFICATION" in err for _, _, err in said]


def test_targets_of_another_cluster_are_refused(
    tmp_path: Path, targets: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    targets.write_text(targets.read_text().replace('"cluster": "local"', '"cluster": "other"'))
    code, out, err = page(capfd, targets, 9402)

    assert (2, "") == (code, out)
    assert "no node of cluster local" in err
    assert not [name for name in os.listdir(tmp_path) if name == "store"]
