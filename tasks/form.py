"""The form of a question in Prefect's UI: what is asked, and what may be answered."""

from __future__ import annotations

import time
from typing import Literal

from prefect.input import RunInput
from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from tasks.outcome import Judged
from tasks.question import LEAST_REASON, REASON_CHARACTERS, Question
from tasks.render.markdown import escape, markdown

# The server checks the answer against the schema before the run goes on; what a schema can say it says here.
_REASON_NEEDED: JsonDict = {
    "if": {"properties": {"action": {"const": "launch-anyway"}}, "required": ["action"]},
    "then": {"properties": {"reason": {"minLength": LEAST_REASON}}, "required": ["reason"]},
}


class GateDecision(RunInput):
    """The answer to a verdict that is left to a person. It is recorded, and with it who gave it, when and why."""

    model_config = ConfigDict(json_schema_extra=_REASON_NEEDED)

    action: Literal["block", "launch-anyway", "check-again"] = Field(
        default="block",
        title="Decision",
        description="block: nothing is launched. launch-anyway: the training starts on these machines. "
        "check-again: the checks run once more, from the start.",
        json_schema_extra={"position": 0},
    )
    reason: str = Field(
        default="",
        title="Why",
        description=f"To launch anyway needs a reason, of {LEAST_REASON} characters or more.",
        max_length=REASON_CHARACTERS,
        json_schema_extra={"position": 1},
    )
    approver: str = Field(
        title="Your name",
        description="As you type it: Prefect knows no users, so it is recorded as unverified.",
        min_length=2,
        max_length=100,
        json_schema_extra={"position": 2},
    )


def described(question: Question, judged: Judged, form_may_override: bool) -> str:
    """What stands above the form: what is asked, by when, what an override means, and the findings. Markdown."""
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(question.deadline))
    lines = [f"**{escape(question.said)}**", "", f"Answer by {until}; no answer is a refusal."]
    if question.override:
        lines += [
            "",
            "The verdict is a FAIL. To launch anyway overrides it: the training starts on machines that the gate found "
            "unfit, or could not check. It is recorded with your name and your reason, and both the hardware's on-call "
            "and the gate's owner are paged.",
        ]
        if not form_may_override:
            lines += [
                "",
                "This form cannot override a FAIL here: it knows no users. An overrider can, in Slack. To choose "
                "launch-anyway here ends the run as refused.",
            ]
    page = markdown(judged.report, judged.verdict, question.gate, judged.beside)
    return "\n".join(
        [*lines, "", page.partition("\n")[2]]
    )  # its heading is said already, and huge in a dialog
