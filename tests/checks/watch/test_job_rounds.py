"""Whole rounds on a node whose job offers NCCL's RAS (a stand-in): the finding that names the rank, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checks import catalog
from checks.documents.open_findings import Closer, OpenFinding, OpenFindings
from checks.facts.builtin import builtin
from checks.judge.open_findings.jobs import ABOUT_JOBS
from checks.judge.open_findings.prior_findings import carried
from checks.judge.open_findings.update import after_round
from checks.judge.rules.wording import spoken
from checks.model import Action, Cause, Finding, Level, Outcome
from checks.policy import CheckPolicy, OnWarn, Policy, Rule
from checks.runner.node_context import before_path
from checks.runner.single_node import POLICIES, declare, read_policy
from checks.watch.rounds import Rounds
from tests.checks.watch import toy_checks
from tests.fakes.nccl_ras import FakeJob, answering, job_of, serving

NAME = "nccl.job"
STEADY = CheckPolicy(rules=(Rule("value", "made up for a test", equals=0),))
POLICY = Policy("toy", ("p5.48xlarge",), OnWarn.GO, 0.25, {"toy.steady": STEADY})
SHIPPED = {path.stem: read_policy(path, announced=False) for path in sorted(POLICIES.glob("*.json"))}


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJob]:
    """The job on this node; nccl.job is what the watch has besides one toy check."""
    monkeypatch.setattr(catalog, "CATALOG", (toy_checks.steady,))
    toy_checks.in_forks(monkeypatch)
    job = job_of(16)
    with serving(answering(job)) as port:
        monkeypatch.setenv("NCCL_RAS_ADDR", f"127.0.0.1:{port}")
        yield job


def rounds_of(tmp_path: Path) -> Rounds:
    return Rounds(tmp_path / "state", declare("p5.48xlarge", 1, builtin()), POLICY, 30.0)


def time_passes(rounds: Rounds, seconds: float) -> None:
    """The last look was so much earlier."""
    path = before_path(rounds.scratch, NAME)
    look = json.loads(path.read_bytes())
    for one in (*look["lags"].values(), *look["silent"].values()):
        one["since"] -= seconds
    path.write_text(json.dumps({**look, "launched_since": look["launched_since"] - seconds}))


def found(rounds: Rounds) -> list[Finding]:
    result = rounds.make_round()
    assert [Outcome.MEASURED] * 2 == [row.outcome for row in result.observations], [
        row.reason for row in result.observations
    ]
    return [*result.machine.findings]


def test_a_job_that_moves_has_no_finding(tmp_path: Path, running: FakeJob) -> None:
    rounds = rounds_of(tmp_path)
    for _ in range(2):
        running.step(times=40)
        running.step(3)

        assert [] == found(rounds)
        time_passes(rounds, 60)


def test_a_hung_job_is_a_warning_that_names_the_rank_and_ends_with_it(
    tmp_path: Path, running: FakeJob
) -> None:
    rounds, known = rounds_of(tmp_path), OpenFindings()
    running.step(3, times=12)
    assert [] == found(rounds)
    time_passes(rounds, 60)
    result = rounds.make_round()
    [warning] = result.machine.findings

    assert (Level.WARN, Cause.APPLICATION, Action.NONE) == (warning.level, warning.cause, warning.action)
    assert ("rank 3 on 10.0.0.1 (GPU 3)",) == warning.elements
    assert re.fullmatch(
        r"node-1 is in a job in which rank 3 on 10\.0\.0\.1 \(GPU 3\) is behind the other ranks by 12 all-reduces and "
        r"has not moved for 6\d s",
        spoken(replace(warning, subject="node-1")),
    )
    known = after_round(known, result.machine)
    assert ["rank 3 on 10.0.0.1 (GPU 3)"] == [one.key.part for one in known.open]

    running.ranks[3].counts["AllReduce"] += 12
    running.step()
    known = after_round(known, rounds.make_round().machine)
    assert () == known.open
    assert {Closer.MEASURED.value: 1} == dict(known.closed_total)


def test_a_silent_rank_is_a_failure_of_the_application(tmp_path: Path, running: FakeJob) -> None:
    running.ranks[9].unresponsive = running.ranks[9].dead = True
    [failure] = found(rounds_of(tmp_path))

    assert (Level.FAIL, Cause.APPLICATION, Action.RESTART_APP) == (
        failure.level, failure.cause, failure.action,
    )  # fmt: skip
    assert "rank 9 on 10.0.0.2 (GPU 1) does not answer and is considered dead" in failure.message


def test_ras_that_cannot_be_read_is_missing_evidence(tmp_path: Path, running: FakeJob) -> None:
    running.ranks[1].counts = {"AllReduce": -1}
    result = rounds_of(tmp_path).make_round()

    assert [(NAME, Cause.EVIDENCE)] == [(one.check, one.cause) for one in result.machine.findings]


def test_a_report_carries_no_finding_about_a_job_before_others(tmp_path: Path, running: FakeJob) -> None:
    running.ranks[9].dead = True
    known = after_round(OpenFindings(), rounds_of(tmp_path).make_round().machine)
    many = tuple(_numbered(known.open[0], number) for number in range(400))

    assert [Level.FAIL] == [one.level for one in known.open]
    assert 0 == carried(replace(known, open=many)).omitted


def _numbered(one: OpenFinding, number: int) -> OpenFinding:
    return replace(one, key=replace(one.key, part=f"rank {number}"))


def test_no_gate_plans_or_requires_it() -> None:
    assert NAME not in {check.name for check in catalog.CATALOG}
    assert [NAME] == [check.name for check in catalog.WATCH_ONLY] == [*ABOUT_JOBS]
    assert not [policy.name for policy in SHIPPED.values() if NAME in policy.checks]
