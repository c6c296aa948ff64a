"""`prelaunch check`: this node's checks, without an engine; interrupted, it leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from checks.bundle import Bundle, plan_of
from checks.documents.report import dump, load
from checks.model import ErrorKind, Outcome, Profile, Report
from checks.runner.node_context import PlaceError
from flows.cli import check
from flows.cli.main import main
from tasks.reports import local_check
from tasks.reports.local_check import undeclared_error
from tasks.reports.read import declared_of
from tests.sample_reports import POLICY, healthy, with_metric, with_row, without_row, wrong_sums
from tests.survival import few_checks

ROOT = Path(__file__).parents[3]
# Every check of the catalogue runs, without an engine, in tests/installation/test_hostile_folder.py; here a few do.
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
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2, and one document where JSON was asked."""
    monkeypatch.setattr(check, "check_node", lambda *_: pytest.fail("it ran"))
    before = signal.getsignal(signal.SIGTERM)
    code = main(["check", *words, "--format", "json"])
    signal.signal(signal.SIGTERM, before)
    told = capsys.readouterr()

    assert (2, {"error"}) == (code, set(json.loads(told.out)))
    assert said in told.err


@pytest.mark.parametrize(
    ("product", "seen", "near"),
    [
        ("p5.48xlarge\n", "p5.48xlarge", "p5.48xlarge"),
        ("p5.48xlarg\n", "p5.48xlarg", "p5.48xlarge"),
        ("PowerEdge XE9680\n", "PowerEdge XE9680", None),
        (None, "", None),
    ],
)
def test_what_the_firmware_says_is_a_hint(
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


def part_of(report: Report, *names: str) -> Report:
    """What a run of these checks alone leaves."""
    rows = tuple(row for row in report.observations if row.check in names)
    return replace(report, plan=tuple(line for line in report.plan if line.check in names), observations=rows)


ONE = healthy(1, 2)


@pytest.mark.parametrize(
    ("report", "names", "first", "code"),
    [
        (ONE, ("system.clock",), "system.clock passed", 3),
        (ONE, ("system.clock", "compute.gemm"), "2 of 2 checks passed", 3),
        (with_metric(ONE, "system.clock", "node-0", "wall_rate", 1.5), ("compute.gemm", "system.clock"),
         "1 of 2 checks passed; system.clock failed: node-0 has a clock that runs at 1.5 times the real speed, threshold 1.1", 1),
        (with_metric(ONE, "system.clock", "node-0", "synchronised", False), ("system.clock",),
         "system.clock warns: node-0: synchronised is False, it must be True (system.clock)", 3),
        (without_row(ONE, "system.clock", "node-0"), ("system.clock",), "system.clock cannot tell", 3),
        (with_row(ONE, "compute.gemm", "node-0/rank-1", lambda row: replace(
            row, outcome=Outcome.ERRORED, metrics={}, reason="it hung", error_kind=ErrorKind.DEADLINE)), ("compute.gemm",),
         "compute.gemm cannot tell: node-0, rank 1: compute.gemm was not measured: it hung", 3),
        # What another check would say is nobody's business here.
        (wrong_sums(ONE, "node-0/rank-1"), ("system.clock",), "system.clock passed", 3),
    ],
)  # fmt: skip
def test_one_check_alone_is_no_gate(
    report: Report, names: tuple[str, ...], first: str, code: int,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The first line says so and what was found, and no exit code is that of a GO."""
    monkeypatch.setattr(check, "run_part", lambda *_: part_of(report, *names))
    monkeypatch.setattr(check, "policy_of", lambda _: POLICY)
    monkeypatch.setattr(check, "require_policy_for", lambda *_: None)
    words = ["check", "--instance-type", "cpu", "--only", ",".join(names)]

    assert code == main(words)
    out = capsys.readouterr().out
    assert out.startswith(f"PARTIAL CHECK, NO GATE: {first}"), out
    assert f"exit code {code}" in out and "GO " not in out.replace("NO GATE", "").replace("no GO", "")
    assert code == main([*words, "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    measured = {row.check for row in report.observations if row.outcome is Outcome.MEASURED} & {*names}
    assert measured >= {one["check"] for one in document["checks"] if one["measured"]}
    assert all(f"{name} on node-0" in out for name in measured)
    assert (None, list(names), None) == (
        document["answer"],
        [one["check"] for one in document["checks"]],
        document["error"],
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "system.clok"], "Did you mean 'system.clock'?"),
        (["--only", "disk.io"], "disk.io is not in profile quick. Add --profile "),
        (["--only", "gpu.inventory"], "gpu.inventory is not for instance type cpu: no GPU declared"),
        (["--only", ","], "it names no check"),
        (["--only", "system.clock", "--out", "report.json"], "--out: not with --only"),
        (["--only", "system.clock", "--html", "page.html"], "--html: not with --only"),
        (["--only", "system.clock", "--format", "junit"], "--format: not with --only"),
    ],
)
def test_a_part_that_cannot_be_is_rejected_before_anything_runs(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A report of a part could be judged like a whole one, so that there is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check, "run_part", lambda *_: pytest.fail("it ran"))

    assert 2 == main(["check", "--instance-type", "cpu", *words])
    told = capsys.readouterr()
    assert said in told.err and "" == told.out and [] == list(tmp_path.iterdir())


def test_the_other_checks_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node gets a bundle that skips them, settles nothing, and the report has the named ones alone."""
    seen: list[Bundle] = []

    def checked(made: Bundle, folder: Path, tick: object, **settles: bool) -> bytes:
        seen.append(made)
        assert settles == {}
        return dump(ONE)

    monkeypatch.setattr("checks.runner.single_node.checked", checked)
    part = local_check.run_part(
        ("system.clock",), declared_of("cpu", 1), Profile.QUICK, POLICY, lambda _: None, False
    )
    planned = {line.check for line in plan_of(seen[0])[1] if line.skip is None}

    assert planned - {*seen[0].skip} == {"system.clock"}
    assert {"system.clock"} == {line.check for line in part.plan} == {row.check for row in part.observations}
