"""One round, with real processes: whatever a check does, the others are measured, and what is missing is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from checks import catalog
from checks.facts.builtin import builtin
from checks.model import Cause, Declared, ErrorKind, Outcome
from checks.policy import CheckPolicy, OnWarn, Policy, Rule
from checks.probes.host import machine
from checks.process.tree import start_ticks
from checks.runner.node_context import PlaceError
from checks.runner.single_node import declare, read_policy
from checks.watch.rounds import SCRATCH, RoundResult, Rounds
from tests.checks.watch import toy_checks

DEADLINE_S = 20.0
CPU = Declared("cpu", 1, 0, 1)


def _rule(metric: str) -> CheckPolicy:
    return CheckPolicy(rules=(Rule(metric, "made up for a test", equals=0),))


POLICY = Policy(
    "toy",
    ("cpu",),
    OnWarn.GO,
    0.25,
    {check.name: _rule(check.metrics[0]) for check in toy_checks.CHECKS} | {"toy.unknown": _rule("value")},
)


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
    left = subprocess.run(("pgrep", "-f", "sleep 3599.125"), capture_output=True, text=True, check=False)

    assert "" == left.stdout

    assert {check.name.removeprefix("toy.") for check in toy_checks.CHECKS} == {*outcomes(result)}
    assert {Outcome.MEASURED} == {*outcomes(result).values()}
    assert [] == [*result.machine.findings]
    assert result.in_time
    assert {check.name for check in toy_checks.CHECKS} == {*result.machine.measured}


@pytest.mark.usefixtures("counter")
def test_a_check_that_hangs_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy_checks.in_forks(monkeypatch)
    monkeypatch.setenv("TOY_HANGS", "1")
    result = look(tmp_path)
    [found] = result.machine.findings

    assert {
        **dict.fromkeys(("steady", "dies", "compares", "leaves"), Outcome.MEASURED),
        "hangs": Outcome.ERRORED,
    } == outcomes(result)
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
def test_a_round_that_is_stopped_is_ended_at_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_SIGNAL", f"{int(signal.SIGSTOP)}")
    result = look(tmp_path, deadline_s=3.0)

    assert not result.in_time
    assert {ErrorKind.DEADLINE} == {row.error_kind for row in result.observations[2:]}
    left = subprocess.run(
        ("pgrep", "-f", f"round_child.*{tmp_path}"), capture_output=True, text=True, check=False
    )
    assert "" == left.stdout


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
    burning = [
        subprocess.Popen((sys.executable, "-c", "while True: pass")) for _ in range(os.cpu_count() or 1)
    ]
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

    assert ["steady"] == [
        name for name, outcome in outcomes(result).items() if outcome is not Outcome.MEASURED
    ]
    assert [("toy.steady", Cause.EVIDENCE)] == [
        (found.check, found.cause) for found in result.machine.findings
    ]
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
    assert [] == [*look(tmp_path).machine.findings], (
        "a growth is found once, also by the watch after this one"
    )

    assert ("toy.compares", 7) == (found.check, int(found.compared.value) if found.compared else None)
    counter.write_text("3")
    monkeypatch.setattr(machine, "boot_id", lambda root: "another-boot")
    assert [] == [*look(tmp_path).machine.findings]
    assert ["another-boot"] == os.listdir(tmp_path / "state" / SCRATCH)
