"""The status that a run publishes in Prefect's database for whoever follows it from elsewhere: one artifact, which is updated.

It begins as "the gate runs", with the gate's id and its store, and ends with the exit code and the document that `prelaunch gate
--format json` prints. Its text is Markdown for people; the last line but one is JSON for programs. Long verdicts are truncated,
and say so; the store has everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort

from checks.exit_codes import Exit
from tasks.gate.outcome import ENDING_WORDS, Ending, Outcome, ending_json, outcome_json, rejection_kind
from tasks.gate.session import Session
from tasks.orchestration.artifacts import warn_on_failure
from tasks.paging.content import title_of
from tasks.render.markdown import escape

PREFIX = "gate-run-"
SCHEMA = 1
FINDINGS, WITH_EVIDENCE = 500, 20
DESCRIPTION = 300
RUNS = "The gate runs. `prelaunch watch` follows it."


def key_of(cluster: str) -> str:
    """The artifact's key."""
    return f"{PREFIX}{cluster}"


async def status_artifact(client: PrefectClient, run: UUID) -> Artifact | None:
    """The last status of a run. A run that is repeated publishes a new one, so that no old verdict remains."""
    of_run, of_key = ArtifactFilterFlowRunId(any_=[run]), ArtifactFilterKey(like_=f"{PREFIX}%")
    chosen = ArtifactFilter(flow_run_id=of_run, key=of_key)
    found = await client.read_artifacts(artifact_filter=chosen, sort=ArtifactSort.CREATED_DESC, limit=1)
    return found[0] if found else None


async def publish_start(session: Session) -> None:
    """Publish the gate's id before anything runs."""
    session.announcement = await _write(key_of(session.setting.gate.cluster.name), RUNS, _running(session))


async def publish_state(session: Session, said: str = RUNS) -> None:
    """Publish what the run does now instead of what it published before, also by the process of its that continues it."""
    if session.announcement is None:
        with warn_on_failure("what the run does"):
            async with get_client() as client:
                found = await status_artifact(client, UUID(session.keeper.lease.owner.flow_run_id))
            session.announcement = found.id if found is not None else None
    if session.announcement is not None:
        await _update(session.announcement, said, _running(session))


async def publish_end(session: Session, outcome: Outcome) -> None:
    """Publish how the gate ended."""
    said = outcome_json(outcome, session.setting.gate.name)
    left_out = _cut(said)
    lines = list(outcome.judged.context.said) if outcome.judged else []
    ended = {
        "phase": "ended",
        "exit_code": int(outcome.code),
        "outcome": said,
        "beside": lines,
        "findings_left_out": left_out,
    }
    data, title = {**_about(session), **ended}, title_of(outcome, session.setting.gate.name)
    if session.announcement is None:
        await _write(key_of(session.setting.gate.cluster.name), title, data)
    else:
        await _update(session.announcement, title, data)


async def publish_rejection(error: Exception) -> None:
    """Publish that nothing was started: the request is wrong, or another gate holds the cluster's lock."""
    reason = str(error)
    line = f"{ENDING_WORDS[Ending.REJECTED]} gate: {reason}"
    said = ending_json(None, None, None, None, None, "", reason, line, rejected=rejection_kind(error))
    nowhere = {"schema_version": SCHEMA, "gate_id": "", "gate": "", "cluster": "", "store": ""}
    ended = {
        "phase": "ended",
        "exit_code": int(Exit.REJECTED),
        "outcome": said,
        "beside": [],
        "findings_left_out": 0,
    }
    await _write(key_of("rejected"), line, {**nowhere, **ended})


def _running(session: Session) -> dict[str, object]:
    return {**_about(session), "phase": "running", "exit_code": None, "outcome": None}


def _about(session: Session) -> dict[str, object]:
    gate = session.setting.gate
    return {
        "schema_version": SCHEMA,
        "gate_id": session.gate_id,
        "gate": gate.name,
        "cluster": gate.cluster.name,
        "store": session.setting.address,
    }


def _cut(document: dict[str, Any]) -> int:
    """Keep only the first findings, and of them only the first with evidence; returns how many were removed."""
    verdict = document["verdict"]
    if verdict is None:
        return 0
    findings = verdict["findings"]
    kept = [*findings[:WITH_EVIDENCE], *({**f, "evidence": ""} for f in findings[WITH_EVIDENCE:FINDINGS])]
    document["verdict"] = {**verdict, "findings": kept}
    return len(findings) - len(kept)


async def _write(key: str, said: str, data: Mapping[str, object]) -> UUID | None:
    with warn_on_failure(key):
        text, about = _text(said, data), said[:DESCRIPTION]
        return await acreate_markdown_artifact(text, key=key, description=about)
    return None


async def _update(artifact: UUID, said: str, data: Mapping[str, object]) -> None:
    with warn_on_failure("how the run ended"):
        update = ArtifactUpdate(data=_text(said, data), description=said[:DESCRIPTION])
        async with get_client() as client:
            await client.update_artifact(artifact, update)


def _text(said: str, data: Mapping[str, object]) -> str:
    code = data.get("exit_code")
    ended = "" if code is None else f"\n\nExit code {code}, decision {_decision(data)}."
    line = json.dumps(data, sort_keys=True, allow_nan=False)
    return f"{escape(said)}{ended}\n\n```json\n{line}\n```\n"


def _decision(data: Mapping[str, object]) -> object:
    outcome = data.get("outcome")
    return (outcome.get("decision") if isinstance(outcome, Mapping) else None) or "none"
