"""Two gates of one machine under a real watch: the second skips what the first measured, and says so. Anything else measures again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.documents.certificates import WatchRecord, load
from checks.judge.certificates.decision import is_sampled, machine_digest
from checks.process.machine_state import RECORD
from tasks.orchestration.server.server import EmbeddedServer
from tests.flows.driving import gate_of_few_checks, kept
from tests.survival import few_checks

ROOT = Path(__file__).parents[2]
COSTLY = ("cpu.stress",)
# What this check takes is not what is tested.
SHORT = {"cpu.stress": {"seconds": 0.5}}


class Site:
    """A machine with a watch, and a gate file with a few checks, two of which take seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "PRELAUNCH_STATE": str(self.state)}
        python = self.python = few_checks.interpreter(folder / "few-python")
        # A job does not inherit these from the command.
        first, rest = python.read_text().split("\n", 1)
        given = f"export PRELAUNCH_STATE={self.state}"
        python.write_text(f"{first}\n{given}\n{rest}")
        changes = {
            "nodes = 2": "nodes = 1",
            'profile = "quick"': 'profile = "standard"',
            'network = "loopback"': f'network = "loopback"\npython = {json.dumps(str(python))}',
        }
        self.gate_file = few_checks.gate_file(ROOT / "deployments" / "gates" / "local.toml", folder, changes)
        self.rules(24.0)

    def rules(self, valid_for: float) -> None:
        """The policy of gate and watch."""
        path = self.folder / "few.json"
        document = json.loads(path.read_text())
        local = json.loads((ROOT / "checks" / "policies" / "local.json").read_text())["checks"]
        for name in COSTLY:
            short = {"options": {**local[name].get("options", {}), **SHORT[name]}}
            document["checks"][name] = {**local[name], **short, "valid_for": valid_for}
        path.write_text(json.dumps(document))

    def watch(self) -> subprocess.Popen[bytes]:
        """A watch of this machine, once it has made a clean round. On a busy machine the next one may be late. End it."""
        policy = str(self.folder / "few.json")
        words = ("--instance-type", "cpu", "--every", "20", "--policy", policy, "--listen", "")
        argv = (sys.executable, "-m", "checks", "watch", *words)
        started = subprocess.Popen(argv, cwd=ROOT, env=self.environment, stderr=subprocess.DEVNULL)
        while self.rounds() < 1:
            assert started.poll() is None, "the watch ended before its first clean round"
            time.sleep(0.2)
        return started

    def rounds(self) -> int:
        """How many rounds the record has."""
        try:
            return load(WatchRecord, (self.state / RECORD).read_bytes()).rounds
        except FileNotFoundError:
            return 0

    def gate(self) -> dict[str, Any]:
        """The end of a gate that only checks: its id, its verdict and its page."""
        outcome = gate_of_few_checks(self.gate_file, launch=False)
        verdict = kept(self.folder, outcome, "verdict.json")
        return {"gate_id": outcome.gate_id, "html": outcome.html, "verdict": verdict}

    def report(self, result: dict[str, Any]) -> dict[str, Any]:
        """The gate's report as it is kept."""
        path = self.folder / "store" / "gates" / result["gate_id"] / "health_check_metrics.json"
        return dict(json.loads(path.read_text()))

    def measured(self, result: dict[str, Any]) -> set[str]:
        """Which of the costly checks this gate measured, as its report says."""
        return {name for name in COSTLY if self.report(result)["checks"][name]["outcomes"] == ["MEASURED"]}


@pytest.fixture
def site(tmp_path: Path, prefect_backend: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site whose watch runs."""
    few_checks.take_least(monkeypatch, *COSTLY)
    made = Site(tmp_path)
    watch = made.watch()
    try:
        yield made
    finally:
        watch.kill()
        watch.wait()


def certifiable(first: dict[str, Any]) -> set[str]:
    """What the first gate can certify: nothing if it found something, as on a busy machine."""
    found = [one for one in first["verdict"]["findings"] if one["level"] != "PASS"]
    if any(one["level"] == "FAIL" or one["cause"] != "EVIDENCE" for one in found):
        return set()
    return {*COSTLY} - {one["check"] for one in found}


def sampled(site: Site, second: dict[str, Any]) -> set[str]:
    """What the second gate measures all the same."""
    [node] = site.report(second)["nodes"]
    machine = machine_digest(node["identity"])
    return {name for name in COSTLY if is_sampled(second["gate_id"], machine, name)}


@pytest.mark.timeout(600)
def test_the_second_gate_skips_what_the_first_one_measured(site: Site) -> None:
    """The watch, the nodes' checks, the launcher and the store are real."""
    first, second = site.gate(), site.gate()
    verdict = second["verdict"]
    certified = [one for one in verdict["findings"] if one["kind"] == "certified"]
    skipped = certifiable(first) - sampled(site, second)

    assert {*COSTLY} == site.measured(first)
    assert "certified" not in first["verdict"]["coverage"]
    assert {*COSTLY} - skipped == site.measured(second)
    assert skipped == {one["check"] for one in certified}
    if certified:  # but for one gate in a hundred, or on a busy machine
        assert ("WARN", "go") == (verdict["level"], verdict["answer"])
        assert len(certified) == verdict["coverage"]["certified"]
        assert all(one["cause"] == "EVIDENCE" and first["gate_id"] in one["message"] for one in certified)
        assert f"{len(certified)} certified by earlier gates" in Path(second["html"]).read_text()
    assert certifiable(first) == set() or "certificates" in site.report(second)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_check_of_the_node_in_between_or_another_policy_measures_again(site: Site) -> None:
    """The store does not know of what a person ran on the node, but the node does."""
    site.gate()
    argv = ("run", "--profile", "quick", "--instance-type", "cpu", "--policy", str(site.folder / "few.json"))
    subprocess.run(
        (str(site.python), "-m", "checks", *argv, "--out", str(site.folder / "node.json")),
        cwd=ROOT, env=site.environment, capture_output=True, check=False,
    )  # fmt: skip
    between = site.gate()
    site.rules(23.0)
    other = site.gate()

    assert {*COSTLY} == site.measured(between)
    assert {*COSTLY} == site.measured(other)
    assert not any("certified" in one["verdict"]["coverage"] for one in (between, other))
