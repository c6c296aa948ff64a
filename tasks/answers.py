"""What was answered to a question: through Slack, as the store has it, and through Prefect's form. The strictest stands."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State
from prefect.input.run_input import keyset_from_base_key
from pydantic import ValidationError

from checks.decode import DecodeError
from tasks.form import GateDecision
from tasks.question import Action, Answer, Question, Via, may_answer, read_answer, stands
from tasks.store.base import Store, StoreError
from tasks.threads import to_end

LOG = logging.getLogger("prelaunch")
SCHEMA = GateDecision.model_json_schema(by_alias=True)


def keyset_of(question: str) -> dict[str, str]:
    """Where Prefect keeps a question's form and its answer; the same in every process of the run."""
    keyset = keyset_from_base_key(question)
    return {"schema": keyset["schema"], "description": keyset["description"], "response": keyset["response"]}


async def save_form(client: PrefectClient, run: UUID, question: Question, description: str) -> None:
    """What the run's page is to show. Idempotent. Raises what the client raises where the server does not answer."""
    keys = keyset_of(question.key)
    for key, value in ((keys["schema"], json.dumps(SCHEMA)), (keys["description"], json.dumps(description))):
        try:
            await client.create_flow_run_input(run, key, value)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.CONFLICT:  # it was saved before: the same question
                raise


async def given(client: PrefectClient, store: Store, run: UUID, question: Question) -> Answer | None:
    """The answer that stands; None where nobody answered in time. Raises what the client raises."""
    found = [await proven(store, question), await _filled_in(client, run, question)]
    return stands(question, [answer for answer in found if answer is not None])


async def proven(store: Store, question: Question) -> Answer | None:
    """What the Slack process wrote, if that user may say so. A store that does not answer is asked again later."""
    try:
        found = await to_end(read_answer, store, question.gate_id, question.key)
    except (StoreError, DecodeError) as error:
        LOG.warning("an answer in the store cannot be read: %s", error)
        return None
    if found is None or (found.verified and may_answer(question, found.who, found.action)):
        return found
    LOG.warning("the answer of %s does not count: they may not give it", found.who)
    return None


async def states_of(client: PrefectClient, run: UUID) -> list[State]:
    """The run's states since it was paused last, oldest first; all of them where it never was."""
    states = sorted(await client.read_flow_run_states(run), key=lambda state: state.timestamp)
    paused = max((i for i, state in enumerate(states) if state.is_paused()), default=-1)
    return states[paused + 1 :]


async def _filled_in(client: PrefectClient, run: UUID, question: Question) -> Answer | None:
    """What the form brought. It counts from when Prefect took it."""
    try:
        text = await client.read_flow_run_input(run, keyset_of(question.key)["response"])
    except httpx.HTTPStatusError as error:
        if error.response.status_code == httpx.codes.NOT_FOUND:
            return None
        raise
    try:
        filled = GateDecision.model_validate(json.loads(text))
    except (ValueError, ValidationError) as error:
        LOG.warning("the form's answer is none: %s", type(error).__name__)
        return None
    action, at = Action(filled.action), _first(await states_of(client, run))
    return Answer(
        question.schema_version, question.gate_id, question.key, action, filled.approver, Via.PREFECT, False,
        filled.reason, at,
    )  # fmt: skip


def _first(states: Sequence[State]) -> float:
    return states[0].timestamp.timestamp() if states else time.time()
