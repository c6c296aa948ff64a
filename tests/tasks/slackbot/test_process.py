"""The process as a whole: connections that come and go, answers that wait, a real gate that asks, and an end that leaves nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.gate.outcome import Decision, GateOutcome
from tasks.gate.question import AnswerChannel, ApprovalAction
from tasks.notifiers.slack.messages import APPROVE, REFUSE
from tasks.slackbot import handover, process
from tasks.slackbot.config import read_config
from tasks.slackbot.prefect_client import PrefectRuns, PrefectUnreachable
from tasks.slackbot.process import Plain, SlackAppError, SlackProcess
from tests.fakes.slack.server import Failure
from tests.flows.conftest import play as play
from tests.flows.driving import Play, request_of, run
from tests.tasks.slackbot.stage import ADA, Stage, stage
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("prefect_backend")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A workspace and a gate file; the test starts the process itself."""
    monkeypatch.setattr(handover, "EVERY_S", 0.05)
    monkeypatch.setattr(process, "PING_S", 0.2)
    with stage(tmp_path, monkeypatch) as made:
        yield made


def threads() -> set[str]:
    """Threads of the process under test; those of the stand-in answer within its `with`."""
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if name.startswith(("slack-", "ThreadPoolExecutor", "Thread-"))}


def gone(before: set[str]) -> None:
    """No thread is left."""
    until(lambda: not {name for name in threads() - before if "handle" not in name}, "no thread is left")


def test_slack_may_cut_or_replace_its_connection_at_any_time(world: Stage) -> None:
    """It asks for a new one, breaks one, or is down for a while: nobody has to restart anything, and at the end nothing is left."""
    before = threads()
    with world.app():
        asking = world.ask()
        world.socket.command(ADA, "help")
        world.socket.refresh()
        asking.click(ADA, REFUSE)
        asking.resumed()
        assert (2, 2) == (len(world.socket.answered(2)), world.socket.hellos)

        world.socket.down = True
        world.socket.drop()
        world.socket.wait_gone()
        world.socket.down = False
        world.socket.wait_connected(3)
        world.socket.command(ADA, "help")
        assert 3 == len(world.socket.answered(3))

    world.socket.wait_gone()
    gone(before)


def test_an_answer_survives_a_server_that_restarts(world: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recorded at once, and handed over by the next process once the server is back."""

    def unreachable(*_: Any) -> Any:
        raise PrefectUnreachable("Prefect's server does not answer (ConnectError).")

    # The fault is entered first and so lasts until the process has ended, whose thread tries again while it ends.
    with monkeypatch.context() as patch, world.app():
        patch.setattr(PrefectRuns, "run", unreachable)
        patch.setattr(PrefectRuns, "going", unreachable)
        asking = world.ask()
        asking.click(ADA, REFUSE)
        assert "Recorded" in asking.whispered()
        assert asking.answer is not None
        assert (ApprovalAction.BLOCK, "PAUSED") == (asking.answer.action, asking.state)

    with world.app():
        asking.resumed()


@pytest.mark.parametrize(
    ("method", "failure"), [("auth.test", Failure.SERVER_ERROR), ("apps.connections.open", Failure.RESET)]
)
def test_slack_that_is_down_at_the_start_is_said(world: Stage, method: str, failure: Failure) -> None:
    """And no thread is left of the attempt."""
    before = threads()
    world.slack.fail(failure, times=20, method=method)

    with pytest.raises(SlackAppError) as raised, world.app():
        pass

    assert "Slack" in str(raised.value) and not raised.value.rejected
    gone(before)


def test_a_socket_that_says_nothing_is_no_connection(world: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a hello nobody would ever be answered."""
    monkeypatch.setattr(process, "HELLO_S", 0.3)
    world.socket.silent = True

    with pytest.raises(SlackAppError, match="Slack opened no socket"), world.app():
        pass


@pytest.mark.parametrize("which", ["SLACK_APP_TOKEN", "SLACK_BOT_TOKEN"])
def test_a_token_that_slack_refuses_is_named_by_its_place(
    world: Stage, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """Never by its value; it is the configuration that is wrong. One that is not there is named before anybody is called."""
    monkeypatch.delenv(which)
    with pytest.raises(SlackAppError, match=f"{which} is not set") as lacking:
        SlackProcess(read_config(world.config)).__enter__()
    assert (True, []) == (lacking.value.rejected, world.slack.calls)
    monkeypatch.setenv(which, "xoxb-wrong-and-secret")

    with pytest.raises(SlackAppError) as raised, world.app():
        pass

    assert raised.value.rejected
    assert f"env:{which}" in str(raised.value) and "xoxb-wrong" not in str(raised.value)


def test_the_log_holds_no_token_and_no_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a library writes."""
    monkeypatch.setenv("SOME_TOKEN", "swordfish-swordfish")
    said = "open wss://x/link/?ticket=abc-def&app_id=A1 with xapp-1-A1-22-deadbeef xoxb-1234567890-abc swordfish-swordfish"
    record = logging.LogRecord("prelaunch.slack", logging.INFO, "", 0, said, None, None)

    shown = Plain().format(record)

    assert not [word for word in ("abc-def", "deadbeef", "1234567890", "swordfish") if word in shown]


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


def test_a_launch_on_a_word_in_slack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, play: Play) -> None:
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
