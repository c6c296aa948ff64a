"""One message a gate run in Slack: brought up to date in place, with a thread that calls, and buttons while it asks.

What Slack refuses or does not answer is tried again while there is time, then said with the remedy, never with the token.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest

from tasks.gate.question import ApprovalAction
from tasks.notifiers.base import AnswerLine, Audience, NotifyError, PageKind
from tasks.notifiers.slack import client
from tasks.notifiers.slack import notifier as notifier_module
from tasks.store.base import StoreFull
from tests.fakes.slack.methods import METHODS
from tests.fakes.slack.server import Failure, SlackServer
from tests.fakes.slack.workspace import Refusal, Workspace
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
    """Answer and culprit first; then remedy, commands and the links. An update notifies nobody: the first reply mentions
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
    assert slack.thread(message)[0].text.startswith("<@U789> ASK p5-prod: node-2 has a clock that is not")


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


def test_a_rate_limit_is_waited_out(slack: SlackServer, setup: NotifierSetup) -> None:
    """As long as Slack asks for, and the page arrives."""
    slack.fail(Failure.RATE_LIMIT, method="chat.postMessage", retry_after_s=1)

    setup.notifier.send(REFUSED)

    first, second = slack.called("chat.postMessage")[:2]
    assert (first.answer, second.answer) == ("429 with Retry-After", "ok")
    assert second.at - first.at >= 1.0
    assert len(slack.posted()) == 1


@pytest.mark.parametrize("failure", [Failure.SERVER_ERROR, Failure.RESET])
def test_slack_notifier_retries_a_passing_failure(
    slack: SlackServer, setup: NotifierSetup, failure: Failure
) -> None:
    """A server error and a broken connection."""
    slack.fail(failure)

    setup.notifier.send(REFUSED)

    assert len(slack.posted()) == 1


def test_an_answer_that_is_lost_may_cost_a_second_message(slack: SlackServer, setup: NotifierSetup) -> None:
    """Slack knows no idempotency key: a message too many is better than a page too few, and the run goes on in the last."""
    slack.fail(Failure.LOST_ANSWER, method="chat.postMessage")

    setup.notifier.show(STATUS)
    setup.notifier.send(REFUSED)

    assert [message.edits for message in slack.posted()] == [0, 1]


def test_silence_ends_in_time(
    slack: SlackServer, setup: NotifierSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is tried: all together is within the notifier's time."""
    monkeypatch.setattr(client, "TRY_S", 0.5)
    slack.fail(Failure.HANG, times=99)

    with pytest.raises(NotifyError, match=r"does not answer chat\.postMessage: TimeoutError"):
        setup.notifier.send(REFUSED)


@pytest.mark.parametrize(
    ("harm", "channel", "remedy"),
    [
        ({"revoked": True}, "#gates", r"token_revoked\. Put the app's token where env:SLACK_BOT_TOKEN is"),
        ({"scopes": set()}, "#gates", r"missing_scope\. Give the app the scope chat:write"),
        ({}, "#away", r"not_in_channel\. Type /invite @ and the app's name in channel #away"),
        ({}, "#nowhere", r"channel_not_found\. Correct the channel #nowhere"),
        ({}, "#old", r"is_archived\. The channel #old is archived"),
    ],
)
def test_a_refusal_says_the_remedy(
    slack: SlackServer, setup: NotifierSetup, harm: Any, channel: str, remedy: str
) -> None:
    """Slack's word, and what to do about it."""
    slack.channel("away", member=False)
    slack.channel("old", archived=True)
    setup.options["channel"] = channel
    vars(slack).update(harm)

    with pytest.raises(NotifyError, match=remedy):
        setup.notifier.send(REFUSED)


def test_a_wrong_token_is_not_repeated(
    slack: SlackServer, setup: NotifierSetup, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the error nor in a log, at any level."""
    caplog.set_level(logging.DEBUG)
    true, slack.token = slack.token, "xoxb-another"
    wrong = replace(setup.means, secret=lambda reference: true)

    with pytest.raises(NotifyError, match="invalid_auth") as caught:
        notifier_module.SlackNotifier(setup.notifier._table, wrong).send(REFUSED)

    assert true not in f"{caught.value!r}{caplog.text}"


def test_the_token_is_kept_nowhere(
    slack: SlackServer, setup: NotifierSetup, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the store, a log, or what a notifier shows of itself."""
    caplog.set_level(logging.DEBUG)
    notifier = setup.notifier

    notifier.show(STATUS)
    said = notifier.send(REFUSED)

    kept = [setup.store.get(key) for key in setup.store.list("")]
    assert slack.token not in f"{kept}{caplog.text}{said}{notifier!r}{vars(notifier)}"


def test_blocks_that_slack_refuses_are_sent_as_text(slack: SlackServer, setup: NotifierSetup) -> None:
    """A limit that nobody knew costs the form, not the page; and it is said."""

    def stern(workspace: Workspace, given: Any) -> dict[str, Any]:
        if given.get("blocks"):
            raise Refusal("msg_blocks_too_long")
        return METHODS["chat.postMessage"][1](workspace, given)

    slack.methods["chat.postMessage"] = ("chat:write", stern)

    said = setup.notifier.send(REFUSED)

    assert slack.only().text.startswith(REFUSED.title)
    assert "all of it in words" in slack.only().text
    assert "msg_blocks_too_long" in said


def test_a_message_that_was_deleted_is_posted_anew(slack: SlackServer, setup: NotifierSetup) -> None:
    """Somebody tidied the channel while the gate ran."""
    setup.notifier.show(STATUS)
    slack.messages.clear()

    setup.notifier.send(REFUSED)

    assert slack.only().text.startswith("NO-GO p5-prod")


def test_a_message_that_cannot_be_updated_still_calls(slack: SlackServer, setup: NotifierSetup) -> None:
    """The reply is what people hear; the rest is said."""
    setup.notifier.show(STATUS)
    slack.methods["chat.update"] = ("chat:update.made.up", METHODS["chat.update"][1])

    said = setup.notifier.send(REFUSED)

    assert slack.thread(slack.only())[0].text == f"<@U123> <!subteam^S456> {HEAD}"
    assert "the message is not up to date: Slack refuses chat.update: missing_scope" in said


def test_a_call_that_fails_is_a_failure(slack: SlackServer, setup: NotifierSetup) -> None:
    """The message may be up to date, but nobody was called: the next way has to."""
    setup.notifier.show(STATUS)
    slack.fail(Failure.SERVER_ERROR, times=9, method="chat.postMessage")

    with pytest.raises(NotifyError):
        setup.notifier.send(REFUSED)

    assert slack.only().text.startswith("NO-GO p5-prod")


def test_a_store_that_fails_loses_no_page(
    slack: SlackServer, setup: NotifierSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent may be sent again, and that is said."""
    monkeypatch.setattr(setup.store, "put", Mock(side_effect=StoreFull("the store is full")))

    said = setup.notifier.send(REFUSED)

    assert len(slack.posted()) == 1
    assert "record of what was sent could not be stored, so it may be sent again: the store is full" in said


def test_a_record_that_cannot_be_read_costs_a_message(slack: SlackServer, setup: NotifierSetup) -> None:
    """Somebody else's bytes are no reason to be silent."""
    setup.store.put("gates/p5-1/slack.json", b"{")

    setup.notifier.send(REFUSED)

    assert len(slack.posted()) == 1
