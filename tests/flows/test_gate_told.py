"""A gate that tells people: by real services, with secrets of the Prefect server, and an end that none of it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.gate import progress
from tasks.gate.outcome import Decision
from tasks.gate.session import Session
from tasks.notifiers.base import NotifyError
from tasks.notifiers.secret_refs import secret
from tasks.text.redact import redact
from tests.fakes.pagerduty import PagerDuty, pagerduty_server
from tests.flows.driving import gate_it, kept
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("prefect_backend")


@pytest.fixture
def pagerduty() -> Iterator[PagerDuty]:
    """The service."""
    with pagerduty_server() as server:
        yield server


def told_gate(
    folder: Path, pagerduty: PagerDuty, hardware: str = "env:PD", owner: str = "env:PD_OWNER"
) -> Path:
    """A gate file whose both sides have PagerDuty."""
    path = fake_gate(folder)
    tables = f"""
[notify]
order = ["pagerduty"]
owner = ["pagerduty"]
[notify.pagerduty]
routing_key = "{hardware}"
owner_routing_key = "{owner}"
url = "{pagerduty.url}"
"""
    path.write_text(path.read_text(encoding="utf-8") + tables, encoding="utf-8")
    return path


def save_block(name: str, value: str) -> None:
    """As a person does in the UI."""
    from prefect.blocks.system import Secret
    from pydantic import SecretStr

    async def save() -> None:
        await Secret(value=SecretStr(value)).save(name, overwrite=True)

    asyncio.run(save())


def test_an_incident_opens_with_a_refusal_and_closes_with_a_go(
    tmp_path: Path, engine: Engine, pagerduty: PagerDuty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The culprit's, on the hardware's service; the routing key comes from a block of the server and is in no record."""
    key, owner = pagerduty.service(), pagerduty.service()
    save_block("pd-hardware", key)
    monkeypatch.setenv("PD_OWNER", owner)
    path = told_gate(tmp_path, pagerduty, hardware="block:secret/pd-hardware")
    engine.parts = ["wrong"]
    _, outcome = gate_it(path)
    (incident,) = pagerduty.open(key)

    assert ("prelaunch/test/node-1", "critical") == (incident.dedup_key, incident.payload["severity"])
    assert ["pagerduty: incident prelaunch/test/node-1"] == kept(tmp_path, outcome, "outcome.json")["told"][
        "told"
    ]
    engine.parts = ["healthy"]
    _, outcome = gate_it(path)

    assert ([], []) == (pagerduty.open(key), pagerduty.incidents[owner])
    assert ["pagerduty: 1 incident resolved"] == kept(tmp_path, outcome, "outcome.json")["told"]["told"]
    assert [] == [file for file in (tmp_path / "store").rglob("*.*") if key.encode() in file.read_bytes()]


@pytest.mark.usefixtures("without_prefect")
def test_a_go_that_leaves_machines_to_be_paid_for_tells_the_owner(
    tmp_path: Path, engine: Engine, pagerduty: PagerDuty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The go is a go, and resolves; what is left is another matter, which it does not resolve."""

    def kept_on(self: Session) -> None:
        self.unreleased[:] = ["the machines of g-1 may still be kept: throttled"]

    monkeypatch.setattr(Session, "release_machines", kept_on)
    monkeypatch.setenv("PD", pagerduty.service())
    monkeypatch.setenv("PD_OWNER", owner := pagerduty.service())
    _, outcome = gate_it(told_gate(tmp_path, pagerduty))
    (incident,) = pagerduty.open(owner)

    assert (0, f"prelaunch/test/machines-still-billed/{outcome.gate_id}") == (
        outcome.code,
        incident.dedup_key,
    )
    assert incident.payload["summary"].startswith("MACHINES MAY STILL BE BILLED: the machines of g-1")


def test_missing_secrets_of_notifiers_are_reported_at_the_start(
    tmp_path: Path,
    engine: Engine,
    pagerduty: PagerDuty,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """On stderr and in the record, before anything is wrong; the gate goes on. The log of the run names its stages with their times:
    whoever diagnoses a run on a worker has nothing else.
    """
    monkeypatch.delenv("PD", raising=False)
    monkeypatch.setattr(progress, "NOTED_S", 0.0)  # a stage of this gate may take less than a second
    with caplog.at_level(logging.INFO, logger="prefect.flow_runs"):
        _, outcome = gate_it(told_gate(tmp_path, pagerduty, owner="block:secret/nobody-made-it"))
    missing = kept(tmp_path, outcome, "told/ways.json")["missing"]

    assert ["block:secret/nobody-made-it", "env:PD"] == sorted(missing)
    assert 0 == outcome.code
    assert "may not be able to notify: the environment variable PD is not set" in capfd.readouterr().err
    said = [record.getMessage() for record in caplog.records if record.name == "prefect.flow_runs"]
    for stage in ("start", "checks", "verdict", "training"):
        begun = next(place for place, line in enumerate(said) if line.startswith(f"{stage}: "))
        assert any(line.startswith(f"{stage}: ended after ") for line in said[begun + 1 :]), said


@pytest.mark.usefixtures("without_prefect")
def test_a_page_that_cannot_be_made_changes_no_end(
    tmp_path: Path, engine: Engine, pagerduty: PagerDuty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shorter one is sent. (A service that hangs: test_gate_slack.py.)"""

    def defect(*_: object) -> str:
        raise RuntimeError("a defect")

    monkeypatch.setenv("PD", pagerduty.service())
    monkeypatch.setenv("PD_OWNER", pagerduty.service())
    monkeypatch.setattr("tasks.page.page_of", defect)
    engine.parts = ["wrong"]
    state, outcome = gate_it(told_gate(tmp_path, pagerduty))
    told = kept(tmp_path, outcome, "outcome.json")["told"]

    assert ("Refused", 1, Decision.REFUSED) == (state.name, outcome.code, outcome.decision)
    assert [] == told["failed"] and told["told"]


def test_a_block_is_read_from_a_running_loop_and_from_a_thread() -> None:
    """A session ends in its flow's own thread, where a loop runs. What was read is taken out of every text."""
    save_block("of-digits", "31415926535")

    async def flow() -> tuple[str, str]:
        return secret("block:secret/of-digits"), await asyncio.to_thread(secret, "block:secret/of-digits")

    assert ("31415926535", "31415926535") == asyncio.run(flow())
    assert "key [removed]" == redact("key 31415926535", {})


def test_a_block_that_is_not_there_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """With what to do."""
    caplog.set_level(logging.CRITICAL)
    with pytest.raises(
        NotifyError,
        match=r"block secret/nobody-made-it cannot be read \(ObjectNotFound\). Create it in Prefect's UI",
    ):
        secret("block:secret/nobody-made-it")
