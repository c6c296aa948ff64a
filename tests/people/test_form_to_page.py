"""From the form in a browser to the people who have to hear: a refusal, then a go, with every service behind real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser_form.pages import chromium, field, form_of, shot, start
from tests.fakes.pagerduty import PagerDuty, pagerduty_server
from tests.fakes.slack.server import SlackServer, slack_server
from tests.flows.gates import write_gate
from tests.world import World

# tests/browser_form/test_form.py starts runs from the form, tests/flows/test_gate_told.py has Slack and PagerDuty of one gate.
pytestmark = [pytest.mark.browser, pytest.mark.long]


def _gate(folder: Path, channel: str, slack: SlackServer, pagerduty: PagerDuty) -> Path:
    """A gate that tells the on-call by PagerDuty, the owner by Slack; the run's message is in Slack either way."""
    path = write_gate(folder)
    told = f"""
[notify]
order = ["pagerduty", "slack"]
owner = ["slack"]
[notify.slack]
channel = "{channel}"
token = "env:PEOPLE_SLACK_TOKEN"
api_url = "{slack.url}"
[notify.pagerduty]
routing_key = "env:PEOPLE_ROUTING_KEY"
url = "{pagerduty.url}"
"""
    path.write_text(path.read_text() + told)
    return path


@contextmanager
def _people() -> Iterator[tuple[SlackServer, PagerDuty, str]]:
    with slack_server() as slack, pagerduty_server() as pagerduty:
        yield slack, pagerduty, slack.channel("gates", member=True)


def test_a_refusal_from_the_form_reaches_everybody_and_a_go_ends_it(world: World, tmp_path: Path) -> None:
    """One message in its final state with a thread and a picture, one open incident; after a go it is resolved."""
    pool = world.pool("form-to-page")
    with _people() as (slack, pagerduty, channel):
        key = pagerduty.service()
        gate = _gate(tmp_path, channel, slack, pagerduty)
        with world.worker(
            pool, PEOPLE_SLACK_TOKEN=slack.token, PEOPLE_ROUTING_KEY=key, PREFECT_UI_URL=world.ui_url
        ) as worker:
            request = {"gate_file": str(gate)}
            deployment = world.deploy(
                "flows/gate.py:gate", "form-to-page", pool=pool, parameters={"request": request},
                job_variables={"env": {"FAKE_NODE": "wrong"}}, enforce_parameter_schema=False,
            )  # fmt: skip
            with chromium() as browser, form_of(browser, world, deployment) as page:
                field(page, "Why this run").locator("textarea").fill("before the big one")
                shot(page, "people-form")
                run = start(page)
            refused = world.wait(run, "Refused")
            message = slack.only()
            thread, pictures = slack.thread(message), slack.pictures(message)
            incidents = pagerduty.open(key)
            shown = message.shown

            again = world.start(deployment, {"request": request}, env={"FAKE_NODE": "healthy"})
            world.wait(again, "Launched")
            printed = worker.log.read_text()

        assert refused["state"]["type"] == "FAILED"
        assert refused["parameters"]["request"]["reason"] == "before the big one"
        assert message.text.startswith("NO-GO test: ") and "node-1" in message.text.splitlines()[0]
        assert "rank 3" in shown and "rank 3" in message.text
        # PagerDuty called somebody: Slack is brought up to date, and calls nobody.
        assert len(thread) >= 1 and not any(reply.broadcast for reply in thread)
        assert len(pictures) == 1
        assert [incident.payload["severity"] for incident in incidents] == ["critical"]
        assert "node-1" in incidents[0].dedup_key
        assert pagerduty.open(key) == []
        assert [posted.text.split(" ", 1)[0] for posted in slack.posted(channel)] == [
            "NO-GO",
            "GO",
        ]
        everything = printed + "".join(
            p.read_text("utf-8", "replace") for p in (tmp_path / "store").rglob("*") if p.is_file()
        )
        assert slack.token not in everything and key not in everything
