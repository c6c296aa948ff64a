"""What stands in Slack's messages: golden files, every limit of Block Kit with a stated cut, and text that stays text.

UPDATE_GOLDEN=1 writes the golden files anew; then read the difference.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.gate.question import AnswerChannel
from tasks.notifiers.base import PAID, AnswerLine, Item, Link, Notification, PageKind
from tasks.notifiers.slack.blocks import BLOCKS, BLOCKS_CHARACTERS, escape, link, size_of
from tasks.notifiers.slack.messages import (
    Message,
    answer_message,
    mention_message,
    more_message,
    notification_message,
    status_message,
)
from tests.fakes.slack.blockkit import faults
from tests.tasks.launchers.golden import golden_text
from tests.tasks.notifiers.slack.slack_world import ASKED, CANNOT_TELL, GO, ITEM, QUESTION, REFUSED, STATUS
from tests.tasks.sessions import answer

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "slack"
OVERRIDING = replace(ASKED, override=True)
WITHHELD = (replace(ITEM, remedy="Replace the node.", commands=()),)
OVERRIDE = replace(
    REFUSED, topic=PageKind.QUESTION, question=OVERRIDING, items=WITHHELD, costs=QUESTION.costs
)
CONSOLE = "<https://console.aws.amazon.com/s3/object/bucket?prefix=gates/p5-1/report.html"
HOSTILE = (
    "<!channel> <@U1> *bold* _it_ ~no~ `code` :fire: <http://evil|x> http://evil.example & ```\x1b[31m\u202e"
)


def _all(page: Notification) -> list[Message]:
    more = more_message(page)
    return [notification_message(page), mention_message(page, ("U123",)), *([more] if more else [])]


def test_a_name_that_was_typed_proves_nobody() -> None:
    """Whoever types a colleague's user id and "(Slack)" into Prefect's form is shown as typed, and calls nobody."""
    launch = answer(via=AnswerChannel.PREFECT, reason="it is fine")
    typed = replace(launch, who="U012AB3CD (Slack)", verified=False)
    proven = replace(typed, who="U012AB3CD", via=AnswerChannel.SLACK, verified=True)

    assert "U012AB3CD [Slack] (Prefect's form, unverified) allowed it: it is fine" == typed.line
    for summary in (typed.summary, replace(proven.summary, slack_user="!channel")):
        assert "plain_text" == answer_message(summary).blocks[0]["text"]["type"]
    assert "<@U012AB3CD> (Slack) allowed it" in answer_message(proven.summary).blocks[0]["text"]["text"]


def test_a_message_without_findings_shows_its_text() -> None:
    """Which job may still be billed, and how to end it, stands nowhere else."""
    bare = replace(
        REFUSED, title="MACHINES MAY STILL BE BILLED", text="- job p5-1-train", items=(), facts=(), costs=()
    )

    assert "- job p5-1-train" in shown(notification_message(bare))
    assert REFUSED.text not in shown(notification_message(REFUSED))


def test_machines_that_may_be_billed_are_named_before_the_findings() -> None:
    """However long those are, and whatever is cut."""
    items = tuple(item(n, evidence="e" * 9000, commands=("c" * 900,) * 3) for n in range(3))
    left = replace(REFUSED, items=items, facts=((PAID, "the pool of p5-1"), *REFUSED.facts))
    text = shown(notification_message(left))

    assert f"{PAID}: the pool of p5-1" in text and "This message is truncated" in text
    assert 1 == text.count("the pool of p5-1")


def test_a_mention_has_the_commands_of_each_broken_node() -> None:
    """Whoever is woken takes out both, and not only the node that the first line names first."""
    second = replace(ITEM, where="node-2", commands=("scontrol update nodename=n2", "reset"))

    text = json.dumps(mention_message(replace(REFUSED, items=(ITEM, second)), ()).blocks[-1])
    assert json.dumps(ITEM.commands[0])[1:-1] in text and "scontrol update nodename=n2  # node-2" in text
    assert "reset  # node-2" in text
    assert "#" not in json.dumps(mention_message(replace(REFUSED, items=(second, second)), ()).blocks[-1])


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("progress", [status_message(STATUS)]),
        ("refused", _all(REFUSED)),
        ("cannot_tell", _all(CANNOT_TELL)),
        ("go", _all(GO)),
        ("question", _all(QUESTION)),
        ("override", _all(OVERRIDE)),
    ],
)
def test_the_messages_are_what_the_golden_files_say(name: str, messages: list[Message]) -> None:
    """The message, the call, and the rest of the thread."""
    text = json.dumps([{"text": m.text, "blocks": m.blocks} for m in messages], indent=1) + "\n"

    assert golden_text(GOLDEN / f"{name}.json", text) == text


def item(number: int, **more: Any) -> Item:
    """A finding of its own node."""
    return replace(ITEM, where=f"node-{number}", is_titled=False, **more)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(replace(REFUSED, title="NO-GO " + "x" * 5000), id="a title of 5,000 characters"),
        pytest.param(replace(REFUSED, items=tuple(item(n) for n in range(400))), id="400 findings"),
        pytest.param(replace(REFUSED, items=(item(1, sentence="m" * 9000),)), id="a finding of 9,000 characters"),
        pytest.param(replace(REFUSED, items=(item(1, evidence="e\n" * 9000),)), id="9,000 lines of evidence"),
        pytest.param(replace(REFUSED, items=(item(1, evidence="e" * 90_000),)), id="one line of 90,000"),
        pytest.param(
            replace(REFUSED, items=tuple(item(n, commands=("c" * 900,) * 9) for n in range(20))), id="long commands"
        ),
        pytest.param(replace(REFUSED, costs=("c" * 600,) * 40), id="40 lines of cost"),
        pytest.param(replace(REFUSED, facts=(("fact", "f" * 900),) * 60), id="60 facts"),
        pytest.param(replace(REFUSED, links=(Link("l", "https://x/" + "y" * 400),) * 30), id="30 links"),
        pytest.param(replace(QUESTION, items=tuple(item(n, sentence="m" * 2900) for n in range(9))), id="a question"),
        pytest.param(replace(REFUSED, title="", items=(item(1, sentence="", check="", remedy=""),)), id="nothing said"),
        pytest.param(replace(REFUSED, answer=AnswerLine("a" * 9000)), id="long words of people"),
    ],
)  # fmt: skip
def test_every_limit_is_kept(page: Notification) -> None:
    """50 blocks, 3,000 characters a section, 150 a header, and what Slack takes of a message in all."""
    for message in _all(page):
        assert faults(message.blocks) == []
        assert len(message.blocks) <= BLOCKS
        assert size_of(message.blocks) <= BLOCKS_CHARACTERS
        assert 0 < len(message.text) <= 4000
        assert len(message.long) <= 4000


def test_a_cut_is_stated() -> None:
    """Findings, lines and characters that are left out are counted, or said to be in the report."""
    many = replace(REFUSED, items=tuple(item(n) for n in range(90)), more_items=10)
    long = replace(REFUSED, items=(item(1, evidence="e\n" * 100),))
    wide = replace(REFUSED, items=(item(1, evidence="e" * 9000),))

    assert "and 97 more findings: see the thread and the report" in shown(notification_message(many))
    thread = more_message(many)
    assert thread is not None and "This message is truncated" in shown(thread)
    assert "... and 70 more lines in the report" in shown(notification_message(long))
    assert "[cut: the rest is in the report]" in shown(notification_message(wide))


def test_links_are_whole_or_left_out() -> None:
    """Half of an address leads nowhere."""
    page = replace(REFUSED, links=(Link("l", "https://x/" + "y" * 400),) * 30)

    (said,) = [text for text in marked(notification_message(page).blocks) if "https://x/" in text]

    assert said.count("<https://x/") == said.count("|l>") == 4
    assert "and 26 more links in the report" in said


def test_slack_question_keeps_its_buttons_at_the_block_limits() -> None:
    """However much is found, the buttons are there."""
    items = tuple(item(n, sentence="m" * 2900) for n in range(9))
    page = replace(QUESTION, items=items, costs=("c" * 600,) * 9)

    blocks = notification_message(page).blocks

    assert [block["type"] for block in blocks[-2:]] == ["section", "actions"]
    assert "truncated at Slack's limits" in json.dumps(blocks)


def test_hostile_text_is_inert() -> None:
    """What a node says mentions nobody, links nowhere, formats nothing, and hides nothing."""
    hostile = Item("FAIL HARDWARE", "HARDWARE", HOSTILE, HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), HOSTILE)
    page = replace(
        REFUSED, title=f"NO-GO {HOSTILE}: {HOSTILE}", items=(hostile,), gate=HOSTILE, cluster=HOSTILE, costs=(HOSTILE,),
        facts=((HOSTILE, HOSTILE),), links=(Link(HOSTILE, "https://x/<>|"),), answer=AnswerLine(HOSTILE),
        measured_s=0.0,
    )  # fmt: skip

    for message in (*_all(page), answer_message(AnswerLine(HOSTILE, HOSTILE, "U123"))):
        for text in (*marked(message.blocks), message.text, message.long):
            bare = text
            for own in ("<@U123>", "<https://x/%3C%3E%7C|", "|report>", CONSOLE):
                bare = bare.replace(own, "")
            assert "<" not in bare
            assert "\x1b" not in text and "\u202e" not in text


def test_text_for_markup_is_escaped() -> None:
    """The three signs that Slack names are written out; its own marks are at no word's edge, and addresses stay as they are."""
    assert escape("a & <b>") == "a &amp; &lt;b&gt;"
    marks = "\u2060*\u2060x\u2060*\u2060 snake_case 12:30 `:fire:` (`0000:ca:00.0`): `a:b:` x"
    assert escape("*x* snake_case 12:30 :fire: (0000:ca:00.0): a:b: x") == marks
    assert link("a|b>", "https://x/?a=1&b=<|>") == "<https://x/?a=1&amp;b=%3C%7C%3E|a|b&gt;>"


@pytest.mark.parametrize("host", ["127.0.0.1:4200", "localhost:4200", "[::1]:4200"])
def test_a_link_to_this_machine_says_where_it_opens(host: str) -> None:
    """For everybody else it is dead."""
    page = replace(REFUSED, links=(Link("run in Prefect", f"http://{host}/runs/1"),))
    said = str(notification_message(page).blocks)

    assert f"<http://{host}" not in said
    assert f"http://{host}/runs/1 (opens only on the machine that runs this server)" in said


def marked(value: object) -> list[str]:
    """Every text that Slack parses."""
    if isinstance(value, list):
        return [text for part in value for text in marked(part)]
    if not isinstance(value, dict):
        return []
    here = [str(value["text"])] if value.get("type") == "mrkdwn" else []
    assert not here or value["verbatim"] is True
    return here + [text for part in value.values() for text in marked(part)]


def shown(message: Message) -> str:
    """All of a message's text."""

    def texts(value: object) -> list[str]:
        if isinstance(value, list):
            return [text for part in value for text in texts(part)]
        if not isinstance(value, dict):
            return []
        own = [value["text"]] if isinstance(value.get("text"), str) else []
        return own + [text for part in value.values() for text in texts(part)]

    return "\n".join(texts(message.blocks))
