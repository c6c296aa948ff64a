"""Reads the answers to a question: the one through Slack from the store, and the one through the form in Prefect's UI.

If there are several, the strictest one counts. The module also defines that form: the text of the question and its fields.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Literal
from uuid import UUID, uuid4

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State
from prefect.input import RunInput
from prefect.input.run_input import keyset_from_base_key
from pydantic import ConfigDict, ValidationError
from pydantic.config import JsonDict

from checks.value_types import DecodeError
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.outcome import JudgedReport
from tasks.gate.question import (
    LEAST_REASON,
    REASON_CHARACTERS,
    AnswerChannel,
    ApprovalAction,
    ApprovalAnswer,
    Question,
    may_answer,
    read_answer,
    standing_answer,
)
from tasks.gate_file.request import at_position
from tasks.render.findings import gathered
from tasks.render.headline import sentence
from tasks.render.markdown import escape
from tasks.render.views.cost import cost_line
from tasks.store.base import Store, StoreError

# The server checks the answer against the schema before the run goes on; what a schema can say it says here.
_REASON_NEEDED: JsonDict = {
    "if": {"properties": {"action": {"const": "launch-anyway"}}, "required": ["action"]},
    "then": {"properties": {"reason": {"minLength": LEAST_REASON}}, "required": ["reason"]},
}
LOG = logging.getLogger("prelaunch")
FINDINGS = 10
OVERRIDE = (
    "The verdict is a FAIL. launch-anyway overrides it: the training starts on machines that failed the checks, or that could not "
    "be checked. Your name and your reason are recorded, and both the on-call and the gate's owner are notified."
)
NO_OVERRIDE = (
    "This form cannot override a FAIL, because it does not know who answers. A user listed in overriders can, in Slack. Choosing "
    "launch-anyway here ends the run as refused."
)
DECISIONS = (
    "block: nothing is launched. launch-anyway: the training starts on these machines. "
    "check-again: the checks run once more, from the start."
)
REASON = f"launch-anyway needs a reason of at least {LEAST_REASON} characters; the other decisions need none."
APPROVER = "Prefect cannot verify who answers, so the name is recorded as unverified."


class GateDecision(RunInput):
    """The answer to a verdict that is left to a person. It is recorded, and with it who gave it, when and why."""

    model_config = ConfigDict(json_schema_extra=_REASON_NEEDED)

    action: Literal["block", "launch-anyway", "check-again"] = at_position(0, "block", "Decision", DECISIONS)
    reason: str = at_position(1, "", "Why (launch-anyway needs it)", REASON, max_length=REASON_CHARACTERS)
    approver: str = at_position(2, ..., "Your name (approver)", APPROVER, min_length=2, max_length=100)


def question_text(question: Question, judged: JudgedReport, form_may_override: bool) -> str:
    """The text above the form: the question, its deadline, what an override means, the findings, and what a launch may lose.

    Markdown, and nothing else: the report is a link of the run's page.
    """
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(question.deadline))
    override = (OVERRIDE,) if form_may_override else (OVERRIDE, NO_OVERRIDE)
    paragraphs = (
        f"**{escape(question.said)}**",
        f"Answer by {until}; if nobody answers, the training is not launched.",
        *(override if question.override else ()),
        escape(judged.context.measured),
        "\n".join(_findings(judged)),
        escape(cost_line(judged.context.cost)),
    )
    return "\n\n".join(filter(None, paragraphs))


def _findings(judged: JudgedReport) -> Iterator[str]:
    """One line each; the report has their evidence."""
    groups = gathered(judged.verdict.findings)
    for item in groups[:FINDINGS]:
        yield f"- **{item.label}** {escape(sentence(item))}"
    if len(groups) > FINDINGS:
        yield f"- {len(groups) - FINDINGS} more are in the report."


SCHEMA = GateDecision.model_json_schema(by_alias=True)


def keyset_of(question: str) -> dict[str, str]:
    """Where Prefect keeps a question's form and its answer; the same in every process of the run."""
    keyset = keyset_from_base_key(question)
    return {"schema": keyset["schema"], "description": keyset["description"], "response": keyset["response"]}


def pause_name(question: Question) -> str:
    """The name of a pause: the question that it is for, and a mark that no other pause has."""
    return f"{question.gate_id} {question.key} {uuid4().hex[:8]}"


def paused_for(state: State) -> tuple[str, str] | None:
    """The gate's id and the key of the question for which a run is paused; None if it is not paused for one."""
    key_parts = (state.state_details.pause_key or "").split() if state.is_paused() else []
    return (key_parts[0], key_parts[1]) if len(key_parts) == 3 else None


def form_of(answer: ApprovalAnswer) -> dict[str, object]:
    """The answer in the fields of the form, which the server compares with the form's schema."""
    return {"action": answer.action.value, "reason": answer.reason, "approver": answer.who}


async def save_form(client: PrefectClient, run: UUID, question: Question, description: str) -> None:
    """Save the form that the run's page shows. Idempotent. Raises what the client raises if the server does not answer."""
    keys = keyset_of(question.key)
    for key, value in ((keys["schema"], json.dumps(SCHEMA)), (keys["description"], json.dumps(description))):
        try:
            await client.create_flow_run_input(run, key, value)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.CONFLICT:  # it was saved before: the same question
                raise


async def collect_answer(
    client: PrefectClient, store: Store, run: UUID, question: Question
) -> ApprovalAnswer | None:
    """The answer that counts; None if nobody answered in time. Raises what the client raises."""
    answers = [await read_proven_answer(store, question), await _filled_in(client, run, question)]
    return standing_answer(question, [answer for answer in answers if answer is not None])


async def read_proven_answer(store: Store, question: Question) -> ApprovalAnswer | None:
    """The answer that the Slack process wrote, if that user may answer. A store that does not answer is asked again later."""
    try:
        answer = await run_to_end(read_answer, store, question.gate_id, question.key)
    except (StoreError, DecodeError) as error:
        LOG.warning("an answer in the store cannot be read: %s", error)
        return None
    if answer is None or (answer.verified and may_answer(question, answer.who, answer.action)):
        return answer
    LOG.warning("the answer of %s is ignored: this user is not allowed to give it", answer.who)
    return None


async def states_since_pause(client: PrefectClient, run: UUID) -> list[State]:
    """The run's states since it was paused last, oldest first; all of them where it never was."""
    states = sorted(await client.read_flow_run_states(run), key=lambda state: state.timestamp)
    paused = max((i for i, state in enumerate(states) if state.is_paused()), default=-1)
    return states[paused + 1 :]


async def _filled_in(client: PrefectClient, run: UUID, question: Question) -> ApprovalAnswer | None:
    """The answer from the form. Its time is the time at which Prefect received it."""
    try:
        text = await client.read_flow_run_input(run, keyset_of(question.key)["response"])
    except httpx.HTTPStatusError as error:
        if error.response.status_code == httpx.codes.NOT_FOUND:
            return None
        raise
    try:
        filled = GateDecision.model_validate(json.loads(text))
    except (ValueError, ValidationError) as error:
        LOG.warning("the answer of the form is not valid: %s", type(error).__name__)
        return None
    states = await states_since_pause(client, run)
    action, at = ApprovalAction(filled.action), states[0].timestamp.timestamp() if states else time.time()
    return ApprovalAnswer(
        question.schema_version, question.gate_id, question.key, action, filled.approver, AnswerChannel.PREFECT, False,
        filled.reason, at,
    )  # fmt: skip
