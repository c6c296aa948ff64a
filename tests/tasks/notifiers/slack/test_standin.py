"""The stand-in of Slack refuses what Slack refuses; otherwise tests over it would prove nothing."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from tests.fakes.slack.server import SlackServer


def client(slack: SlackServer, token: str = "") -> WebClient:
    """The real client, which tries nothing again."""
    return WebClient(token or slack.token, base_url=slack.url, timeout=2, retry_handlers=[])


def section(text: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([section("x")] * 51, "no more than 50 items"),
        ([section("x" * 3001)], "exceed 3000"),
        ([section("")], "more than 0"),
        ([{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}], "exceed 150"),
        ([{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}], "plain_text"),
        ([{"type": "made_up"}], "unsupported type"),
        ([{"type": "actions", "elements": []}], "at least 1 item"),
    ],
)
def test_blocks_beyond_the_limits_are_refused(slack: SlackServer, blocks: Any, said: str) -> None:
    """invalid_blocks, with the place of it."""
    channel = slack.channel("gates")

    with pytest.raises(SlackApiError) as caught:
        client(slack).chat_postMessage(channel=channel, text="t", blocks=blocks)

    assert caught.value.response["error"] == "invalid_blocks"
    assert said in caught.value.response["errors"][0]


def test_slack_standin_refuses_bad_tokens_channels_and_scopes(slack: SlackServer) -> None:
    """A wrong or revoked token, a channel without the app, a scope that is missing."""
    inside, outside = slack.channel("in"), slack.channel("out", member=False)
    hidden = slack.channel("hidden", member=False, private=True)

    def refusal(channel: str, token: str = "") -> str:
        with pytest.raises(SlackApiError) as caught:
            client(slack, token).chat_postMessage(channel=channel, text="t")
        return str(caught.value.response["error"])

    assert refusal(inside, "wrong") == "invalid_auth"
    assert refusal(inside, slack.app_token) == "not_allowed_token_type"
    assert (refusal(outside), refusal(hidden)) == ("not_in_channel", "channel_not_found")
    slack.scopes.remove("chat:write")
    assert refusal(inside) == "missing_scope"
    slack.revoked = True
    assert refusal(inside) == "token_revoked"
