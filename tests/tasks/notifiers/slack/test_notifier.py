"""One message a gate run in Slack: brought up to date in place, with a thread that calls, and buttons while it asks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from tasks.gate.question import ApprovalAction
from tasks.notifiers.base import AnswerLine, Audience, PageKind
from tests.fakes.slack.server import Failure, SlackServer
from tests.tasks.notifiers.slack.slack_world import (
    ASKED,
    CANNOT_TELL,
    GO,
    QUESTION,
    REFUSED,
    STATUS,
    NotifierSetup,
    notifier_setup,
)
from tests.tasks.sessions import answer

HEAD = "NO-GO p5-prod: node ip-10-0-3-7 fails DCGM's diagnostic: GPU 5: memory: test failed"


@pytest.fixture
def setup(slack: SlackServer, tmp_path: Path) -> NotifierSetup:
    """A notifier for #gates that calls a user and a group."""
    return notifier_setup(slack, tmp_path, mention=("U123", "S456"), owner_mention=("U789",))


def test_progress_moves_one_message(slack: SlackServer, setup: NotifierSetup) -> None:
    """Posted once, then brought up to date in place, by whichever process."""
    setup.notifier.show(STATUS)
    setup.notifier.show(replace(STATUS, done=20, elapsed_s=95.0))

    assert slack.only().past == ["checking p5-prod: 14 of 27 observations, 80 s"]
    assert slack.only().text == "checking p5-prod: 20 of 27 observations, 95 s"
    assert "4 of 4 nodes report" in slack.only().shown


def test_a_refusal_is_the_messages_last_word(slack: SlackServer, setup: NotifierSetup) -> None:
    """Answer and culprit first; then remedy, commands, both costs and the links. An update notifies nobody: the first reply mentions
    whom it calls, once, and the channel sees it. Whoever is late with progress, in this process or another, changes nothing.
    """
    setup.notifier.show(STATUS)
    where = setup.notifier.send(REFUSED)
    setup.notifier.send(REFUSED)
    setup.notifier.show(STATUS)
    (call,) = slack.thread(slack.only())
    assert call.broadcast and call.text == f"<@U123> <!subteam^S456> {HEAD}"
    assert "GPU 5: error in 0x7f" in slack.only().shown
    assert where.startswith("https://stand-in.slack.com/archives/")

    message = slack.only()
    assert (message.text, message.shown.splitlines()[0]) == (HEAD, HEAD)
    for said in (
        "Replace the node.",
        "aws sagemaker update-training-job --training-job-name p5-1-check-1 --resource-config KeepAlivePeriodInSeconds=0",
        "waiting for a replacement costs 3 node-hours",
        "run in Prefect: http://127.0.0.1:4200/runs/flow-run/1 (opens only on the machine that runs this server)",
        "<https://console.aws.amazon.com/s3/object/bucket?prefix=gates/p5-1/report.html|report>",
    ):
        assert said in message.shown


def test_a_go_calls_nobody(slack: SlackServer, setup: NotifierSetup) -> None:
    """The final state in place, and a thread without a mention."""
    setup.notifier.show(STATUS)
    said = setup.notifier.settle(GO)

    message = slack.only()
    assert message.text == "GO p5-prod: 4 of 4 nodes"
    assert not any(one.broadcast or "<@" in one.shown + one.text for one in slack.thread(message))
    assert said.startswith("message updated: https://")


def test_progress_on_its_way_is_not_the_last_word(slack: SlackServer, setup: NotifierSetup) -> None:
    """A show that Slack answers slowly, and an end meanwhile: the end is what stays."""
    setup.notifier.show(STATUS)
    slack.fail(Failure.HANG, method="chat.update")
    late = Thread(target=setup.notifier.show, args=(STATUS,))
    late.start()
    while not slack.called("chat.update"):
        late.join(0.01)
    ending = Thread(target=setup.notifier.send, args=(REFUSED,))
    ending.start()
    ending.join(0.2)  # time enough to overtake
    slack.heal()
    late.join(60)
    ending.join(60)

    assert slack.only().text == HEAD


def test_a_question_has_buttons(slack: SlackServer, setup: NotifierSetup) -> None:
    """Their value says which question, the deadline is in the reader's own time, and the owner is called. Progress leaves them."""
    setup.notifier.send(QUESTION)
    setup.notifier.show(STATUS)

    message = slack.only()
    assert list(message.actions) == ["prelaunch_refuse", "prelaunch_approve", "prelaunch_recheck"]
    value = {"flow_run_id": "run-1", "gate_id": "p5-1", "key": "gate-1-a"}
    assert [json.loads(button["value"]) for button in message.actions.values()] == [value] * 3
    assert "<!date^1790000000^{date_short_pretty} at {time}|2026-09-21 14:13 UTC>" in message.shown
    assert slack.thread(message)[0].text.startswith("<@U789> ASK p5-prod: node-2: synchronised is false")


def test_slack_question_without_approvers_has_no_buttons(slack: SlackServer, setup: NotifierSetup) -> None:
    """No approvers in the gate file: no buttons that would answer nobody, and the way that there is."""
    setup.notifier.send(replace(QUESTION, question=replace(ASKED, by_slack=False)))

    assert slack.only().actions == {}
    assert "in Prefect (the button Resume on the run's page; http://127.0.0.1:4200/" in slack.only().shown


def test_an_answer_takes_the_buttons_away(slack: SlackServer, setup: NotifierSetup) -> None:
    """Who and why stand in the message and once in the thread, whoever says it; then progress goes on."""
    said = "Ada said launch-anyway in Slack: the clock is fixed"
    setup.notifier.send(QUESTION)
    before = len(slack.thread(slack.only()))

    setup.notifier.show_answer("p5-1", AnswerLine(said, key=ASKED.key))
    setup.notifier.show_answer("p5-1", AnswerLine(said, key=ASKED.key))
    assert (slack.only().actions, said in slack.only().shown) == ({}, True)
    heard = AnswerLine(f"{said} (as the run heard it)", key=ASKED.key)
    setup.notifier.show(replace(STATUS, stage="training", answer=heard))

    assert slack.only().text.startswith("training on p5-prod")
    assert [reply.text for reply in slack.thread(slack.only())[before:]] == [said]


def test_an_answer_that_the_run_reports_ends_its_own_question_alone(
    slack: SlackServer, setup: NotifierSetup
) -> None:
    """Prefect's form has no process of ours, and each later progress repeats the answer, in other words than the process of the
    buttons. The answer to a second question may have the words of the first.
    """
    given = replace(answer(ApprovalAction.RECHECK), key=ASKED.key)
    for question in (ASKED, replace(ASKED, key="gate-2-a")):
        setup.notifier.send(replace(QUESTION, question=question))
        setup.notifier.show_answer("p5-1", replace(given, reason="in other words").summary)
        setup.notifier.show(replace(STATUS, answer=given.summary))
        assert (3 if question.key == "gate-2-a" else 0) == len(slack.only().actions)

    setup.notifier.show(replace(STATUS, answer=replace(given, key="gate-2-a").summary))
    assert {} == slack.only().actions


def test_an_end_takes_the_buttons_away(slack: SlackServer, setup: NotifierSetup) -> None:
    """Nobody answered in time: the refusal replaces the question, and says so in the thread."""
    setup.notifier.send(QUESTION)
    setup.notifier.send(replace(REFUSED, answer=AnswerLine("nobody answered by the deadline")))

    assert (slack.only().text, slack.only().actions) == (HEAD, {})
    assert "nobody answered by the deadline" in [reply.text for reply in slack.thread(slack.only())]


def test_the_owner_has_a_channel(slack: SlackServer, tmp_path: Path) -> None:
    """A page for the owner is a message there; the run's own message says the same, and calls nobody."""
    called = {"mention": ("U123",), "owner_mention": ("U789",)}
    setup = notifier_setup(slack, tmp_path, owner_channel="#ml-platform", **called)
    owners = slack.channel("ml-platform")
    setup.notifier.show(STATUS)

    setup.notifier.send(CANNOT_TELL)

    (run,), (own,) = slack.posted(setup.channel), slack.posted(owners)
    assert run.text == own.text == "CANNOT TELL p5-prod: node-3 sent no report (its process exited 7)"
    assert slack.thread(run) == []
    assert slack.thread(own)[0].text.startswith("<@U789> ")


def test_a_question_is_asked_in_one_channel(slack: SlackServer, tmp_path: Path) -> None:
    """Buttons in the owner's channel alone; the end takes them away there as well."""
    setup = notifier_setup(slack, tmp_path, owner_channel="#ml-platform")
    owners = slack.channel("ml-platform")
    setup.notifier.show(STATUS)
    setup.notifier.send(QUESTION)
    (run,), (own,) = slack.posted(setup.channel), slack.posted(owners)
    assert (len(run.actions), len(own.actions)) == (0, 3)

    setup.notifier.settle(replace(GO, answer=AnswerLine("Ada said launch-anyway")))

    assert (run.text, own.text, own.actions) == ("GO p5-prod: 4 of 4 nodes", "GO p5-prod: 4 of 4 nodes", {})
    assert "Ada said launch-anyway" in [reply.text for reply in slack.thread(own)]


def test_machines_that_may_be_paid_for_are_a_reply(slack: SlackServer, setup: NotifierSetup) -> None:
    """A page beside the run's own stands in its thread; without a run's message it is a message."""
    beside = replace(
        REFUSED, gate_id="p5-1-machines", topic=PageKind.MACHINES, audience=Audience.OWNER, items=(),
        title="MACHINES MAY STILL BE BILLED p5-prod: job x",
    )  # fmt: skip
    setup.notifier.send(REFUSED)

    setup.notifier.send(beside)
    setup.notifier.send(replace(beside, gate_id="p5-9-machines"))

    run, alone = slack.posted()
    assert run.text == HEAD
    said = "MACHINES MAY STILL BE BILLED p5-prod: job x"
    assert f"<@U789> {said}" in [reply.text for reply in slack.thread(run)]
    assert alone.text == said
