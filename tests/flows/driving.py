"""Runs the flow as the command does, with fake nodes, and sees that nothing of it is left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.gate import session
from tasks.gate.outcome import GateOutcome
from tasks.gate.progress import LISTENER, LiveProgress
from tasks.gate.session import Session
from tasks.gate_file.request import Advanced, GateRequest, RemedyRequest
from tasks.orchestration.run_state import run_is_final
from tests.flows.fake_engine import Engine
from tests.flows.gates import processes_below
from tests.survival import few_checks

Play = Callable[[str], None]


def request_of(
    path: Path, *overrides: str, wait: Any = "finished", ask_minutes: int = 0, launch: bool = True
) -> GateRequest:
    """The request that the command line would make."""
    advanced = Advanced(overrides=list(overrides), ask_minutes=ask_minutes)
    return GateRequest(gate_file=str(path), wait=wait, advanced=advanced, launch=launch)


def open_session(request: GateRequest, flow_run_id: str, resumed: bool = False) -> Session:
    """The session that the flow would open for this request."""
    from tasks.expire import close_expired_gate

    hooks: Any = {"on_expired": close_expired_gate, "run_over": run_is_final}
    return session.open_session(request, flow_run_id, resumed, **hooks)


async def run(request: GateRequest) -> tuple[Any, GateOutcome]:
    """Run the flow: its final state and its outcome."""
    from flows.gate import gate

    shown = LiveProgress(None)
    LISTENER.set(shown)
    state = await gate(request, return_state=True)
    if shown.outcome is None:
        await state.aresult(raise_on_failure=True)
    assert shown.outcome is not None
    return state, shown.outcome


def gate_it(path: Path, *overrides: str, **more: Any) -> tuple[Any, GateOutcome]:
    """Run the flow to its end, and see that nothing of it is left."""
    state, outcome = asyncio.run(run(request_of(path, *overrides, **more)))
    store = path.parent / "store"
    assert not list((store / "leases").rglob("*.json"))
    assert not list((store / "work").glob("*"))
    if (store / "clusters").exists() and more.get("wait", "finished") == "finished":
        assert processes_below(path.parent) == []
    return state, outcome


def cancelled(path: Path, engine: Engine, when: Callable[[str, str], bool], launch: bool = True) -> None:
    """Run the flow, and cancel it at the first call of the engine of which `when` is true; see that nothing is left."""

    async def cancel() -> None:
        running = asyncio.create_task(run(request_of(path, launch=launch)))
        loop = asyncio.get_running_loop()

        def hook(verb: str, job: str) -> None:
            if when(verb, job):
                loop.call_soon_threadsafe(running.cancel)

        engine.hook = hook
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())
    assert engine.jobs and engine.idle
    assert not list((path.parent / "store" / "leases").rglob("*.json"))


def logs(folder: Path, stage: str) -> str:
    """What the nodes of a stage printed."""
    files = sorted(folder.glob(f"store/clusters/*/jobs/*-{stage}-*/nodes/*/log"))
    return "".join(path.read_text() for path in files)


def kept(folder: Path, outcome: GateOutcome, name: str = "outcome.json") -> Any:
    """A document that the gate kept."""
    return json.loads((folder / "store" / "gates" / outcome.gate_id / name).read_bytes())


def gate_of_few_checks(path: Path, *overrides: str, **more: Any) -> GateOutcome:
    """Run a gate to its end, with the few checks in this process as well."""
    with few_checks.chosen():
        _, outcome = asyncio.run(run(request_of(path, *overrides, **more)))
    return outcome


def remedy_of_few_checks(path: Path) -> Any:
    """Run the remediation of such a gate to its end; returns its state."""
    from flows.remedy import remedy

    async def go() -> Any:
        return await remedy(RemedyRequest(gate_file=str(path)), return_state=True)

    with few_checks.chosen():
        return asyncio.run(go())


def page(folder: Path, outcome: GateOutcome) -> str:
    """What somebody was told last."""
    return (folder / "store" / "pages" / f"{outcome.gate_id}.txt").read_text()
