"""A PASS that stands for the next gate, and one that does not."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest

from tasks.gate.outcome import JudgedReport
from tasks.judge import find_fresh_pass
from tests.flows.driving import gate_it, logs, open_session, play, request_of
from tests.flows.fake_engine import Engine
from tests.flows.gates import runs, write_gate
from tests.flows.pools import engine, fake_gate

__all__ = ["engine", "play"]
pytestmark = pytest.mark.usefixtures("prefect_backend", "play")


def found(path: Path, *overrides: str) -> JudgedReport | None:
    """The PASS that the flow of a gate would reuse."""
    with open_session(request_of(path, *overrides), "another-run") as session:
        return find_fresh_pass(session, time.time())


def test_a_fresh_pass_is_reused_where_it_fits(tmp_path: Path) -> None:
    """The second gate checks nothing, says whose PASS it stands on, and trains.

    Other checks, or a report that was changed since: there is no PASS, and test_a_refusal_voids_an_older_pass has what follows.
    """
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)

    _, second = gate_it(path)

    assert runs(tmp_path / "store") == 2
    assert second.judged is not None and second.judged.reused == first.gate_id
    assert logs(tmp_path, "train").count("trained") == 4

    again = found(path)
    assert again is not None and again.reused == first.gate_id
    assert found(path, "checks.profile=standard") is None
    report = tmp_path / "store" / "gates" / first.gate_id / "health_check_metrics.json"
    report.write_bytes(report.read_bytes() + b"corrupt")
    assert found(path) is None


@pytest.mark.long
def test_a_pass_of_other_machines_is_checked_again_in_place(tmp_path: Path) -> None:
    """Where identities differ the nodes run the real checks before they train."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    policy = tmp_path / "policy.toml"
    # As the shipped policy of this type: four ranks share the cores, and real pair tests wait for one.
    real = policy.read_text().replace(
        "floor_gbps = 0.01", "floor_gbps = 0.01, slow_ratio = 0.1, late_ratio = 0.02"
    )
    assert "slow_ratio" in real
    policy.write_text(real)
    _, first = gate_it(path)
    report = tmp_path / "store" / "gates" / first.gate_id / "health_check_metrics.json"
    kept = tmp_path / "store" / "passes" / "test.json"
    other = report.read_bytes().replace(b'"boot_id":"', b'"boot_id":"other-')
    report.write_bytes(other)
    entry = json.loads(kept.read_text())
    kept.write_text(json.dumps({**entry, "report": hashlib.sha256(other).hexdigest()}))

    _, second = gate_it(path)

    assert "boot_id was other-" in logs(tmp_path, "train")
    assert list(tmp_path.glob("store/clusters/*/jobs/*-train-*/out/*/verdicts/node-0.json"))
    assert second.judged is not None and second.judged.reused == first.gate_id


def test_a_refusal_voids_an_older_pass(tmp_path: Path, engine: Engine) -> None:
    """After a FAIL the cluster has no PASS to stand on."""
    engine.parts = ["healthy", "wrong", "healthy"]
    path = fake_gate(tmp_path, policy="reuse_pass_minutes = 60")
    first, refused, last = (
        gate_it(path, *said)[1].code for said in ((), ("policy.reuse_pass_minutes=0",), ())
    )

    assert (0, 1, 0) == (first, refused, last)
    assert 3 == sum("-check-" in job for job in engine.jobs)
