"""A workspace of Slack, as the tests of its notifier have it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.slack.server import SlackServer, slack_server


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    """A workspace."""
    with slack_server() as started:
        yield started
