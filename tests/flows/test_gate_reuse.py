"""A PASS that stands for the next gate, and one that does not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.flows.driving import Play, gate_it, logs, play
from tests.flows.gates import runs, write_gate

__all__ = ["play"]
pytestmark = pytest.mark.usefixtures("prefect_backend", "play")


def test_a_fresh_pass_is_reused(tmp_path: Path) -> None:
    """The second gate checks nothing, says whose PASS it stands on, and trains."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)

    _, second = gate_it(path)

    assert runs(tmp_path / "store") == 2
    assert second.judged is not None and second.judged.reused == first.gate_id
    assert logs(tmp_path, "train").count("trained") == 4


@pytest.mark.long
def test_a_pass_of_other_machines_is_checked_again_in_place(tmp_path: Path) -> None:
    """Where identities differ the nodes run the real checks before they train."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
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


@pytest.mark.parametrize(
    ("edit", "override"),
    [
        (None, "checks.profile=standard"),
        (b"corrupt", None),
    ],
)
def test_a_pass_that_does_not_fit_is_not_reused(
    tmp_path: Path, edit: bytes | None, override: str | None
) -> None:
    """Other checks, or a report that was changed since: the nodes are checked."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)
    if edit is not None:
        report = tmp_path / "store" / "gates" / first.gate_id / "health_check_metrics.json"
        report.write_bytes(report.read_bytes() + edit)

    gate_it(path, *([override] if override else []))

    assert runs(tmp_path / "store") == 4


def test_a_refusal_voids_an_older_pass(tmp_path: Path, play: Play) -> None:
    """After a FAIL the cluster has no PASS to stand on."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    gate_it(path)
    play("wrong")
    gate_it(path, "policy.reuse_pass_minutes=0")
    play("healthy")

    gate_it(path)

    assert runs(tmp_path / "store") == 6
