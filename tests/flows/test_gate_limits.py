"""An engine that never gets on: every wait has its end, and what is left over is told to somebody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks import collect
from tasks.launchers.base import JobSpec, JobStatus, LaunchError
from tests.flows.driving import gate_it, play
from tests.flows.fake_engine import Engine
from tests.flows.pools import engine, fake_gate

__all__ = ["engine", "play"]
pytestmark = pytest.mark.usefixtures("prefect_backend", "play")


def test_checks_that_stay_pending_are_ended(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have `start_s`. Of a training that finds no machines: test_gate_no_machines.py."""

    def never(job: JobSpec) -> Iterator[JobStatus]:
        return iter(())

    monkeypatch.setattr(engine, "_check", never)
    engine.start_s = 0.1

    _, outcome = gate_it(fake_gate(tmp_path))

    assert (5, True) == (outcome.code, engine.idle), outcome.reason
    assert "did not start within" in outcome.reason


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
