"""Whole rounds: whatever a check does, the others are measured, and what is missing is said; a job that offers NCCL's RAS is read."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checks import catalog
from checks.command_line import PlaceError
from checks.documents.open_findings import Closer, OpenFindings
from checks.facts.builtin import builtin
from checks.judge.open_findings.jobs import ABOUT_JOBS
from checks.judge.open_findings.prior_findings import carried
from checks.judge.open_findings.update import after_round
from checks.judge.rules.wording import spoken
from checks.model import Action, Cause, Declared, ErrorKind, Finding, Level, Outcome
from checks.policy import CheckPolicy, OnWarn, Policy, Rule
from checks.probes.host import machine
from checks.process.tree import start_ticks
from checks.runner.node_context import before_path
from checks.runner.single_node import POLICIES, declare, read_policy
from checks.watch.rounds import SCRATCH, RoundResult, Rounds
from tests.checks.watch import toy_checks
from tests.fakes.nccl_ras import FakeJob, answering, job_of, serving

NAME = "nccl.job"
SHIPPED = {path.stem: read_policy(path, announced=False) for path in sorted(POLICIES.glob("*.json"))}

DEADLINE_S = 20.0
CPU = Declared("cpu", 1, 0, 1)


def _rule(metric: str) -> CheckPolicy:
    return CheckPolicy(rules=(Rule(metric, "made up for a test", equals=0),))


LINES = {check.name: _rule(check.metrics[0]) for check in toy_checks.CHECKS}
POLICY = Policy("toy", ("cpu",), OnWarn.GO, 0.25, {**LINES, "toy.unknown": _rule("value")})
JOB_POLICY = Policy("toy", ("p5.48xlarge",), OnWarn.GO, 0.25, {"toy.steady": _rule("value")})


def processes(pattern: str) -> str:
    """Those whose command matches."""
    return subprocess.run(("pgrep", "-f", pattern), stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The counter of toy.compares; the toy checks are the catalogue."""
    monkeypatch.setattr(catalog, "CATALOG", toy_checks.CHECKS)
    monkeypatch.chdir(Path(__file__).parents[3])
    path = tmp_path / "counter"
    path.write_text("10")
    monkeypatch.setenv(toy_checks.COUNTER, str(path))
    return path


def look(tmp_path: Path, deadline_s: float = DEADLINE_S) -> RoundResult:
    return Rounds(tmp_path / "state", CPU, POLICY, deadline_s).make_round()


def outcomes(result: RoundResult) -> dict[str, Outcome]:
    return {row.check.removeprefix("toy."): row.outcome for row in result.observations}


@pytest.mark.usefixtures("counter")
def test_a_healthy_machine_has_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a check leaves behind ends with its round: a watch makes one a minute, and one process each would be thousands."""
    monkeypatch.setenv("TOY_LEAVES", "3599.125")
    result = look(tmp_path)
    names = {check.name for check in toy_checks.CHECKS}

    assert "" == processes("sleep 3599.125")
    assert {(name, Outcome.MEASURED) for name in names} == {(o.check, o.outcome) for o in result.observations}
    assert [] == [*result.machine.findings]
    assert result.in_time
    assert names == {*result.machine.measured}


@pytest.mark.usefixtures("counter")
def test_a_check_that_hangs_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy_checks.in_forks(monkeypatch)
    monkeypatch.setenv("TOY_HANGS", "1")
    result = look(tmp_path)
    [found] = result.machine.findings

    measured = dict.fromkeys(("steady", "dies", "compares", "leaves"), Outcome.MEASURED)
    assert {**measured, "hangs": Outcome.ERRORED} == outcomes(result)
    assert ("toy.hangs", Cause.EVIDENCE) == (found.check, found.cause)
    assert "toy.hangs" not in result.machine.measured
    assert result.in_time


@pytest.mark.usefixtures("counter")
def test_a_round_that_dies_keeps_what_it_had_and_names_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_SIGNAL", f"{int(signal.SIGSEGV)}")
    result = look(tmp_path)

    assert [Outcome.MEASURED] * 2 + [Outcome.ERRORED] * 3 == [*outcomes(result).values()]
    assert {ErrorKind.NOT_RUN} == {row.error_kind for row in result.observations[2:]}
    assert {(name, Cause.EVIDENCE) for name in ("toy.dies", "toy.compares", "toy.leaves")} == {
        (found.check, found.cause) for found in result.machine.findings
    }


@pytest.mark.usefixtures("counter")
def test_a_round_that_is_stopped_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_SIGNAL", f"{int(signal.SIGSTOP)}")
    result = look(tmp_path, deadline_s=3.0)

    assert not result.in_time
    assert {ErrorKind.DEADLINE} == {row.error_kind for row in result.observations[2:]}
    assert "" == processes(f"round_child.*{tmp_path}")


def test_a_machine_that_no_policy_is_for_is_not_watched(tmp_path: Path) -> None:
    with pytest.raises(PlaceError, match="not for instance type m5"):
        Rounds(tmp_path, declare("m5.large", 1, builtin()), POLICY, DEADLINE_S)
    with pytest.raises(PlaceError, match="'p55' is not a known instance type"):
        declare("p55", 1, builtin())


@pytest.mark.long
def test_a_busy_job_beside_it_raises_nothing(tmp_path: Path) -> None:
    """The real checks of a CPU machine: whatever this machine's log holds, a job that keeps every CPU busy adds nothing."""
    policy = read_policy(None, CPU, announced=False)
    rounds = Rounds(tmp_path / "state", CPU, policy, 60.0)
    alone = rounds.make_round()
    argv = (sys.executable, "-c", "while True: pass")
    burning = [subprocess.Popen(argv) for _ in range(os.cpu_count() or 1)]
    try:
        busy = rounds.make_round()
    finally:
        for process in burning:
            process.kill()
            process.wait()

    assert alone.in_time
    assert busy.in_time
    assert {row.check for row in busy.observations if row.outcome is not Outcome.MEASURED} <= {
        row.check for row in alone.observations if row.outcome is not Outcome.MEASURED
    }
    assert {(found.check, found.metric) for found in busy.machine.findings} <= {
        (found.check, found.metric) for found in alone.machine.findings
    }


@pytest.mark.usefixtures("counter")
def test_a_check_whose_process_cannot_be_ended_is_not_run_again_before_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocked in the kernel, as on a file server that is gone. The other checks go on, and it comes back."""
    toy_checks.in_forks(monkeypatch)
    rounds = Rounds(tmp_path / "state", CPU, POLICY, DEADLINE_S)
    blocked = subprocess.Popen(("sleep", "600"))
    try:
        left = rounds.scratch / "toy.steady.left.json"
        left.write_text(json.dumps({blocked.pid: start_ticks(blocked.pid)}))
        result = rounds.make_round()
    finally:
        blocked.kill()
        blocked.wait()

    assert {"steady"} == {name for name, how in outcomes(result).items() if how is not Outcome.MEASURED}
    assert [("toy.steady", Cause.EVIDENCE)] == [(one.check, one.cause) for one in result.machine.findings]
    assert str(blocked.pid) in result.observations[0].reason
    assert {Outcome.MEASURED} == {*outcomes(rounds.make_round()).values()}
    assert not left.exists()


def test_watch_finds_counter_growth_after_an_unreadable_round(
    tmp_path: Path, counter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters begin anew at a boot: they are not compared with those of another one."""
    toy_checks.in_forks(monkeypatch)
    rounds = Rounds(tmp_path / "state", CPU, POLICY, DEADLINE_S)
    rounds.make_round()
    counter.write_text("?")
    assert Outcome.ERRORED is outcomes(rounds.make_round())["compares"]
    counter.write_text("17")
    [found] = rounds.make_round().machine.findings
    assert [] == [*look(tmp_path).machine.findings]  # found once, also by the watch after this one

    assert ("toy.compares", 7) == (found.check, int(found.compared.value) if found.compared else None)
    counter.write_text("3")
    monkeypatch.setattr(machine, "boot_id", lambda root: "another-boot")
    assert [] == [*look(tmp_path).machine.findings]
    assert ["another-boot"] == os.listdir(tmp_path / "state" / SCRATCH)


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
    return Rounds(tmp_path / "state", declare("p5.48xlarge", 1, builtin()), JOB_POLICY, 30.0)


def time_passes(rounds: Rounds, seconds: float) -> None:
    """The last look was so much earlier."""
    path = before_path(rounds.scratch, NAME)
    look = json.loads(path.read_bytes())
    for one in (*look["lags"].values(), *look["silent"].values()):
        one["since"] -= seconds
    path.write_text(json.dumps({**look, "launched_since": look["launched_since"] - seconds}))


def found(rounds: Rounds) -> list[Finding]:
    result = rounds.make_round()
    assert [(Outcome.MEASURED, "")] * 2 == [(row.outcome, row.reason) for row in result.observations]
    return [*result.machine.findings]


def test_a_job_that_moves_has_no_finding(tmp_path: Path, running: FakeJob) -> None:
    rounds = rounds_of(tmp_path)
    for _ in range(2):
        running.step(times=40)
        running.step(3)

        assert [] == found(rounds)
        time_passes(rounds, 60)


def test_a_hung_job_is_a_warning_that_names_the_rank_and_ends(tmp_path: Path, running: FakeJob) -> None:
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
    [one] = known.open
    many = tuple(replace(one, key=replace(one.key, part=f"rank {number}")) for number in range(400))

    assert Level.FAIL is one.level
    assert 0 == carried(replace(known, open=many)).omitted


def test_no_gate_plans_or_requires_it() -> None:
    assert NAME not in {check.name for check in catalog.CATALOG}
    assert [NAME] == [check.name for check in catalog.WATCH_ONLY] == [*ABOUT_JOBS]
    assert not [policy.name for policy in SHIPPED.values() if NAME in policy.checks]
