"""However a gate ends, its jobs end, its lease is given back, and it says why."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tasks.cancel import end_run_from_outside
from tasks.gate.lease import lease as leases
from tasks.gate.outcome import Decision, Outcome
from tasks.store.base import StoreFull
from tasks.store.folder import FolderStore
from tasks.store.layout import lease_key
from tests.flows.driving import Play, gate_it, open_session, play, request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.gates import processes_below, write_gate
from tests.flows.pools import engine, fake_gate

__all__ = ["engine", "play"]
pytestmark = pytest.mark.usefixtures("prefect_backend", "play")


def test_a_run_cancelled_in_prefect_ends(tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker watches a run in one's own process: it looks for itself."""
    from tasks.gate import cancellation

    play("hang")
    monkeypatch.setattr(cancellation, "EVERY_S", 0.2)
    path = write_gate(tmp_path)

    async def cancel() -> Any:
        from prefect.client.orchestration import get_client
        from prefect.states import Cancelling

        from flows.gate import gate

        running = asyncio.ensure_future(gate(request_of(path), return_state=True))
        while len(processes_below(tmp_path)) < 3:
            await asyncio.sleep(0.05)
        async with get_client() as client:
            lease = json.loads((tmp_path / "store" / "leases" / "test.json").read_bytes())
            await client.set_flow_run_state(UUID(lease["owner"]["flow_run_id"]), Cancelling(), force=True)
        return await running

    state = asyncio.run(cancel())

    assert state.is_cancelled()
    assert processes_below(tmp_path) == []
    (kept,) = [json.loads(path.read_bytes()) for path in tmp_path.glob("store/gates/*/outcome.json")]
    assert ("cancelled", "cancelled in Prefect; the jobs that it had started were ended") == (
        kept["ending"],
        kept["reason"],
    )


def test_a_hook_in_another_process_ends_the_jobs(tmp_path: Path, play: Play) -> None:
    """It knows the run's id and parameters only; the store says afterwards that the run was cancelled."""
    play("hang")
    request = request_of(write_gate(tmp_path))
    session = open_session(request, "run-1")
    from tasks.gate.jobs import check_job
    from tasks.gate.submission import submit_job

    submit_job(session, check_job(session.setting, session.gate_id, session.keeper.lease.job("check")))

    end_run_from_outside(request, "run-1", cancelled=True)
    end_run_from_outside(request, "run-1", cancelled=True)

    assert processes_below(tmp_path) == []
    kept = json.loads((tmp_path / "store" / "gates" / session.gate_id / "outcome.json").read_bytes())
    assert ("cancelled", None, 130) == (kept["ending"], kept["decision"], kept["exit_code"])
    assert kept["reason"].endswith("; the jobs that it had started were ended")
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))


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

    async def lose() -> Outcome:
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
