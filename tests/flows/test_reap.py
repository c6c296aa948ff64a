"""The reaper on a real Prefect server: what a dead run left is ended and told once; what lives, or was taken over, is left alone."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType

from tasks import reap as reaping
from tasks.gate.context import open_gate_context
from tasks.gate.jobs import check_job
from tasks.gate.lease import lease as leases
from tasks.gate.lease.owner import Owner, this_process
from tasks.gate.record.request import keep_request
from tasks.gate.session import Session
from tasks.gate.submission import submit_job
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import EngineUnavailable
from tasks.reap import end_jobs
from tasks.store.layout import outcome_key
from tests.flows.driving import open_session, request_of
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("prefect_backend")

__all__ = ["nobody_waits"]


@pytest.fixture(autouse=True)
def nobody_waits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of a fleet are not those of a test; the nodes hang."""
    monkeypatch.setattr(reaping, "SILENT_S", 0.2)
    monkeypatch.setattr(reaping, "SETTLE_S", 0.1)
    monkeypatch.setattr(reaping, "LOOK_S", 0.05)
    engine.parts = ["hang"]


def test_a_dead_run_is_crashed_its_jobs_end_and_its_owner_hears_once(tmp_path: Path, engine: Engine) -> None:
    """However often somebody looks."""
    request, run = _begun(tmp_path)
    _abandoned(request, run)

    first, second = _reaped(run, "silent"), _reaped(run, "crashed")

    assert ("Reaped", "Crashed") == (first.name, _state(run).name), first.message
    assert engine.idle
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))
    (page,) = (tmp_path / "store" / "pages").iterdir()
    assert "has sent no heartbeat" in page.read_text() and "cluster test is free" in page.read_text()
    assert "already notified" in second.message


def test_a_run_whose_process_lives_is_left_alone(tmp_path: Path, engine: Engine) -> None:
    """No heartbeat is no proof: it renews its lease."""
    request, run = _begun(tmp_path)
    session = _checking(request, run)

    state = _reaped(run, "silent")

    assert ("LeftAlone", "Running") == (state.name, _state(run).name)
    assert not engine.idle and not (tmp_path / "store" / "pages").exists()
    session.__exit__(None, None, None)
    assert engine.idle


def test_an_engine_that_does_not_answer_is_asked_again_and_then_told(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs may still run, the lease stays for whoever comes next, and the next look ends them."""
    request, run = _begun(tmp_path)
    _abandoned(request, run)
    asked, real = [], engine.cancel

    def silent(name: str) -> None:
        asked.append(name)
        raise EngineUnavailable("the engine does not answer. See that it runs.")

    monkeypatch.setattr(reaping, "end_jobs", end_jobs.with_options(retries=2, retry_delay_seconds=0))
    monkeypatch.setattr(engine, "cancel", silent)
    first = _reaped(run, "silent")
    monkeypatch.setattr(engine, "cancel", real)
    left = not engine.idle
    last = _reaped(run, "asked")

    (page,) = (tmp_path / "store" / "pages").iterdir()
    assert ("NotReaped", 3) == (first.name, len(asked) // 2), first.message
    assert left and "may still run" in page.read_text()
    assert ("Reaped", True) == (last.name, engine.idle), last.message


def test_a_run_that_was_to_be_cancelled_is_cancelled(tmp_path: Path, engine: Engine) -> None:
    """Whoever cancelled it knows: nobody is paged."""
    request, run = _begun(tmp_path, "CANCELLING")
    _abandoned(request, run)

    state = _reaped(run, "silent")

    assert ("Reaped", "Cancelled") == (state.name, _state(run).name), state.message
    assert engine.idle and not (tmp_path / "store" / "pages").exists()


def test_a_late_run_is_told_once(tmp_path: Path) -> None:
    """Its gate's owner hears, also where somebody claimed to say so two minutes ago and died; nothing else is done."""
    _, run = _begun(tmp_path, "SCHEDULED", "Late")
    claim = tmp_path / "store" / "runs" / run / "run_late.json"
    claim.parent.mkdir(parents=True)
    claim.write_text(json.dumps({"at": 1.0, "sent": False}))

    first, second = _reaped(run, "late"), _reaped(run, "late")

    (page,) = (tmp_path / "store" / "pages").iterdir()
    assert "no worker has started run" in page.read_text() and "Start a worker" in page.read_text()
    assert ("Reaped", "Late") == (first.name, _state(run).name)
    assert "already notified" in second.message and json.loads(claim.read_text())["sent"] is True


def test_reaper_without_the_gate_file_reports_and_leaves_the_run(tmp_path: Path) -> None:
    """The gate file lies elsewhere: nothing is known of its process, so nothing is done."""
    request, run = _begun(tmp_path)
    Path(request.gate_file).unlink()

    state = _reaped(run, "silent")

    assert ("NotReaped", "Running") == (state.name, _state(run).name)
    assert "Start reap on a machine that has its gate file" in state.message


def test_a_rejected_request_left_nothing(tmp_path: Path) -> None:
    """A gate file with an error ends the run at once; that nobody can read it here either is no second failure."""
    from flows.gate import gate

    path = fake_gate(tmp_path)
    path.write_text(path.read_text().replace("[checks]", "[cheks]"))
    rejected: Any = asyncio.run(gate(request_of(path), return_state=True))  # type: ignore[arg-type]
    run = rejected.state_details.flow_run_id

    state = _reaped(str(run), "silent")

    assert ("Rejected", "LeftAlone") == (rejected.name, state.name), state.message


def test_a_run_that_waits_for_a_person_is_let_wait(tmp_path: Path, engine: Engine) -> None:
    """It needs no process; once it was ended in Prefect its cluster is free."""
    request, run = _begun(tmp_path, "PAUSED", "Suspended")
    _abandoned(request, run)
    store, held = open_gate_context(request).store, leases.lease_of_run(open_gate_context(request).store, run)
    assert held is not None
    leases.changed(store, held, asking=leases.OpenQuestion("k", "d", time.time() + 60, time.time() + 120))

    waiting = _reaped(run, "silent")
    kept = not engine.idle
    _set(run, "CANCELLED")
    ended = _reaped(run, "cancelled")

    assert ("LeftAlone", True) == (waiting.name, kept), waiting.message
    assert ("Reaped", True) == (ended.name, engine.idle), ended.message
    assert leases.lease_of_run(store, run) is None
    (outcome,) = (tmp_path / "store" / "gates").glob("*/outcome.json")
    assert "its run was ended in Prefect while it waited" in outcome.read_text()


def test_a_commissioning_that_died_is_crashed_with_the_gates_below_it(tmp_path: Path, engine: Engine) -> None:
    """Each gate's owner hears of his gate; the whole tells nobody a second time."""
    request = request_of(fake_gate(tmp_path))
    parent, child = asyncio.run(_commissioning(request))
    _abandoned(request, child)

    state = _reaped(parent, "silent")

    assert ("Crashed", "Crashed") == (_state(parent).name, _state(child).name), state.message
    assert engine.idle
    assert 1 == len(list((tmp_path / "store" / "pages").iterdir()))


def test_a_commissioning_lives_while_a_gate_of_it_does(tmp_path: Path, engine: Engine) -> None:
    """It holds no lease of its own: where no heartbeat arrives at all, those of its gates speak for it."""
    request = request_of(fake_gate(tmp_path))
    parent, child = asyncio.run(_commissioning(request))
    session = _checking(request, child)

    state = _reaped(parent, "silent")

    session.__exit__(None, None, None)
    assert ("LeftAlone", "Running", "Running") == (state.name, _state(parent).name, _state(child).name)
    assert not (tmp_path / "store" / "pages").exists()


def test_every_reaper_looks_when_a_question_s_time_is_up() -> None:
    """One of them may be of a `prelaunch serve forms` that has long ended: nobody would ever begin its run."""
    from prefect.client.schemas.filters import FlowFilter, FlowFilterId

    from flows.reap import reap
    from tasks.gate.approval.wait import schedule_expiry
    from tasks.gate.question import Question

    asked = UUID(int=7)
    question = Question(1, "g", "test", "test", str(asked), "k", "", False, 0.0, time.time() + 60, (), ())

    async def ordered() -> tuple[set[UUID], list[UUID]]:
        async with get_client() as client:
            flow = await client.create_flow(reap)
            names = ("here", "reap")
            made = {await client.create_deployment(flow, name, tags=["prelaunch"]) for name in names}
            for _ in range(2):
                await schedule_expiry(client, asked, question)
            chosen = FlowFilter(id=FlowFilterId(any_=[flow]))
            runs = await client.read_flow_runs(flow_filter=chosen)
            for deployment in made:  # other tests of this server have no reaper
                await client.delete_deployment(deployment)
            return made, [run.deployment_id for run in runs if run.deployment_id]

    made, looks = asyncio.run(ordered())

    assert sorted(made) == sorted(looks)


def test_a_run_that_is_no_gate_is_nothing() -> None:
    """It was deleted, or it never was; and a reaper that crashes starts no reaper."""
    reaper = _create({"flow_run_id": "x"}, "CRASHED", "Crashed", "reap")
    unknown = [_reaped(run, "asked") for run in ("no-id", "3d0a1f6e-6e3f-4a4f-a1b5-3f7d5a3c1d11")]

    assert {"LeftAlone"} == {state.name for state in (*unknown, _reaped(reaper, "crashed"))}


def _begun(folder: Path, kind: str = "RUNNING", name: str = "") -> tuple[GateRequest, str]:
    """A request, and a flow run of it that the server believes to be in that state."""
    request = request_of(fake_gate(folder))
    parameters = {"request": request.model_dump(mode="json")}
    return request, _create(parameters, kind, name or kind.capitalize(), "gate")


def _create(parameters: dict[str, Any], kind: str, name: str, flow: str) -> str:
    from flows.gate import gate
    from flows.reap import reap

    flows: dict[str, Any] = {"gate": gate, "reap": reap}
    with get_client(sync_client=True) as client:
        run = client.create_flow_run(flows[flow], parameters=parameters)
    _set(str(run.id), kind, name)
    return str(run.id)


async def _commissioning(request: GateRequest) -> tuple[str, str]:
    """A commissioning that runs, and the gate below it: Prefect ties them by a task run."""
    from prefect import task
    from prefect.states import Running

    from flows.commission import commission
    from flows.gate import gate

    whole = {"request": {"gate_files": [request.gate_file]}}
    async with get_client() as client:
        parent = await client.create_flow_run(commission, parameters=whole, state=Running())
        tie = await client.create_task_run(task(name="gate")(lambda: None), parent.id, "0")
        part = {"request": request.model_dump(mode="json")}
        below: Any = {"parent_task_run_id": tie.id, "state": Running()}
        child = await client.create_flow_run(gate, parameters=part, **below)
    return str(parent.id), str(child.id)


def _set(run: str, kind: str, name: str | None = None) -> None:
    state: State[Any] = State(type=StateType(kind), name=name)
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(run), state, force=True)


def _checking(request: GateRequest, run: str) -> Session:
    """A gate of this process that holds its cluster, and whose nodes hang."""
    session = open_session(request, run)
    job = session.renewal.lease.job("check")
    submit_job(session, check_job(session.context, session.gate_id, job))
    session.remember(job)
    session.renewal.start()
    return session


def _abandoned(request: GateRequest, run: str) -> None:
    """The same of a process that died."""
    session = open_session(request, run)
    submit_job(session, check_job(session.context, session.gate_id, session.renewal.lease.job("check")))
    with subprocess.Popen(["true"]) as process:
        process.wait()
    dead: Owner = dataclasses.replace(this_process(run), pid=process.pid, start_ticks=1)
    held = leases.lease_of_run(session.context.store, run)
    assert held is not None
    leases.resume(session.context.store, held, dead, held.lease.renewed_at)


def _reaped(run: str, why: Any) -> Any:
    from flows.reap import reap

    return asyncio.run(reap(run, why, return_state=True))  # type: ignore[arg-type]


def _state(run: str) -> Any:
    with get_client(sync_client=True) as client:
        return client.read_flow_run(UUID(run)).state


def test_a_gate_that_another_run_took_over_and_ended_pages_nobody(tmp_path: Path) -> None:
    """The other run has notified people of its end; this would be about a crash of a gate that said GO."""
    request, run = _begun(tmp_path)
    context = open_gate_context(request)
    asyncio.run(_announced(run, "test-1", context.address))
    keep_request(context.store, "test-1", request, str(UUID(int=7)))
    end = {"decision": "launched", "reason": "GO test: all is well"}
    context.store.put(outcome_key("test-1"), json.dumps(end).encode())

    first, second = _reaped(run, "silent"), _reaped(run, "crashed")

    assert ("Reaped", "Crashed") == (first.name, _state(run).name), first.message
    message = f"flow run {UUID(int=7)} has taken over its gate test-1 and has ended it (launched)"
    assert message in _state(run).message
    assert "taken over" in second.message and not (tmp_path / "store" / "pages").exists()


async def _announced(run: str, gate_id: str, store: str) -> None:
    """The status that a gate's run publishes as it begins."""
    from prefect.client.schemas.actions import ArtifactCreate

    said = {"schema_version": 1, "gate_id": gate_id, "gate": "test", "store": store, "phase": "running"}
    said["cluster"] = "test"
    text = f"The gate runs.\n\n```json\n{json.dumps(said)}\n```\n"
    made = ArtifactCreate(key="gate-run-test", type="markdown", data=text, flow_run_id=UUID(run))
    async with get_client() as client:
        await client.create_artifact(made)
