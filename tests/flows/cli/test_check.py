"""`prelaunch check`: this node's checks, without an engine; interrupted, it leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from checks.command_line import PlaceError
from checks.documents.report import load
from flows.cli import check
from flows.cli.main import main
from tasks.reports.local_check import undeclared_error
from tests.flows.cli.conftest import Run
from tests.survival import few_checks

ROOT = Path(__file__).parents[3]
# Every check of the catalogue runs, without an engine, in tests/installation/test_hostile_places.py; here a few do.
SCRIPT = """
import sys
from flows.cli.main import main
from tests.survival import few_checks
if "few.json" in " ".join(sys.argv):
    few_checks.choose()
code = main(sys.argv[1:])
loaded = [name for name in ("prefect", "torch", "boto3") if name in sys.modules]
sys.exit(f"imported {loaded}" if loaded else code)
"""


def start(*words: str) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    argv = (sys.executable, "-c", SCRIPT, "check", *words)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_this_machine_is_checked(tmp_path: Path) -> None:
    """A line a check on stderr, the verdict on stdout, the report in a file, and no Prefect."""
    out, policy = tmp_path / "report.json", tmp_path / "few.json"
    policy.write_text(json.dumps(few_checks.policy_document()))
    child = start("--instance-type", "cpu", "--policy", str(policy), "--out", str(out), "--format", "json")
    said, ticks = child.communicate()
    report, verdict = load(out.read_bytes()), json.loads(said)
    planned = {line.check for line in report.plan if line.skip is None}

    assert {0: "go", 1: "no_go", 3: "cannot_tell"}[child.returncode] == verdict["answer"], ticks
    assert planned == set(re.findall(r"^. +\d+/\d+ (\S+)", ticks, re.MULTILINE))
    assert {"observed": 1, "declared": 1} == verdict["coverage"]["nodes"]


def test_interrupted_it_ends_every_check() -> None:
    """At once, whatever deadlines they have; no process of it lives on."""
    child = start("--instance-type", "cpu", "--profile", "deep")
    assert child.stderr is not None
    for line in child.stderr:
        if " 1/" in line:
            break
    child.send_signal(signal.SIGINT)
    child.communicate()

    assert 130 == child.returncode


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--instance-type: name the instance type that this machine should be"),
        (["--instance-type", "p5.48xlrge"], "Did you mean 'p5.48xlarge'?"),
        (["--instance-type", "cpu", "--out", "/nowhere/report.json"], "/nowhere/report.json"),
        (["--instance-type", "cpu", "--html", "/nowhere/page.html"], "/nowhere/page.html"),
        (["--instance-type", "cpu", "--policy", "/nowhere.toml"], "/nowhere.toml"),
        (["--instance-type", "our-h200"], "is not a known instance type. Known are cpu, m5.*"),
        (
            ["--instance-type", "cpu", "--policy", "deployments/policies/neuron.toml"],
            "deployments/policies/neuron.toml: instance_types: the policy is not for instance type cpu, but for inf2.24xlarge, ",
        ),
    ],
)
def test_a_wrong_request_is_rejected_before_anything_runs(
    words: list[str], said: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2, and one document where JSON was asked."""
    monkeypatch.setattr(check, "check_node", lambda *_: pytest.fail("it ran"))
    ended = run("check", *words, "--format", "json")

    assert (2, {"error"}) == (ended.code, set(ended.document))
    assert said in ended.err


@pytest.mark.parametrize(
    ("product", "seen", "near"),
    [
        ("p5.48xlarge\n", "p5.48xlarge", "p5.48xlarge"),
        ("p5.48xlarg\n", "p5.48xlarg", "p5.48xlarge"),
        ("PowerEdge XE9680\n", "PowerEdge XE9680", None),
        (None, "", None),
    ],
)
def test_firmware_product_name_is_a_hint_in_the_undeclared_error(
    tmp_path: Path, product: str | None, seen: str, near: str | None
) -> None:
    """It is shown, and never taken for a declaration."""
    if product is not None:
        (tmp_path / "product_name").write_text(product)
    error = undeclared_error(tmp_path / "product_name")

    assert near == error.nearest
    assert seen in error.message and ("firmware" in error.message) is bool(seen)


def test_raised_numbers_reach_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they were typed."""
    given: list[object] = []

    def check_node(*arguments: object) -> None:
        given.extend(arguments)
        raise PlaceError("far enough")

    monkeypatch.setattr(check, "check_node", check_node)
    code = main(["check", "--instance-type", "cpu", "--option", "training.smoke.steps=200"])

    assert (3, ("training.smoke.steps=200",)) == (code, given[-1])
