"""A real gate that asks, and people who answer it in Slack."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.gate.outcome import Decision, GateOutcome
from tasks.gate.question import AnswerChannel
from tasks.notifiers.slack.messages import APPROVE
from tasks.orchestration.server.server import EmbeddedServer
from tests.flows.conftest import play as play
from tests.flows.driving import Play, request_of, run
from tests.tasks.slackbot.stage import ADA, Stage, stage, until


def gated(world: Stage, person: Callable[[Stage], None]) -> GateOutcome:
    """The outcome of the gate while a person watches the channel."""
    failed: list[BaseException] = []

    def watching() -> None:
        try:
            until(lambda: any(message.actions for message in world.slack.posted()), "somebody is asked", 60)
            person(world)
        except BaseException as error:
            failed.append(error)

    watcher = threading.Thread(target=watching)
    watcher.start()
    try:
        _, outcome = asyncio.run(run(request_of(world.file, ask_minutes=1)))
    finally:
        watcher.join()
    assert [] == failed
    return outcome


def launching(user: str, reason: str) -> Callable[[Stage], None]:
    """Press the button, say why."""

    def act(world: Stage) -> None:
        message = next(message for message in world.slack.posted() if message.actions)
        world.socket.click(user, message, APPROVE)
        sent = world.socket.submit(user, world.socket.modal(), reason)
        assert sent.answer is None, sent.answer

    return act


def test_a_launch_on_a_word_in_slack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_backend: EmbeddedServer, play: Play
) -> None:
    """The training starts; who, why and that it was proven are in the record and in the one message's thread."""
    play("warn")
    with stage(tmp_path, monkeypatch) as world, world.app():
        outcome = gated(world, launching(ADA, "the run is short"))

        message = world.slack.only()
        assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code), outcome.reason
        answer: Any = outcome.answer
        found = answer.who, answer.via, answer.verified, answer.reason
        assert (ADA, AnswerChannel.SLACK, True, "the run is short") == found
        assert {} == message.actions
        assert any("the run is short" in reply.shown for reply in world.slack.thread(message))
