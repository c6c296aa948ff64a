"""A gate that tells people in Slack, from its first look to its end, over real HTTP against a stand-in of Slack."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision
from tasks.notifiers.slack import client
from tests.fakes.slack.server import Failure, SlackServer, slack_server
from tests.flows.answering import answer_all, form
from tests.flows.driving import gate_it, request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("prefect_backend", "engine")


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
    slack: SlackServer,
    tmp_path: Path,
    engine: Engine,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
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
        running = asyncio.create_task(
            answer_all(request_of(path, ask_minutes=1), form("launch-anyway", "it is short"))
        )
        while not seen and not running.done():
            await asyncio.sleep(0.02)
            seen.extend(list(m.actions) for m in slack.posted() if m.actions)
        return (await running)[1].decision

    assert asyncio.run(answer()) is Decision.LAUNCHED

    message = slack.only()
    assert seen[0] == ["prelaunch_refuse", "prelaunch_approve", "prelaunch_recheck"]
    assert message.text.startswith("launched, approved by Ada (Prefect's form, unverified): ASK test: node-1")
    assert message.actions == {}
    assert (
        len(
            [reply for reply in slack.thread(message) if "Ada" in reply.text and "it is short" in reply.shown]
        )
        == 1
    )


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
    path = gate_with(slack, tmp_path)

    async def cancel() -> None:
        running = asyncio.create_task(run(request_of(path)))
        while not engine.count("state"):
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())

    assert slack.only().text.startswith("stopped test")
    assert slack.thread(slack.only()) == []
