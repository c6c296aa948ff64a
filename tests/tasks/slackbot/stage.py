"""A gate that asks, a workspace of Slack where it asked, and `prelaunch serve slack` between it and a real Prefect server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client

from checks.model import SCHEMA_VERSION
from tasks.gate.question import ApprovalAnswer, Question, keep_question, read_answer
from tasks.gate_file.read import read_gate_file
from tasks.notifiers.base import Notification, NotifierAccess, PageKind, PendingQuestion
from tasks.notifiers.slack.messages import APPROVE
from tasks.slackbot.config import read_config
from tasks.slackbot.process import SlackProcess
from tasks.store.folder import FolderStore
from tests.fakes.slack.server import SlackServer, slack_server
from tests.fakes.slack.socket import Envelope, SocketMode, socket_mode
from tests.fakes.slack.workspace import Message
from tests.flows.gates import write_gate
from tests.waiting import until

ADA, BOB, EVE = "U0ADA", "U0BOB", "U0EVE"
GATE_ID = "test-20261122-070000-0001"
KEY = "gate-1-abcdef"
TABLES = """
[notify]
order = ["slack"]
owner = ["slack"]
[notify.slack]
channel = "{channel}"
api_url = "{url}"
[approval]
approvers = ["U0ADA"]
overriders = ["U0BOB"]
on_fail = "ask"
"""
CONFIG = """
api_url = "{url}"
[gates.p5]
deployment = "gate/{deployment}"
gate_file = "gate.toml"
users = ["U0ADA"]
"""


@dataclass
class Stage:
    """Everything that one test needs; `folder` holds gate file, store and list."""

    folder: Path
    slack: SlackServer
    socket: SocketMode
    channel: str
    file: Path
    store: FolderStore
    config: Path

    def ask(
        self, *, override: bool = False, minutes: float = 30, gate_id: str = GATE_ID, repair: str = ""
    ) -> Asking:
        """A run that waits for an answer, its question in the store and its message in the channel."""
        run = paused_run(self.file, KEY, "remedy" if repair else "gate", gate_id)
        now = time.time()
        question = Question(
            SCHEMA_VERSION, gate_id, "test", "test", run, KEY, "ASK test: node-1: a *warning*",
            override or bool(repair), now, now + minutes * 60, (ADA,), (BOB,), repair,
        )  # fmt: skip
        keep_question(self.store, question)
        self.post(question)
        return Asking(self, question, self.slack.posted(self.channel)[-1])

    def post(self, question: Question) -> None:
        """The message with the buttons, as the gate's own notifier posts it."""
        from tasks.notifiers.slack.notifier import SlackNotifier

        table = read_gate_file(self.file).notify.slack
        assert table is not None
        means = NotifierAccess(self.store, lambda reference: self.slack.token)
        run, until_s = question.flow_run_id, question.deadline
        asked = PendingQuestion(run, question.key, until_s, question.override, "", True, question.repair)
        more: Any = {"gate": "test", "topic": PageKind.QUESTION, "question": asked}
        page = Notification(question.gate_id, "test", question.said, "", "", **more)
        SlackNotifier(table, means).send(page)

    @contextmanager
    def app(self) -> Iterator[SlackProcess]:
        """The process, in this one."""
        with SlackProcess(read_config(self.config)) as process:
            yield process


@dataclass
class Asking:
    """One question, and what people do with its message."""

    stage: Stage
    question: Question
    message: Message

    def click(self, user: str, action: str) -> Envelope:
        """Press a button."""
        return self.stage.socket.click(user, self.message, action)

    def launch(self, user: str, reason: str) -> Envelope:
        """Press the button, and send the modal that it opens."""
        before = len(self.stage.slack.views)
        self.click(user, APPROVE)
        until(lambda: len(self.stage.slack.views) > before, "the modal is open")
        return self.stage.socket.submit(user, self.stage.socket.modal(), reason)

    @property
    def answer(self) -> ApprovalAnswer | None:
        """What the store says."""
        return read_answer(self.stage.store, self.question.gate_id, self.question.key)

    @property
    def state(self) -> str:
        """Of the run."""
        return state_of(self.question.flow_run_id)

    def value(self, run: str) -> str:
        """The value of a button that a person still sees, though the message has lost it."""
        return json.dumps({"flow_run_id": run, "gate_id": self.question.gate_id, "key": self.question.key})

    def resumed(self) -> None:
        """Until the run goes on."""
        until(lambda: self.state == "RUNNING", "the run goes on")

    def said_below(self) -> list[str]:
        """What stands in the message's thread."""
        return [reply.shown for reply in self.stage.slack.thread(self.message)]

    def whispered(self, count: int = 1) -> str:
        """What was answered to whoever clicked last."""
        return str(self.stage.socket.answered(count)[-1]["text"])


@contextmanager
def stage(folder: Path, monkeypatch: Any, deployment: str = "p5") -> Iterator[Stage]:
    """A workspace and a gate file; the Prefect server is the fixture's."""
    with slack_server() as slack, socket_mode(slack) as socket:
        monkeypatch.setenv("SLACK_APP_TOKEN", slack.app_token)
        monkeypatch.setenv("SLACK_BOT_TOKEN", slack.token)
        channel = slack.channel("gates")
        file = write_gate(folder, on_warn="ask")
        with file.open("a", encoding="utf-8") as opened:
            opened.write(TABLES.format(channel=channel, url=slack.url))
        config = folder / "slack.toml"
        config.write_text(CONFIG.format(url=slack.url, deployment=deployment), encoding="utf-8")
        yield Stage(folder, slack, socket, channel, file, FolderStore(folder / "store"), config)


def paused_run(file: Path, key: str, flow: str = "gate", gate_id: str = GATE_ID) -> str:
    """A run of the gate's flow that waits for an answer, as the flow leaves it. Its id."""
    return asyncio.run(_paused(file, key, flow, gate_id))


async def _paused(file: Path, key: str, flow: str, gate_id: str) -> str:
    from prefect.states import Paused, Running

    from tasks.gate.approval.answers import keyset_of, pause_name, save_form

    async with get_client() as client:
        flow_id = await client.create_flow_from_name(flow)
        parameters = {"request": {"gate_file": str(file)}}
        wanted = {"flow_id": str(flow_id), "parameters": parameters, "state": {"type": "PENDING"}}
        made = await client.request("POST", "/flow_runs/", json=wanted)
        run = UUID(made.json()["id"])
        await client.set_flow_run_state(run, Running(), force=True)
        question: Any = type("Question", (), {"key": key, "gate_id": gate_id})()
        state: Any = Paused(timeout_seconds=3600, pause_key=pause_name(question))
        state.state_details.run_input_keyset = dict(keyset_of(key))
        done = await client.set_flow_run_state(run, state)
        assert done.state is not None and done.state.is_paused(), done
        await save_form(client, run, question, "the findings")
    return str(run)


def state_of(run: str) -> str:
    """The type of a run's state, as the server has it."""
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(run)).state
    return state.type.value if state else ""


def set_state(run: str, kind: str) -> None:
    """Let a run be in a state, whatever it was in."""
    from prefect.client.schemas.objects import State, StateType

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(run), State(type=StateType(kind)), force=True)


def filled_in(run: str) -> dict[str, Any]:
    """What the run's form brought."""
    from tasks.gate.approval.answers import keyset_of

    with get_client(sync_client=True) as client:
        text = client.read_flow_run_input(UUID(run), keyset_of(KEY)["response"])
    found: dict[str, Any] = json.loads(text)
    return found


def deployed(name: str, parameters: dict[str, Any], flow: str = "gate") -> str:
    """A deployment on the server that no worker serves. Its id."""
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow_from_name(flow)
        return str(client.create_deployment(flow_id, name, parameters=parameters, tags=["prelaunch"]))


def runs_of(deployment: str) -> list[Any]:
    """Its runs."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

    with get_client(sync_client=True) as client:
        chosen = DeploymentFilter(id=DeploymentFilterId(any_=[UUID(deployment)]))
        return list(client.read_flow_runs(deployment_filter=chosen))
