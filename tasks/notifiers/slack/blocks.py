"""Text for Slack: limits, escapes and single blocks (pure). Text from a report can neither mention, link nor format anything.

Names and evidence are in plain_text or preformatted rich text, in which Slack parses nothing; mrkdwn is for what this
project writes itself, verbatim, so that Slack turns no name or address in it into a mention or a link.

Limits: https://docs.slack.dev/reference/block-kit/blocks. The sum over a message's blocks is not in the reference: Slack
refuses about 13,200 characters of JSON as msg_blocks_too_long (github.com/slackapi/bolt-js/issues/2509).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from tasks.text.inert import clean, one_line
from tasks.text.tables import counted, excerpt

Block = dict[str, Any]
BLOCKS, BLOCKS_CHARACTERS = 50, 12_000
HEADER, SECTION, CONTEXT = 150, 3000, 2000
FALLBACK, TEXT = 300, 3500
CODE_LINES = 30
# Words with two colons, such as a PCI address, in which Slack may see the name of an emoji, but no times. Other marks begin nothing
# within a word.
_N = r"[\w.+'-]"
_MARK = re.compile(
    rf"(?<!{_N})(?![\w-]*:\d\d:\d\d)((?:{_N}*:){{2,}}{_N}+|{_N}*:{_N}+:)|(?<!\w)[*_~`]+|[*_~`]+(?!\w)"
)


def escape(text: str, most: int = SECTION) -> str:
    """One line in which `&`, `<` and `>` are written out, and no sign begins bold, italics, code or an emoji."""
    # Slack has no escape for its own marks: a word joiner beside one keeps it from being the edge of anything. What people copy is
    # shown as code instead, in which there is nothing else.
    return entities(_MARK.sub(lambda m: f"`{m[1]}`" if m[1] else f"\u2060{m[0]}\u2060", one_line(text, most)))


def entities(text: str) -> str:
    """`&`, `<` and `>` written out: https://docs.slack.dev/messaging/formatting-message-text#escaping."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def header(line: str) -> Block:
    """A large line, truncated with an ellipsis."""
    return {"type": "header", "text": _plain(one_line(line, HEADER) or "-")}


def plain(text: str, most: int = SECTION) -> Block:
    """Lines in which Slack parses nothing, truncated with a note."""
    return {"type": "section", "text": _plain(excerpt(clean(text), most) or "-")}


def small(text: str) -> Block:
    """Small grey lines in which Slack parses nothing."""
    return {"type": "context", "elements": [_plain(excerpt(clean(text), CONTEXT) or "-")]}


def marked(text: str) -> Block:
    """Markup of our own; whatever comes from elsewhere went through `escape`. Cut at a line's end."""
    return {"type": "section", "text": _mrkdwn(excerpt(text, SECTION))}


def small_marked(text: str) -> Block:
    """The block holds markup as `marked` does, small and grey."""
    return {"type": "context", "elements": [_mrkdwn(excerpt(text, CONTEXT))]}


def code(text: str, most: int = SECTION) -> Block:
    """Raw output or commands, to be copied as they are: no sign in it is markup."""
    lines = clean(text).splitlines()
    more = len(lines) - CODE_LINES
    body = "\n".join(
        lines[:CODE_LINES] + ([f"... and {counted(more, 'more line')} in the report"] if more > 0 else [])
    )
    element = {"type": "text", "text": excerpt(body, most) or "-"}
    return {"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [element]}]}


def link(text: str, url: str) -> str:
    """A link for mrkdwn. Only a URL that `opens` accepts may be in it."""
    address = url.replace("|", "%7C").replace("<", "%3C").replace(">", "%3E").replace(" ", "%20")
    return f"<{address.replace('&', '&amp;')}|{escape(text, 80)}>"


def opens(url: str) -> bool:
    """Whether every reader's browser can open the URL."""
    return url.startswith(("http://", "https://")) and not is_local(url)


def is_local(url: str) -> bool:
    """Whether only the machine that wrote the message can open the URL."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.startswith("127.")


def mention(ids: Sequence[str]) -> str:
    """The markup that @-mentions users (U..., W...) and user groups (S...)."""
    return " ".join(f"<!subteam^{target}>" if target.startswith("S") else f"<@{target}>" for target in ids)


def when(seconds: float) -> str:
    """A time in each reader's own time zone; UTC if Slack cannot show that."""
    utc = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{int(seconds)}^{{date_short_pretty}} at {{time}}|{utc}>"


def fit(blocks: Sequence[Block], text: str, keep: int = 0) -> list[Block]:
    """As many blocks as one message can have. If some are left out, `text` comes before the last `keep` blocks, which stay."""
    if _fits(blocks):
        return list(blocks)
    tail = [small(text), *blocks[len(blocks) - keep :]]
    head = list(blocks[: len(blocks) - keep])
    while head and not _fits([*head, *tail]):
        head.pop()
    return [*head, *tail]


def size_of(blocks: Sequence[Block]) -> int:
    """What Slack counts of a message's blocks, in characters."""
    return len(json.dumps(list(blocks), ensure_ascii=False))


def _fits(blocks: Sequence[Block]) -> bool:
    return len(blocks) <= BLOCKS and size_of(blocks) <= BLOCKS_CHARACTERS


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}
