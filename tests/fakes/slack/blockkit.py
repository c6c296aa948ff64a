"""What Slack refuses of blocks, as far as this project sends them: https://docs.slack.dev/reference/block-kit/blocks (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

BLOCKS = {"message": 50, "modal": 100}
# Measured by others: https://github.com/slackapi/bolt-js/issues/2509
JSON_CHARACTERS = 13_200
TEXTS = {"header": 150, "section": 3000, "context": 2000, "field": 2000, "button": 75, "alt": 2000}
MESSAGE_BLOCKS = ("actions", "context", "divider", "header", "image", "section", "rich_text", "markdown")
MODAL_BLOCKS = (*MESSAGE_BLOCKS, "input")


def faults(blocks: object, surface: str = "message") -> list[str]:
    """What is wrong with the blocks, in Slack's own words; [] for nothing."""
    if not isinstance(blocks, list):
        return ["must be an array [json-pointer:/blocks]"]
    if len(blocks) > BLOCKS[surface]:
        return [f"no more than {BLOCKS[surface]} items allowed [json-pointer:/blocks]"]
    found, ids = [], set()
    for index, block in enumerate(blocks):
        at = f"/blocks/{index}"
        found += list(_block(block, at, surface))
        name = block.get("block_id", "") if isinstance(block, dict) else ""
        if name and name in ids:
            found.append(f"block_id already exists [json-pointer:{at}/block_id]")
        ids.add(name)
    return found


def _block(block: Any, at: str, surface: str) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in (MODAL_BLOCKS if surface == "modal" else MESSAGE_BLOCKS):
        yield f"unsupported type: {kind} [json-pointer:{at}/type]"
        return
    if len(block.get("block_id", "")) > 255:
        yield f"must be less than 256 characters [json-pointer:{at}/block_id]"
    if kind == "header":
        yield from _text(block.get("text"), f"{at}/text", TEXTS["header"], ("plain_text",))
    if kind == "section":
        yield from _section(block, at)
    if kind == "context":
        yield from _elements(block, at, 10)
        for index, element in enumerate(block.get("elements", [])):
            if element.get("type") != "image":
                yield from _text(element, f"{at}/elements/{index}", TEXTS["context"])
    if kind == "actions":
        yield from _elements(block, at, 25)
        for index, element in enumerate(block.get("elements", [])):
            yield from _button(element, f"{at}/elements/{index}")
    if kind == "rich_text":
        yield from _rich(block, at)
    if kind == "image":
        yield from _image(block, at)
    if kind == "input":
        yield from _text(block.get("label"), f"{at}/label", 2000, ("plain_text",))


def _rich(block: dict[str, Any], at: str) -> Iterator[str]:
    parts = block.get("elements") or []
    if not parts:
        yield f"must have at least 1 item [json-pointer:{at}/elements]"
    for index, part in enumerate(parts):
        where = f"{at}/elements/{index}"
        if part.get("type") not in (
            "rich_text_section",
            "rich_text_preformatted",
            "rich_text_list",
            "rich_text_quote",
        ):
            yield f"unsupported type: {part.get('type')} [json-pointer:{where}/type]"
        for number, element in enumerate(part.get("elements", [])):
            if element.get("type") == "text" and not element.get("text"):
                yield f"must be more than 0 characters [json-pointer:{where}/elements/{number}/text]"


def _section(block: dict[str, Any], at: str) -> Iterator[str]:
    if "text" not in block and "fields" not in block:
        yield f"missing required field: text [json-pointer:{at}]"
    if "text" in block:
        yield from _text(block["text"], f"{at}/text", TEXTS["section"])
    fields = block.get("fields", [])
    if len(fields) > 10:
        yield f"no more than 10 items allowed [json-pointer:{at}/fields]"
    for index, field in enumerate(fields):
        yield from _text(field, f"{at}/fields/{index}", TEXTS["field"])
    if block.get("accessory", {}).get("type") == "button":
        yield from _button(block["accessory"], f"{at}/accessory")


def _elements(block: dict[str, Any], at: str, most: int) -> Iterator[str]:
    elements = block.get("elements")
    if not elements:
        yield f"must have at least 1 item [json-pointer:{at}/elements]"
    elif len(elements) > most:
        yield f"no more than {most} items allowed [json-pointer:{at}/elements]"


def _button(element: Any, at: str) -> Iterator[str]:
    if element.get("type") != "button":
        return
    yield from _text(element.get("text"), f"{at}/text", TEXTS["button"], ("plain_text",))
    if len(element.get("action_id", "")) > 255:
        yield f"must be less than 256 characters [json-pointer:{at}/action_id]"
    if len(element.get("value", "")) > 2000:
        yield f"must be less than 2001 characters [json-pointer:{at}/value]"
    if len(element.get("url", "")) > 3000:
        yield f"must be less than 3001 characters [json-pointer:{at}/url]"
    if element.get("style", "primary") not in ("primary", "danger"):
        yield f"must be one of primary, danger [json-pointer:{at}/style]"
    confirm = element.get("confirm")
    if confirm is not None:
        yield from _text(confirm.get("title"), f"{at}/confirm/title", 100, ("plain_text",))
        yield from _text(confirm.get("text"), f"{at}/confirm/text", 300)
        yield from _text(confirm.get("confirm"), f"{at}/confirm/confirm", 30, ("plain_text",))
        yield from _text(confirm.get("deny"), f"{at}/confirm/deny", 30, ("plain_text",))


def _image(block: dict[str, Any], at: str) -> Iterator[str]:
    if not block.get("alt_text") or len(block["alt_text"]) > TEXTS["alt"]:
        yield f"missing required field: alt_text [json-pointer:{at}]"
    if "image_url" not in block and "slack_file" not in block:
        yield f"missing required field: image_url [json-pointer:{at}]"


def _text(value: Any, at: str, most: int, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")) -> Iterator[str]:
    if not isinstance(value, dict) or value.get("type") not in kinds:
        yield f"must be a text object of type {' or '.join(kinds)} [json-pointer:{at}]"
        return
    text = value.get("text")
    if not isinstance(text, str) or not text:
        yield f"must be more than 0 characters [json-pointer:{at}/text]"
    elif len(text) > most:
        yield f"must be less than {most + 1} characters [json-pointer:{at}/text]"
