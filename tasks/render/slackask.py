"""The part of a message that asks: until when, where, and the buttons (pure).

A button's value says which question it answers, and proves nothing: whoever serves the click reads the question itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tasks.notifiers.base import Asked
from tasks.render.slacktext import Block, link, marked, when

APPROVE, REFUSE, RECHECK = "prelaunch_approve", "prelaunch_refuse", "prelaunch_recheck"
ACTIONS = (APPROVE, REFUSE, RECHECK)
BLOCK_ID = "prelaunch_question"


def question_blocks(gate_id: str, asked: Asked) -> list[Block]:
    """The deadline and the ways to answer; buttons only where somebody may press them."""
    what = "*Override this FAIL?*" if asked.override else "*Launch in spite of these warnings?*"
    in_prefect = link("in Prefect", asked.url) if asked.url else ""
    ways = ["with the buttons below"] if asked.by_slack else []
    ways += [f"{in_prefect} (the run's menu, Resume)"] if in_prefect else []
    how = f"Answer {' or '.join(ways)} by" if ways else "It waits until"
    said = marked(f"{what} {how} {when(asked.deadline)}. No answer by then is a refusal.")
    said["block_id"] = BLOCK_ID
    return [said, _buttons(gate_id, asked)] if asked.by_slack else [said]


def without_question(blocks: Sequence[Block]) -> list[Block]:
    """The message's blocks once nothing is asked any more."""
    return [block for block in blocks if not str(block.get("block_id", "")).startswith(BLOCK_ID)]


def _buttons(gate_id: str, asked: Asked) -> Block:
    value = {"flow_run_id": asked.flow_run_id, "gate_id": gate_id, "key": asked.key}
    approve = _button(APPROVE, "OVERRIDE: launch anyway" if asked.override else "Launch anyway", value)
    if asked.override:
        approve |= {"style": "danger", "confirm": _CONFIRM}
    refuse = _button(REFUSE, "Do not launch", value)
    elements = [approve, refuse, _button(RECHECK, "Check again", value)]
    return {"type": "actions", "block_id": f"{BLOCK_ID}_buttons", "elements": elements}


def _button(action: str, text: str, value: dict[str, str]) -> Block:
    label = {"type": "plain_text", "text": text, "emoji": False}
    return {"type": "button", "action_id": action, "text": label, "value": json.dumps(value)}


_CONFIRM = {
    "title": {"type": "plain_text", "text": "Launch on machines that failed?"},
    "text": {
        "type": "plain_text",
        "text": "Something that was measured is not fit for this job. Your name and your reason are kept, and everybody hears of it.",
    },
    "confirm": {"type": "plain_text", "text": "Go on to the reason"},
    "deny": {"type": "plain_text", "text": "Back"},
}
