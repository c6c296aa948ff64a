"""What Slack refuses or does not answer: tried again while there is time, then said with the remedy, never with the token."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tasks.notifiers.base import NotifyError
from tasks.notifiers.slack import client
from tasks.notifiers.slack import notifier as notifier_module
from tasks.store.base import StoreFull
from tests.fakes.slack.methods import METHODS
from tests.fakes.slack.server import Failure, SlackServer
from tests.fakes.slack.workspace import Refusal, Workspace
from tests.tasks.notifiers.slack.slack_world import REFUSED, STATUS, NotifierSetup, notifier_setup


@pytest.fixture
def setup(slack: SlackServer, tmp_path: Path) -> NotifierSetup:
    """A notifier for #gates."""
    return notifier_setup(slack, tmp_path)


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

    assert slack.thread(slack.only())[0].text.startswith("NO-GO p5-prod")
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
