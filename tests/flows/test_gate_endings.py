"""However a gate ends, its jobs end, its lease is given back, and it says why."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import pytest

from tasks import collect
from tasks.cancel import end_run_from_outside
from tasks.gate.jobs import check_job
from tasks.gate.lease import lease as leases
from tasks.gate.outcome import Decision, GateOutcome
from tasks.gate.submission import submit_job
from tasks.launchers.base import Hold, JobState, Keeping, LaunchError
from tasks.store.base import StoreFull
from tasks.store.folder import FolderStore
from tasks.store.layout import lease_key
from tests.flows.driving import gate_it, open_session, request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("without_prefect", "play")


def test_a_hook_in_another_process_ends_the_jobs(tmp_path: Path, engine: Engine) -> None:
    """It knows the run's id and parameters only; the store says afterwards that the run was cancelled. If machines cannot be released
    people are told, and the lock stays for the next gate.
    """
    engine.parts, request = ["hang"], request_of(fake_gate(tmp_path))
    session = open_session(request, "run-1")
    submit_job(session, check_job(session.context, session.gate_id, session.renewal.lease.job("check")))

    for holds in (True, False, False):
        engine.kept[session.checking], engine.holds_release = Hold(Keeping.READY), holds
        end_run_from_outside(request, "run-1", cancelled=not holds)
        assert holds is bool(list((tmp_path / "store" / "leases").rglob("*.json")))

    assert engine.last[session.checking].state is JobState.CANCELLED
    assert 1 == len(list((tmp_path / "store" / "pages").glob("*-machines.txt")))
    kept = json.loads((tmp_path / "store" / "gates" / session.gate_id / "outcome.json").read_bytes())
    assert ("cancelled", None, 130) == (kept["ending"], kept["decision"], kept["exit_code"])
    assert kept["reason"].endswith("; the jobs that it had started were ended")


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
    kept = json.loads((tmp_path / "store" / "gates" / outcome.gate_id / "outcome.json").read_bytes())
    assert (kept["exit_code"], "KeyError" in kept["reason"]) == (3, True)
    page = (tmp_path / "store" / "pages" / f"{outcome.gate_id}.txt").read_text()
    assert "an error in prelaunch itself" in page and "a defect" in page
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

    page = (tmp_path / "store" / "pages" / f"{outcome.gate_id}.txt").read_text()
    assert (3, True) == (outcome.code, outcome.judged is not None), outcome.reason
    assert "MACHINES MAY STILL BE BILLED" in page and "By hand: stop it" in page
