"""A go whose training gets no machines: "not launched" and exit code 5, waited for as the gate file says, and nothing left."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from checks.model import Answer
from flows.cli.gate_output import show
from tasks.gate.outcome import Decision, GateOutcome
from tasks.launchers.base import Hold, JobState, JobStatus, Keeping, NoCapacity, Trouble
from tests.flows.driving import cancelled, gate_it
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("without_prefect", "play")

NONE_NOW = NoCapacity("CapacityError: unable to provision the machines.")
FAILED = JobStatus(JobState.FAILED, "Failed: CapacityError: unable to provision", "", {}, Trouble.NO_CAPACITY)
WAITS = "capacity_wait_minutes = 5"
PRICE = "cost.usd_per_node_hour=3600"  # one dollar a second and node, so that seconds show


def not_launched(outcome: GateOutcome) -> tuple[Any, ...]:
    """What every such end has in common."""
    answer = outcome.judged.verdict.answer if outcome.judged else None
    return outcome.decision, outcome.code, answer


def test_capacity_that_never_comes_is_not_launched(
    tmp_path: Path, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict stays a go, the pool is released, and what it cost meanwhile is said."""
    engine.train_refusals = [NONE_NOW] * 100

    state, outcome = gate_it(fake_gate(tmp_path, cluster="capacity_wait_minutes = 0.02"), PRICE)

    assert (Decision.NOT_LAUNCHED, 5, Answer.GO) == not_launched(outcome)
    assert ("NoCapacity", True) == (state.name, engine.idle)
    assert "the verdict was go, but the training got no machines: CapacityError" in outcome.reason
    assert "2 nodes waited for it for" in outcome.reason and "USD" in outcome.reason
    assert 2 < engine.count("submit") < 100
    assert ["check"] == [name.split("-")[-2] for name in engine.jobs]
    show(argparse.Namespace(format="text", junit=None, summary=None, html=None), "test", outcome)
    assert "\nDecision: not launched\n" in capsys.readouterr().out


def test_capacity_that_comes_after_a_while_is_launched_on_the_same_machines(
    tmp_path: Path, engine: Engine
) -> None:
    """The checks are not repeated, and the pool that was kept goes to the training, under a name of its own."""
    engine.train_refusals = [NONE_NOW] * 2

    _, outcome = gate_it(fake_gate(tmp_path, cluster=WAITS))

    check, train = f"{outcome.gate_id}-check-1", f"{outcome.gate_id}-train-1-3"
    assert (Decision.LAUNCHED, 0, [check, train]) == (outcome.decision, outcome.code, list(engine.jobs))
    assert check == engine.jobs[train].predecessor
    assert f"{train} reused the machines of {check}" in str(outcome.placement)
    assert engine.idle


def test_a_job_that_the_engine_took_and_then_had_no_machines_for_is_submitted_again(
    tmp_path: Path, engine: Engine
) -> None:
    """An engine never starts a job that has ended: the next one has another name."""
    engine.matches, engine.train_endings, engine.training = False, [FAILED], "healthy"

    _, outcome = gate_it(fake_gate(tmp_path, cluster=WAITS))

    names = [f"{outcome.gate_id}-{stage}" for stage in ("check-1", "train-1", "train-1-2")]
    assert (Decision.LAUNCHED, 0, names) == (outcome.decision, outcome.code, list(engine.jobs))
    assert engine.idle


def test_a_pool_that_expires_while_it_waits_means_checking_again(tmp_path: Path, engine: Engine) -> None:
    """What passed is gone, so that other machines are checked, and the training follows on those."""
    engine.train_refusals = [NONE_NOW] * 100

    def hook(verb: str, job: str) -> None:
        if verb == "submit" and "-train-" in job and job.endswith("-3"):
            engine.kept = {name: Hold(Keeping.GONE, "Terminated") for name in engine.kept}
        if verb == "submit" and job.endswith("-check-2"):
            engine.train_refusals.clear()

    engine.hook = hook

    _, outcome = gate_it(fake_gate(tmp_path, cluster=WAITS))

    check = f"{outcome.gate_id}-check-2"
    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
    assert check in engine.jobs and engine.jobs[list(engine.jobs)[-1]].predecessor == check
    assert engine.idle


def test_a_gate_that_is_cancelled_while_it_waits_leaves_nothing(tmp_path: Path, engine: Engine) -> None:
    """No pool is kept, no job runs, no lease is held."""
    engine.train_refusals = [NONE_NOW] * 100

    cancelled(fake_gate(tmp_path, cluster=WAITS), engine, lambda verb, job: job.endswith("-train-1-3"))


def test_a_training_that_never_ran_is_not_launched(tmp_path: Path, engine: Engine) -> None:
    """It waits for longer than a job may: it is ended, and its pool released."""
    status = JobStatus(JobState.PENDING, "InProgress/Pending: retrying", "", {})
    engine.matches, engine.train_endings, engine.start_s = False, [status] * 3, 0.3

    state, outcome = gate_it(fake_gate(tmp_path))

    assert (Decision.NOT_LAUNCHED, 5, Answer.GO) == not_launched(outcome)
    assert ("NoCapacity", True) == (state.name, engine.idle)
    assert status.detail in outcome.reason
