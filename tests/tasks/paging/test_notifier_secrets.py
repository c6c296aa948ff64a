"""Who would be told, and whether it could be done: known before anything is wrong."""

from __future__ import annotations

from typing import get_args

from tasks.gate_file.people import AppriseTable, NotifierName, Notify, PagerDutyTable, SlackTable
from tasks.notifiers.base import Audience
from tasks.paging.notifier_secrets import notifier_reach, references_of

NOTIFY = Notify(
    order=("slack", "pagerduty"),
    owner=("slack",),
    slack=SlackTable(channel="#gates", owner_channel="#owners", token="env:BOT"),
    pagerduty=PagerDutyTable(routing_key="block:secret/pd"),
)


def test_each_side_is_shown_with_its_secrets() -> None:
    """A block can only be looked for by the gate that runs; nothing shows a value."""
    lines = {side: [str(way) for way in notifier_reach(NOTIFY, side, {"BOT": "xoxb-1"})] for side in Audience}

    later = "pagerduty (block:secret/pd is read when the gate runs)"
    assert ["slack #gates (env:BOT is set)", later, "the log, which calls nobody"] == lines[Audience.ONCALL]
    assert ["slack #owners (env:BOT is set)", "the log, which calls nobody"] == lines[Audience.OWNER]


def test_notifier_reach_shows_an_unset_variable() -> None:
    """An empty variable is none."""
    first = notifier_reach(NOTIFY, Audience.ONCALL, {"BOT": " "})[0]
    assert "slack #gates (env:BOT is NOT set)" == str(first)


def test_every_notifier_but_the_log_names_its_secrets() -> None:
    """A new notifier needs its facts in `_secrets_and_recipient`. Without them nobody hears that its secret is missing."""
    names = get_args(NotifierName)
    pagerduty, apprise = PagerDutyTable(owner_routing_key="env:OWNER"), AppriseTable(owner_urls=("env:MAIL",))
    every = Notify(order=names, owner=names, slack=NOTIFY.slack, pagerduty=pagerduty, apprise=apprise)

    for audience in Audience:
        assert ["log"] == [reach.notifier for reach in notifier_reach(every, audience, {}) if not reach.needs]


def test_every_secret_is_looked_for_once() -> None:
    """Of both sides."""
    assert ("env:BOT", "block:secret/pd") == references_of(NOTIFY)
