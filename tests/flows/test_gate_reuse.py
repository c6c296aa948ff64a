"""A PASS that stands for the next gate, and one that does not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tasks.gate.outcome import JudgedReport
from tasks.judge import find_fresh_pass
from tasks.launchers.base import JobState
from tests.flows.driving import cancelled, gate_it, open_session, request_of
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("without_prefect", "play")


def found(path: Path, *overrides: str) -> JudgedReport | None:
    """The PASS that the flow of a gate would reuse."""
    with open_session(request_of(path, *overrides), "another-run") as session:
        return find_fresh_pass(session, time.time())


def test_a_fresh_pass_is_reused_where_it_fits(tmp_path: Path, engine: Engine) -> None:
    """The second gate checks nothing, says whose PASS it stands on, and trains.

    Other checks, or a report that was changed since: there is no PASS. After a FAIL the cluster has none to stand on.
    """
    path = fake_gate(tmp_path, policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)

    _, second = gate_it(path)

    trained = [job for job in engine.jobs if "-check-" not in job]
    assert [f"{first.gate_id}-check-1", *trained] == list(engine.jobs)
    assert [JobState.SUCCEEDED] * 2 == [engine.last[job].state for job in trained]
    assert second.judged is not None and second.judged.reused == first.gate_id
    again = found(path)
    assert again is not None and again.reused == first.gate_id
    assert found(path, "checks.profile=standard") is None
    report = tmp_path / "store" / "gates" / first.gate_id / "health_check_metrics.json"
    whole = report.read_bytes()
    report.write_bytes(whole + b"corrupt")
    assert found(path) is None
    report.write_bytes(whole)
    engine.parts = ["wrong"]
    assert 1 == gate_it(path, "policy.reuse_pass_minutes=0")[1].code
    assert found(path) is None


def test_a_pass_ends_where_a_gate_measures_again(tmp_path: Path, engine: Engine) -> None:
    """Also where that gate launches nothing, and is cancelled before it has judged what its nodes found."""
    path = fake_gate(tmp_path, policy="reuse_pass_minutes = 60")
    gate_it(path, launch=False)
    assert found(path) is not None
    engine.parts = ["wrong"]

    cancelled(path, engine, lambda verb, job: verb == "fetch", launch=False)

    assert found(path) is None
