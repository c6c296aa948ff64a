"""Where a gate keeps what it knows: in S3 over real HTTP, and through an outage."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from checks.documents.report import load
from checks.model import Level
from tasks.gate.outcome import Decision
from tasks.store import s3
from tasks.store.aws import AwsTimeouts
from tasks.store.history import listed
from tasks.store.layout import fleet_key
from tasks.store.open import open_store
from tests.flows.driving import gate_it
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate
from tests.tasks.store.servers import BUCKET, Flaky
from tests.tasks.store.test_s3 import proxy, server

__all__ = ["proxy", "server"]
pytestmark = pytest.mark.usefixtures("without_prefect", "engine")


def in_s3(path: Path) -> str:
    """Let the gate file keep its store in S3; what is local stays where tests look. Returns the address."""
    address = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    local = json.dumps(str(path.parent / "store"))
    there = f"path = {json.dumps(address)}\nwork = {local}"
    path.write_text(path.read_text().replace(f"path = {local}", there))
    return address


def test_a_gate_keeps_everything_in_s3(tmp_path: Path, server: Flaky) -> None:
    """GO: report, verdict, page, record and logs are there; lease and local copies are gone; the list has it."""
    path = fake_gate(tmp_path)
    store = open_store(in_s3(path))
    state, outcome = gate_it(path)

    html = f"{store.location('gates')}/{outcome.gate_id}/report.html"
    assert ("Launched", 0, html) == (state.name, outcome.code, outcome.html)
    kept = {key.rpartition("/")[2] for key in store.list(f"gates/{outcome.gate_id}")}
    assert {"health_check_metrics.json", "verdict.json", "report.html", "outcome.json", "node-0.log"} <= kept
    assert () == store.list("leases")
    assert not (tmp_path / "store" / "gates").exists()
    (found,) = listed(store).records
    assert (outcome.gate_id, "test", "test") == (found.gate_id, found.gate, found.cluster)
    assert Level.PASS is found.level
    assert load(store.get(found.report) or b"").gate_id == outcome.gate_id
    page = (store.get(fleet_key("test")) or b"").decode()
    assert "2 of 2 nodes proven within 24 h" in page and "https://console.aws.amazon.com/s3/object/" in page


def test_a_short_outage_while_publishing_costs_nothing(tmp_path: Path, server: Flaky) -> None:
    """S3 asks for patience, and gets it."""
    path = fake_gate(tmp_path)
    in_s3(path)
    server.faults = ["ok"] * 8 + ["slow", "ok", "lost", "ok"] * 3
    _, outcome = gate_it(path)

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code)
    assert [] == server.faults


def test_an_outage_in_the_middle_of_publishing_launches_nothing(
    tmp_path: Path, engine: Engine, server: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verdict that nobody can read again is none: cannot tell, with the store's words; what was kept stays whole."""
    monkeypatch.setattr(s3, "LIMITS", AwsTimeouts(10, 10, 1.5))
    path = fake_gate(tmp_path)
    store = open_store(in_s3(path))
    server.dies_at = "verdict.json"
    state, outcome = gate_it(path)
    server.dies_at, server.always = "nothing", "ok"

    assert ("CannotTell", 3, Decision.CANNOT_TELL) == (state.name, outcome.code, outcome.decision)
    assert "no answer in 1.5 s" in outcome.reason
    assert [f"{outcome.gate_id}-check-1"] == list(engine.jobs)
    for key in store.list(f"gates/{outcome.gate_id}"):
        if key.endswith(".json"):
            assert json.loads(store.get(key) or b"")
