"""The modal that asks why somebody wants to launch against a warning or a failure (pure)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tasks.question import LEAST_REASON, REASON_CHARACTERS, Action, Question
from tasks.render.slacktext import escape, marked, when
from tasks.slackapp.words import inline, without_markup

CALLBACK = "prelaunch_answer"
REASON = "reason"


@dataclass(frozen=True)
class Place:
    """Where the question stands: channel, message and its thread ("" where it is no reply)."""

    channel: str
    ts: str
    thread: str


def modal(question: Question, action: Action, place: Place) -> dict[str, Any]:
    """The view: what is said of the machines, what the answer means, and a field for the reason."""
    override = question.override
    text = f"*{escape(question.said, 1500)}*\nGate {inline(question.gate_id)}, open until {when(question.deadline)}."
    meaning = (
        "This *overrides a FAIL*: the training starts on machines that were found unfit. Your name, the time and the "
        "reason are recorded, and both on-calls are told."
        if override
        else "The training starts on these machines. Your name, the time and the reason are recorded."
    )
    metadata = {
        "flow_run_id": question.flow_run_id,
        "gate_id": question.gate_id,
        "key": question.key,
        "action": action.value,
        "channel": place.channel,
        "ts": place.ts,
        "thread": place.thread,
    }
    return {
        "type": "modal",
        "callback_id": CALLBACK,
        "private_metadata": json.dumps(metadata),
        "title": _plain("Override a FAIL" if override else "Launch anyway"),
        "submit": _plain("Override" if override else "Launch"),
        "close": _plain("Cancel"),
        "blocks": [
            marked(text),
            marked(meaning),
            {
                "type": "input",
                "block_id": REASON,
                "label": _plain("Why is it right to launch?"),
                "element": {
                    "type": "plain_text_input",
                    "action_id": REASON,
                    "multiline": True,
                    "min_length": LEAST_REASON,
                    "max_length": REASON_CHARACTERS,
                },
            },
        ],
    }


def reason_of(view: Any) -> str:
    """What was typed, without the white space around it; "" for nothing."""
    try:
        value = view["state"]["values"][REASON][REASON]["value"]
    except (KeyError, TypeError):
        return ""
    return value.strip()[:REASON_CHARACTERS] if isinstance(value, str) else ""


def beside_field(text: str) -> dict[str, Any]:
    """The answer to a submission that keeps the modal open, with the text beside the field."""
    return {"response_action": "errors", "errors": {REASON: without_markup(text)}}


def _plain(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text}
