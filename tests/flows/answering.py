"""Answers a gate's question, as a person does in Prefect's form; the gate runs in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

from checks.documents.decode import decode, parse_json
from tasks.gate.approval.answers import keyset_of
from tasks.gate.outcome import GateOutcome
from tasks.gate.question import AnswerChannel, ApprovalAction, ApprovalAnswer, Question, keep_answer
from tasks.gate_file.request import GateRequest
from tasks.store.folder import FolderStore
from tests.flows.driving import run

REASON = "the run is short, and the node is drained tonight"


def form(action: str, reason: str = REASON, approver: str = "Ada") -> dict[str, str]:
    """What the form sends."""
    return {"action": action, "reason": reason, "approver": approver}


async def paused(running: asyncio.Future[Any], gate_file: Path) -> Any:
    """The flow run of this gate file, once it waits and has its form; None where the gate ended without waiting. Others may wait."""
    from prefect.client.orchestration import get_client

    async with get_client() as client:
        while not running.done():
            for question in asked(gate_file.parent / "store")[-1:]:
                found = await client.read_flow_run(UUID(question.flow_run_id))
                saved_last = keyset_of(question.key)["description"]
                has_form = await client.filter_flow_run_input(found.id, saved_last, 1, set())
                if found.state is not None and found.state.is_paused() and has_form:
                    return found
            await asyncio.sleep(0.1)
    return None


async def answer_all(request: GateRequest, *forms: dict[str, str]) -> tuple[Any, GateOutcome]:
    """Run the gate; each of its questions gets the next of these answers."""
    from prefect.flow_runs import aresume_flow_run

    running = asyncio.create_task(run(request))
    for given in forms:
        if (flow_run := await paused(running, Path(request.gate_file))) is None:
            break
        await aresume_flow_run(flow_run.id, run_input=given)
    return await running


def answered(request: GateRequest, *actions: str) -> GateOutcome:
    """The outcome after these actions, each with a reason, by Ada."""
    return asyncio.run(answer_all(request, *map(form, actions)))[1]


def asked(store: Path) -> list[Question]:
    """The questions that the store holds, oldest first."""
    files = sorted(store.glob("gates/*/questions/*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [decode(Question, parse_json(path.read_bytes(), 1 << 20)) for path in files]


def by_slack(
    store: Path, question: Question, user: str, action: ApprovalAction, reason: str = REASON
) -> bool:
    """Leave the answer that the Slack process leaves when `user` has pressed a button."""
    of, at = (question.gate_id, question.key), question.asked_at + 0.001
    answer = ApprovalAnswer(1, *of, action, user, AnswerChannel.SLACK, True, reason, at)
    return keep_answer(FolderStore(store), answer)
