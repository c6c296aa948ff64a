"""Slack messages drawn as a page from the JSON of their blocks, for pictures: near to what Slack shows, without Slack."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

Block = Mapping[str, Any]
STYLE = Path(__file__).with_name("slack_page.css").read_text()


def slack_page(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages from above; all but the first are replies in its thread. Raises KeyError for a type of block that is not drawn."""
    drawn = "".join(_message(message, at > 0) for at, message in enumerate(messages))
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Slack</title><style>{STYLE}</style>{drawn}</html>'


def _message(message: Mapping[str, Any], reply: bool) -> str:
    blocks = "".join(_DRAWN[block["type"]](block) for block in message["blocks"])
    name = '<div class="by">Prelaunch <span>APP</span></div>'
    return f'<div class="message{" reply" if reply else ""}"><div class="face">P</div><div>{name}{blocks}</div></div>'


def _text(text: Block) -> str:
    return escape(text["text"]) if text["type"] == "plain_text" else _mrkdwn(text["text"])


def _mrkdwn(text: str) -> str:
    """Links, dates and mentions as Slack shows them; the data escape "<", ">" and "&" themselves."""
    parts = re.split(r"<([^<>]*)>", text)
    return "".join(_angle(part) if at % 2 else _styled(part) for at, part in enumerate(parts))


def _angle(inside: str) -> str:
    target, _, label = inside.partition("|")
    if target.startswith("@"):
        return f'<span class="who">@{escape(label or "on-call")}</span>'
    if target.startswith("!"):
        return escape(label)
    return f"<a>{escape(label or target)}</a>"


def _styled(text: str) -> str:
    said = escape(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    said = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", said)
    return re.sub(r"(?<!\w)\*([^*\n]+)\*(?!\w)", r"<strong>\1</strong>", said)


def _section(block: Block) -> str:
    texts = [*([block["text"]] if "text" in block else []), *block.get("fields", [])]
    return "".join(f"<p>{_text(text)}</p>" for text in texts)


def _rich(block: Block) -> str:
    """Preformatted text is the only rich text that is sent."""
    made = []
    for element in block["elements"]:
        assert element["type"] == "rich_text_preformatted", element["type"]
        made.append(f"<pre>{escape(''.join(part['text'] for part in element['elements']))}</pre>")
    return "".join(made)


def _button(element: Block) -> str:
    return f'<button class="{escape(element.get("style", ""))}">{_text(element["text"])}</button>'


_DRAWN: Mapping[str, Callable[[Block], str]] = {
    "header": lambda block: f"<h2>{_text(block['text'])}</h2>",
    "section": _section,
    "context": lambda block: (
        f'<p class="context">{"".join(f"<span>{_text(one)}</span>" for one in block["elements"])}</p>'
    ),
    "rich_text": _rich,
    "actions": lambda block: f"<p>{''.join(map(_button, block['elements']))}</p>",
    "divider": lambda block: "<hr>",
}
