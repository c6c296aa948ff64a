"""However a gate ends, also one whose training gets no machines, its jobs end, its lease is given back, and it says why."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.model import Answer
from flows.cli.gate_output import show
from tasks import collect
from tasks.cancel import end_run_from_outside
from tasks.gate.jobs import check_job
from tasks.gate.lease import lease as leases
from tasks.gate.outcome import Decision, GateOutcome
from tasks.gate.submission import submit_job
from tasks.launchers.base import JobState, JobStatus, LaunchError, NoCapacity, RetentionState, Trouble
from tasks.store.base import StoreFull
from tasks.store.folder import FolderStore
from tasks.store.layout import lease_key
from tests.flows.cli.conftest import Captured
from tests.flows.driving import cancelled, gate_it, kept, open_session, page, request_of, run
from tests.flows.fake_engine import KEPT, Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("without_prefect", "play")

NONE_NOW = NoCapacity("CapacityError: unable to provision the machines.")
FAILED = JobStatus(JobState.FAILED, "Failed: CapacityError: unable to provision", "", {}, Trouble.NO_CAPACITY)
WAITS = "capacity_wait_minutes = 5"
PRICE = "cost.usd_per_node_hour=3600"  # one dollar a second and node, so that seconds show


def test_a_hook_in_another_process_ends_the_jobs(tmp_path: Path, engine: Engine) -> None:
    """It knows the run's id and parameters only; the store says afterwards that the run was cancelled. If machines cannot be released
    people are told, and the lock stays for the next gate.
    """
    engine.parts, request = ["hang"], request_of(fake_gate(tmp_path))
    session = open_session(request, "run-1")
    submit_job(session, check_job(session.context, session.gate_id, session.renewal.lease.job("check")))

    for holds in (True, False, False):
        engine.kept[session.checking], engine.holds_release = KEPT, holds
        end_run_from_outside(request, "run-1", cancelled=not holds)
        assert holds is bool(list((tmp_path / "store" / "leases").rglob("*.json")))

    assert engine.last[session.checking].state is JobState.CANCELLED
    assert 1 == len(list((tmp_path / "store" / "pages").glob("*-machines.txt")))
    end = json.loads((tmp_path / "store" / "gates" / session.gate_id / "outcome.json").read_bytes())
    assert ("cancelled", None, 130) == (end["ending"], end["decision"], end["exit_code"])
    assert end["reason"].endswith("; the jobs that it had started were ended")


def test_a_report_that_cannot_be_kept_launches_nothing(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verdict that nobody can read again is none: cannot tell, and it says why."""
    real = FolderStore.put

    def full(self: FolderStore, key: str, data: bytes) -> None:
        if key.endswith("health_check_metrics.json"):
            raise StoreFull("the store is full. Free space there.")
        real(self, key, data)

    monkeypatch.setattr(FolderStore, "put", full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    state, outcome = gate_it(fake_gate(tmp_path))

    assert (state.name, outcome.code) == ("CannotTell", 3)
    assert len([*tmp_path.glob(f"prelaunch-{outcome.gate_id}-*/health_check_metrics.json")]) == 1
    assert outcome.judged is not None and "full" in outcome.judged.verdict.findings[0].message
    assert [f"{outcome.gate_id}-check-1"] == list(engine.jobs)


def test_a_lease_that_is_taken_away_ends_the_gate_and_not_the_jobs(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs are the adopter's now: this gate leaves them alone."""
    engine.parts = ["hang"]
    monkeypatch.setattr(leases, "RENEW_S", 0.2)
    path = fake_gate(tmp_path)

    async def lose() -> GateOutcome:
        running = asyncio.create_task(run(request_of(path)))
        while not engine.jobs:
            await asyncio.sleep(0.05)
        store, key = FolderStore(tmp_path / "store"), lease_key("test")
        while not store.replace_if(key, store.get(key) or b"", b"{}"):
            pass  # it was renewed meanwhile
        return (await running)[1]

    outcome = asyncio.run(lose())

    assert (outcome.code, engine.count("cancel"), engine.idle) == (3, 0, False)


def test_a_gate_that_breaks_tells_its_owner_and_keeps_how_it_ended(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that nobody foresaw is cannot-tell: announced, kept, paged; and nothing of it is left."""

    def defect(job: str, folder: Path) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(engine, "fetch", defect)

    state, outcome = gate_it(fake_gate(tmp_path))

    assert (state.name, outcome.decision, outcome.code) == ("CannotTell", Decision.CANNOT_TELL, 3)
    end, sent = kept(tmp_path, outcome), page(tmp_path, outcome)
    assert (end["exit_code"], "KeyError" in end["reason"]) == (3, True)
    assert "an error in prelaunch itself" in sent and "a defect" in sent
    assert engine.idle


def test_checks_that_cannot_be_ended_are_judged_and_paged(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is Stopping for ever: nobody can tell, and somebody hears that the job may still be paid for."""
    stopping = "it was asked to stop and has not ended. By hand: stop it"

    def cancel(name: str) -> None:
        raise LaunchError(stopping)

    monkeypatch.setattr(engine, "cancel", cancel)
    monkeypatch.setattr(collect, "GRACE_S", 0.1)
    engine.parts = ["hang"]

    _, outcome = gate_it(fake_gate(tmp_path, checks_minutes=0.002))

    sent = page(tmp_path, outcome)
    assert (3, True) == (outcome.code, outcome.judged is not None), outcome.reason
    assert "MACHINES MAY STILL BE BILLED" in sent and "By hand: stop it" in sent


def not_launched(outcome: GateOutcome) -> tuple[Any, ...]:
    """What every such end has in common."""
    answer = outcome.judged.verdict.answer if outcome.judged else None
    return outcome.decision, outcome.code, answer


def test_capacity_that_never_comes_is_not_launched(tmp_path: Path, engine: Engine, capsys: Captured) -> None:
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


def test_capacity_that_comes_later_is_launched_on_the_same_machines(tmp_path: Path, engine: Engine) -> None:
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
            engine.kept = {name: replace(KEPT, state=RetentionState.GONE) for name in engine.kept}
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
