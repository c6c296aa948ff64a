"""A real gate that asks, and people who answer it in Slack."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.gate.outcome import Decision, Outcome
from tasks.gate.question import AnswerChannel
from tasks.notifiers.slack.messages import APPROVE, REFUSE
from tasks.orchestration.server.server import EmbeddedServer
from tests.flows.driving import Play, request_of, run
from tests.flows.driving import play as play
from tests.tasks.slackbot.stage import ADA, BOB, Stage, stage, until


def gated(world: Stage, person: Callable[[Stage], None]) -> Outcome:
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


@pytest.mark.parametrize(
    ("part", "user", "decision"),
    [
        ("warn", ADA, Decision.LAUNCHED),
        pytest.param("wrong", BOB, Decision.OVERRIDDEN, marks=pytest.mark.long),
    ],
)
def test_a_launch_on_a_word_in_slack(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefect_backend: EmbeddedServer,
    play: Play,
    part: str,
    user: str,
    decision: Decision,
) -> None:
    """The training starts; who, why and that it was proven are in the record and in the one message's thread."""
    play(part)
    with stage(tmp_path, monkeypatch) as world, world.app():
        outcome = gated(world, launching(user, "the run is short"))

        message = world.slack.only()
        assert (decision, 0) == (outcome.decision, outcome.code), outcome.reason
        answer: Any = outcome.answer
        assert (user, AnswerChannel.SLACK, True, "the run is short") == (
            answer.who,
            answer.via,
            answer.verified,
            answer.reason,
        )
        assert {} == message.actions
        assert any("the run is short" in reply.shown for reply in world.slack.thread(message))


@pytest.mark.long
def test_a_refusal_in_slack_launches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_backend: EmbeddedServer, play: Play
) -> None:
    """One press is enough, and the run ends refused."""
    play("warn")

    def refuse(world: Stage) -> None:
        world.socket.click(BOB, next(m for m in world.slack.posted() if m.actions), REFUSE)

    with stage(tmp_path, monkeypatch) as world, world.app():
        outcome = gated(world, refuse)

        assert 1 == outcome.code
        assert outcome.answer is not None
        assert (BOB, True, None) == (outcome.answer.who, outcome.answer.verified, outcome.training)
        assert {} == world.slack.only().actions
