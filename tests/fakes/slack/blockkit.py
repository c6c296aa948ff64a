"""What Slack refuses of blocks: what its own SDK refuses, and some that only Slack does (pure).

https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block, BlockElement

BLOCKS = {"message": 50, "modal": 100}
# Measured by others: https://github.com/slackapi/bolt-js/issues/2509
JSON_CHARACTERS = 13_200
MESSAGE_BLOCKS = ("actions", "context", "divider", "header", "section", "rich_text")
# In these Slack parses nothing, and takes no other kind of text.
PLAIN = ("header", "button", "input")


def faults(blocks: object, surface: str = "message") -> list[str]:
    """What is wrong with the blocks, in Slack's own words or those of its SDK; [] for nothing."""
    if not isinstance(blocks, list):
        return ["must be an array [json-pointer:/blocks]"]
    if len(blocks) > BLOCKS[surface]:
        return [f"no more than {BLOCKS[surface]} items allowed [json-pointer:/blocks]"]
    found, ids = [], set()
    for index, block in enumerate(blocks):
        found += [f"{said} [json-pointer:/blocks/{index}]" for said in _block(block, surface)]
        name = block.get("block_id", "") if isinstance(block, dict) else ""
        if name and name in ids:
            found.append(f"block_id already exists [json-pointer:/blocks/{index}/block_id]")
        ids.add(name)
    return found


def _block(block: Any, surface: str) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in (*MESSAGE_BLOCKS, *(("input",) if surface == "modal" else ())):
        yield f"unsupported type: {kind}"
        return
    try:
        buttons = block["elements"] if kind == "actions" else ()
        for made in (Block.parse(block), *map(BlockElement.parse, buttons)):
            assert made is not None
            made.validate_json()
    except SlackObjectFormationError as error:
        yield str(error)
    yield from _texts(block, 2000 if kind == "context" else 0)


def _texts(value: dict[str, Any], most: int) -> Iterator[str]:
    """What the SDK lets pass: empty texts and lists, long small print, and markup where there is none."""
    kind, text = value.get("type"), value.get("text", "-")
    if text == "" or value.get("elements", [None]) == []:
        yield "must be more than 0 characters, and have at least 1 item"
    if most and isinstance(text, str) and len(text) > most:
        yield f"must be less than {most + 1} characters"
    if kind in PLAIN and (value.get("text") or value.get("label") or {}).get("type") != "plain_text":
        yield "must be a text object of type plain_text"
    inner = [text, *value.get("elements", []), *value.get("fields", [])]
    for part in (one for one in inner if isinstance(one, dict)):
        yield from _texts(part, most)
