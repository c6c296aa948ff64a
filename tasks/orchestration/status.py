"""The status that a run publishes in Prefect's database for whoever follows it from elsewhere: one artifact, which is updated.

It begins as "the gate runs", with the gate's id and its store, and ends with the exit code and the document that `prelaunch gate
--format json` prints. Its text is Markdown for people; the last line but one is JSON for programs. Long verdicts are truncated,
and say so; the store has everything.

It is read strictly: one that is not completely understood counts as no verdict.

StatusError         it is not a status of this version, or it contradicts itself
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort

from checks.documents.decode import decode, parse_json
from checks.exit_codes import Exit
from checks.model import Answer, Level, Verdict
from checks.value_types import DecodeError
from tasks.gate.outcome import (
    DECISION_EXITS,
    ENDING_EXITS,
    ENDING_WORDS,
    Decision,
    Ending,
    GateOutcome,
    outcome_json,
    rejection_kind,
    unjudged_json,
)
from tasks.gate.question import ApprovalAction
from tasks.gate.session import Session
from tasks.orchestration.artifacts import warn_on_failure
from tasks.paging.content import title_of
from tasks.render.context import NO_CONTEXT
from tasks.render.markdown import escape
from tasks.store.records import verdict_in

PREFIX = "gate-run-"
SCHEMA = 1
FINDINGS, WITH_EVIDENCE = 500, 20
DESCRIPTION = 300
BYTES = 64 << 20
CODES = (*ENDING_EXITS.values(), *DECISION_EXITS.values())
DECISIONS_THAT_EXIT_ZERO = tuple(decision for decision, code in DECISION_EXITS.items() if code is Exit.GO)
RUNS = "The gate runs. `prelaunch run follow` follows it."


def key_of(cluster: str) -> str:
    """The artifact's key."""
    return f"{PREFIX}{cluster}"


async def status_artifact(client: PrefectClient, run: UUID) -> Artifact | None:
    """The last status of a run. A run that is repeated publishes a new one, so that no old verdict remains."""
    of_run, of_key = ArtifactFilterFlowRunId(any_=[run]), ArtifactFilterKey(like_=f"{PREFIX}%")
    chosen = ArtifactFilter(flow_run_id=of_run, key=of_key)
    artifacts = await client.read_artifacts(artifact_filter=chosen, sort=ArtifactSort.CREATED_DESC, limit=1)
    return artifacts[0] if artifacts else None


async def publish_start(session: Session) -> None:
    """Publish the gate's id before anything runs."""
    session.announcement = await _write(key_of(session.context.gate.cluster.name), RUNS, _running(session))


async def publish_state(session: Session, sentence: str = RUNS) -> None:
    """Publish what the run does now instead of what it published before, also by the process of its that continues it."""
    if session.announcement is None:
        with warn_on_failure("what the run does"):
            async with get_client() as client:
                artifact = await status_artifact(client, UUID(session.renewal.lease.owner.flow_run_id))
            session.announcement = artifact.id if artifact is not None else None
    if session.announcement is not None:
        await _update(session.announcement, sentence, _running(session))


async def publish_end(session: Session, outcome: GateOutcome) -> None:
    """Publish how the gate ended."""
    name = session.context.gate.name
    context = outcome.judged.context if outcome.judged else NO_CONTEXT
    lines = (*context.notes, *context.below)
    title = title_of(outcome, name)
    data = {**_about(session), **_end(outcome_json(outcome, name), outcome.code, lines)}
    if session.announcement is None:
        await _write(key_of(session.context.gate.cluster.name), title, data)
    else:
        await _update(session.announcement, title, data)


async def publish_rejection(error: Exception) -> None:
    """Publish that nothing was started: the request is wrong, or another gate holds the cluster's lock."""
    line = f"{ENDING_WORDS[Ending.REJECTED]} gate: {error}"
    document = unjudged_json(str(error), line, rejected=rejection_kind(error))
    nowhere = {"schema_version": SCHEMA, "gate_id": "", "gate": "", "cluster": "", "store": ""}
    await _write(key_of("rejected"), line, {**nowhere, **_end(document, Exit.REJECTED)})


def _end(document: dict[str, Any], code: Exit, lines: Sequence[str] = ()) -> dict[str, object]:
    left_out = _cut(document)
    return {
        "phase": "ended",
        "exit_code": int(code),
        "outcome": document,
        "beside": list(lines),
        "findings_left_out": left_out,
    }


def _running(session: Session) -> dict[str, object]:
    return {**_about(session), "phase": "running", "exit_code": None, "outcome": None}


def _about(session: Session) -> dict[str, object]:
    gate = session.context.gate
    return {
        "schema_version": SCHEMA,
        "gate_id": session.gate_id,
        "gate": gate.name,
        "cluster": gate.cluster.name,
        "store": session.context.address,
    }


def _cut(document: dict[str, Any]) -> int:
    """Keep only the first findings, and of them only the first with evidence; returns how many were removed."""
    verdict = document["verdict"]
    if verdict is None:
        return 0
    findings = verdict["findings"]
    left = [*findings[:WITH_EVIDENCE], *({**f, "evidence": ""} for f in findings[WITH_EVIDENCE:FINDINGS])]
    document["verdict"] = {**verdict, "findings": left}
    return len(findings) - len(left)


async def _write(key: str, sentence: str, data: Mapping[str, object]) -> UUID | None:
    with warn_on_failure(key):
        text, about = _text(sentence, data), sentence[:DESCRIPTION]
        return await acreate_markdown_artifact(text, key=key, description=about)
    return None


async def _update(artifact: UUID, sentence: str, data: Mapping[str, object]) -> None:
    with warn_on_failure("how the run ended"):
        update = ArtifactUpdate(data=_text(sentence, data), description=sentence[:DESCRIPTION])
        async with get_client() as client:
            await client.update_artifact(artifact, update)


def _text(sentence: str, data: Mapping[str, object]) -> str:
    code = data.get("exit_code")
    ended = "" if code is None else f"\n\nExit code {code}, decision {_decision(data)}."
    line = json.dumps(data, sort_keys=True, allow_nan=False)
    return f"{escape(sentence)}{ended}\n\n```json\n{line}\n```\n"


def _decision(data: Mapping[str, object]) -> object:
    outcome = data.get("outcome")
    return (outcome.get("decision") if isinstance(outcome, Mapping) else None) or "none"


class StatusError(Exception):
    """The status of the run cannot be read; the message says why."""


@dataclass(frozen=True)
class RunStatus:
    """The last status of a run. `code` and `document` are None while it runs; `verdict` is None if nothing was judged."""

    gate_id: str
    gate: str
    cluster: str
    store: str
    code: int | None
    document: Mapping[str, object] | None
    verdict: Verdict | None
    lines: tuple[str, ...]
    left_out: int


def read_status(data: object) -> RunStatus:
    """The status in an artifact's data. Raises StatusError."""
    try:
        table = parse_json(_line(data), BYTES)
        if not isinstance(table, Mapping) or table.get("schema_version") != SCHEMA:
            raise StatusError("it is not a status of this version")
        texts = {key: decode(str, table.get(key), key) for key in ("gate_id", "gate", "cluster", "store")}
        if table.get("phase") == "running":
            return RunStatus(**texts, code=None, document=None, verdict=None, lines=(), left_out=0)
        return _ended(table, texts)
    except DecodeError as error:
        raise StatusError(str(error)) from error


def _line(data: object) -> str:
    """The one line of JSON at the end of the text."""
    lines = data.rstrip().splitlines() if isinstance(data, str) else []
    if len(lines) < 3 or lines[-1] != "```" or lines[-3] != "```json":
        raise StatusError("it is not a status of this version")
    return lines[-2]


def _ended(table: Mapping[str, object], texts: Mapping[str, str]) -> RunStatus:
    document = table.get("outcome")
    if table.get("phase") != "ended" or not isinstance(document, Mapping):
        raise StatusError("it shows neither that the run continues nor how it ended")
    code = decode(int, table.get("exit_code"), "exit_code")
    verdict = None if (value := document.get("verdict")) is None else verdict_in(value, "verdict")
    _require_consistent_exit_code(code, document, verdict)
    lines = decode(tuple[str, ...], table.get("beside"), "beside")
    left_out = decode(int, table.get("findings_left_out"), "findings_left_out")
    return RunStatus(**texts, code=code, document=document, verdict=verdict, lines=lines, left_out=left_out)


def _require_consistent_exit_code(code: int, document: Mapping[str, object], verdict: Verdict | None) -> None:
    """Refuses a code that no gate has, and exit code 0 without a GO, an approval or observe mode."""
    if code not in CODES:
        raise StatusError(f"its exit code {code} is not valid")
    if code != Exit.GO:
        return
    decision = document.get("decision")
    if verdict is None or decision not in DECISIONS_THAT_EXIT_ZERO:
        raise StatusError("it ended well without a verdict")
    if verdict.answer is Answer.GO and verdict.level is Level.FAIL:
        raise StatusError("its answer is go, and its level is FAIL")
    said_so = decision == Decision.OBSERVED or _launches(document.get("approval"))
    if verdict.answer is not Answer.GO and not said_so:
        raise StatusError(f"it ended well with the answer {verdict.answer.value}, and nobody approved it")


def _launches(approval: object) -> bool:
    """Whether a person's answer lets the training start. An answer that refuses, or does not count, does not."""
    fields = approval if isinstance(approval, Mapping) else {}
    return fields.get("action") == ApprovalAction.LAUNCH and fields.get("note") == ""
