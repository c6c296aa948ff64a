"""A run that waits for a person, on a real server, database and worker: whatever is restarted, the answer is acted on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.gate.outcome import Decision, GateOutcome
from tests.flows.answering import asked, form, paused
from tests.flows.driving import logs, request_of, run
from tests.flows.gates import runs, write_gate
from tests.world import World

WARNS = {"FAKE_NODE": "warn", "PRELAUNCH_GATES": ""}


def started(world: World, path: Path, pool: str = "prelaunch", minutes: int = 5, **options: Any) -> str:
    """A run of a gate whose nodes warn, of a deployment named after the test's folder."""
    deployment = world.deploy("flows/gate.py:gate", path.parent.name, pool=world.pool(pool), **options)
    return world.start(deployment, {"request": request(path, minutes)}, env=WARNS)


def request(path: Path, minutes: int = 5) -> dict[str, Any]:
    """The run's parameter."""
    return {"gate_file": str(path), "advanced": {"ask_minutes": minutes}}


def kept(path: Path, name: str) -> Any:
    """A document of the one gate that the store holds."""
    (folder,) = (path.parent / "store" / "gates").iterdir()
    return json.loads((folder / name).read_bytes())


def require_one_gate(path: Path) -> None:
    """One gate ran its checks once on each of its two nodes, asked once, trained once, and left nothing."""
    store = path.parent / "store"
    assert 2 == runs(store)
    assert 1 == len(asked(store)) == len(list((store / "gates").iterdir()))
    assert 2 == logs(path.parent, "train").count("trained")
    assert not list((store / "leases").rglob("*.json"))


@pytest.mark.long
def test_a_pause_survives_a_restart_of_server_and_worker(tmp_path: Path, world: World) -> None:
    """The next worker goes on where it was: one gate, one check, one question, one training."""
    pool, path = world.pool("restarted"), write_gate(tmp_path, on_warn="ask")
    with world.worker(pool) as first:
        waits = started(world, path, pool)
        world.wait(waits, "Suspended")
        first.terminate()
        assert [] == first.started()
    world.server.restart()

    with world.worker(pool):
        assert "ACCEPT" == world.resume(waits, form("launch-anyway"))["status"]
        world.wait(waits, "Launched")

    require_one_gate(path)
    approval = kept(path, "outcome.json")["approval"]
    assert ("Ada", "prefect", False) == (approval["who"], approval["via"], approval["verified"])


@pytest.mark.long
def test_a_run_in_its_own_process_outlives_its_server(
    tmp_path: Path, new_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks until the server is back, and goes on in place."""
    monkeypatch.setenv("FAKE_NODE", "warn")
    world, path = new_world(), write_gate(tmp_path, on_warn="ask")

    async def through_a_restart() -> GateOutcome:
        running = asyncio.create_task(run(request_of(path, ask_minutes=5)))
        flow_run = await paused(running, path)
        await asyncio.to_thread(world.server.stop)
        await asyncio.sleep(5)
        await asyncio.to_thread(world.server.start)
        world.resume(str(flow_run.id), form("launch-anyway"))
        return (await running)[1]

    with world.here():
        outcome = asyncio.run(through_a_restart())

    require_one_gate(path)
    assert outcome.answer is not None and ("Ada", Decision.LAUNCHED) == (outcome.answer.who, outcome.decision)


@pytest.mark.long
def test_a_question_that_nobody_answers_is_refused(tmp_path: Path, new_world: Callable[..., World]) -> None:
    """The reaper, ordered when the question was asked, wakes the run at its deadline."""
    world, path = new_world(), write_gate(tmp_path, on_warn="ask")
    world.deploy("flows/reap.py:reap", "reap", tags=["prelaunch"])
    with world.worker():
        waits = started(world, path, minutes=1)
        world.wait(waits, "Suspended")
        world.wait(waits, "Refused")

    outcome = kept(path, "outcome.json")
    assert ("nobody", 1) == (outcome["approval"]["via"], outcome["exit_code"])
    (page,) = (tmp_path / "store" / "pages").glob(f"{outcome['gate_id']}.txt")
    assert "nobody answered by" in page.read_text()
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))
