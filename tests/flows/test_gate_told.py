"""A gate that tells people: by real services and in Slack, with secrets of the Prefect server, and an end that none of it changes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.gate import progress
from tasks.gate.outcome import Decision
from tasks.gate.session import Session
from tasks.notifiers.base import NotifyError
from tasks.notifiers.secret_refs import secret
from tasks.notifiers.slack import client
from tasks.text.redact import redact
from tests.fakes.pagerduty import PagerDuty, pagerduty_server
from tests.fakes.slack.server import Failure, SlackServer, slack_server
from tests.flows.answering import answer_all, form
from tests.flows.cli.conftest import Captured
from tests.flows.driving import cancelled, gate_it, kept, request_of
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("prefect_backend", "engine")
Logged = pytest.LogCaptureFixture


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
    notified = kept(tmp_path, outcome)["told"]["told"]
    assert ["pagerduty: incident prelaunch/test/node-1"] == notified
    engine.parts = ["healthy"]
    _, outcome = gate_it(path)

    assert ([], []) == (pagerduty.open(key), pagerduty.incidents[owner])
    assert ["pagerduty: 1 incident resolved"] == kept(tmp_path, outcome)["told"]["told"]
    assert [] == [file for file in (tmp_path / "store").rglob("*.*") if key.encode() in file.read_bytes()]


@pytest.mark.usefixtures("without_prefect")
def test_a_go_that_leaves_machines_to_be_paid_for_tells_the_owner(
    tmp_path: Path, pagerduty: PagerDuty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The go is a go, and resolves; what is left is another matter, which it does not resolve."""

    def kept_on(self: Session) -> None:
        self.unreleased[:] = ["the machines of g-1 may still be kept: throttled"]

    monkeypatch.setattr(Session, "release_machines", kept_on)
    monkeypatch.setenv("PD", pagerduty.service())
    monkeypatch.setenv("PD_OWNER", owner := pagerduty.service())
    _, outcome = gate_it(told_gate(tmp_path, pagerduty))
    (incident,) = pagerduty.open(owner)

    key = f"prelaunch/test/machines-still-billed/{outcome.gate_id}"
    assert (0, key) == (outcome.code, incident.dedup_key)
    assert incident.payload["summary"].startswith("MACHINES MAY STILL BE BILLED test: the machines of g-1")


def test_missing_secrets_of_notifiers_are_reported_at_the_start(
    tmp_path: Path, pagerduty: PagerDuty, monkeypatch: pytest.MonkeyPatch, capfd: Captured, caplog: Logged
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
    """A shorter one is sent."""

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


def test_a_block_that_is_not_there_is_named(caplog: Logged) -> None:
    """With what to do."""
    caplog.set_level(logging.CRITICAL)
    message = r"block secret/nobody-made-it cannot be read \(ObjectNotFound\). Create it in Prefect's UI"
    with pytest.raises(NotifyError, match=message):
        secret("block:secret/nobody-made-it")


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    """A workspace with #gates, and its token where the gate file says that it is."""
    with slack_server() as started:
        started.channel("gates")
        monkeypatch.setenv("SLACK_BOT_TOKEN", started.token)
        yield started


def gate_with(slack: SlackServer, folder: Path, on_warn: str = "go", more: str = "") -> Path:
    """A gate file that tells Slack."""
    path = fake_gate(folder, on_warn=on_warn)
    tables = f'[notify]\norder = ["slack"]\nowner = ["slack"]\n[notify.slack]\nchannel = "#gates"\napi_url = "{slack.url}"\n'
    tables += 'mention = ["U123"]\nowner_mention = ["U789"]\n'
    path.write_text(f"{path.read_text()}\n{tables}{more}", encoding="utf-8")
    return path


def test_a_refused_gate_is_one_message(
    slack: SlackServer, tmp_path: Path, engine: Engine, caplog: Logged, capfd: Captured
) -> None:
    """In its final state, with a thread; and the token is kept nowhere."""
    caplog.set_level(logging.DEBUG)
    engine.parts = ["wrong"]

    _, outcome = gate_it(gate_with(slack, tmp_path))

    message = slack.only()
    assert message.text.startswith("NO-GO test: node-1, rank 3 computes wrong sums")
    assert message.past[0].startswith("looking at test, ")
    calls = [reply for reply in slack.thread(message) if reply.broadcast]
    assert [call.text.partition(" ")[0] for call in calls] == ["<@U123>"]
    said = json.loads((tmp_path / f"store/gates/{outcome.gate_id}/told/refused.json").read_bytes())
    assert any("https://stand-in.slack.com/" in line for line in said["told"])
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in texts if slack.token.encode() in text]
    out, err = capfd.readouterr()
    assert slack.token not in f"{caplog.text}{out}{err}"


def test_a_question_is_asked_answered_and_closed(slack: SlackServer, tmp_path: Path, engine: Engine) -> None:
    """Buttons while it waits; then the same message says how it ended, and the thread who decided and why."""
    engine.parts = ["warn"]
    path = gate_with(slack, tmp_path, on_warn="ask", more='[approval]\napprovers = ["U789"]\n')
    seen: list[list[str]] = []

    async def answer() -> Decision | None:
        given = form("launch-anyway", "it is short")
        running = asyncio.create_task(answer_all(request_of(path, ask_minutes=1), given))
        while not seen and not running.done():
            await asyncio.sleep(0.02)
            seen.extend(list(m.actions) for m in slack.posted() if m.actions)
        return (await running)[1].decision

    assert asyncio.run(answer()) is Decision.LAUNCHED

    message = slack.only()
    assert seen[0] == ["prelaunch_refuse", "prelaunch_approve", "prelaunch_recheck"]
    assert message.text.startswith(
        "APPROVED test: Ada (Prefect's form, unverified) started the training despite warnings: node-1"
    )
    assert message.actions == {}
    thread = slack.thread(message)
    assert 1 == sum("Ada" in reply.text and "it is short" in reply.shown for reply in thread)


def test_without_slack_nothing_else_changes(
    slack: SlackServer, tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down for the whole run: the same verdict and exit code, the page is kept, and the failure is said."""
    monkeypatch.setattr(client, "TRY_S", 0.4)
    engine.parts = ["wrong"]
    slack.fail(Failure.HANG, times=10_000)

    state, outcome = gate_it(gate_with(slack, tmp_path / "told"))

    assert (state.name, outcome.decision, outcome.code) == ("Refused", Decision.REFUSED, 1)
    kept = tmp_path / "told/store"
    said = json.loads((kept / f"gates/{outcome.gate_id}/told/refused.json").read_bytes())
    assert any("does not answer" in line for line in said["failed"])
    assert (kept / f"pages/{outcome.gate_id}.txt").read_text().startswith("NO-GO test")


def test_a_cancelled_gate_does_not_seem_to_run_on(slack: SlackServer, tmp_path: Path, engine: Engine) -> None:
    """Nobody is paged, and the message says that the run stopped."""
    engine.parts = ["hang"]

    cancelled(gate_with(slack, tmp_path), engine, lambda verb, job: engine.count("state") > 1)

    assert slack.only().text.startswith("stopped test")
    assert slack.thread(slack.only()) == []
