"""The request of a commissioning: its form, and the gate request that each cluster gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.config import JsonDict

from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.record.request import require_names
from tasks.gate_file.folder import gate_file_names
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import Advanced, GateRequest, Note, at_position, bounded_schema

# The ranks' checks come after the nodes', and the reports after both.
STAGE_SHARE = 0.75
PROFILE = "How thoroughly the nodes are checked."
MINUTES = "A cluster's checks end after this time, or after that of its gate file if it is longer, and its verdict is CANNOT TELL."
LEARN = "After a go the cluster's baseline is learned anew from its stored reports. The file that a gate compares with never changes."
REPORTS = "The newest reports of that cluster that ended in a go; others are not learned from."
BUSY = "How long a cluster is waited for whose lock another gate holds; then it is reported as BUSY. The other clusters do not wait."


def _names(schema: JsonDict) -> None:
    schema["position"] = 0
    if names := gate_file_names():
        schema["items"] = {"type": "string", "enum": list(names)}


class CommissionRequest(BaseModel):
    """Checks whole clusters, side by side, and launches nothing. What passed teaches the cluster's baseline."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Commissioning")

    gate_files: list[str] = Field(
        title="Gate files",
        description="The clusters to check, one gate file per cluster. Two gate files of the same cluster cannot be checked at once.",
        min_length=1,
        max_length=50,
        json_schema_extra=_names,
    )
    profile: Literal["quick", "standard", "deep"] = at_position(1, "deep", "Check profile", PROFILE)
    minutes: int = at_position(2, 120, "Checks may take (minutes)", MINUTES, ge=1, le=24 * 60)
    learn: bool = at_position(3, True, "Learn baselines", LEARN)
    reports: int = at_position(4, 20, "Learn from (reports)", REPORTS, ge=1, le=500)
    busy_minutes: int = at_position(5, 60, "Wait for a busy cluster (minutes)", BUSY, ge=0, le=24 * 60)
    reason: Note = Field(default="", json_schema_extra=bounded_schema(6))


def gate_contexts(request: CommissionRequest) -> dict[str, GateContext]:
    """By gate file. Raises GateFileError: for whatever is wrong in one, and where two are of one cluster.

    A cluster's lock is held by a process: two gates of this one would take it for their own.
    """
    require_names(request.gate_files)
    contexts: dict[str, GateContext] = {}
    for gate_file in request.gate_files:
        context = open_gate_context(_request_of(request, gate_file))
        name = context.gate.cluster.name
        same = next((other for other, opened in contexts.items() if opened.gate.cluster.name == name), None)
        if same is not None:
            message = f"{same} and {gate_file} both belong to cluster {name}. Name only one of them"
            raise GateFileError("gate_files", "", message)
        contexts[gate_file] = open_gate_context(_request_of(request, gate_file, context))
    return contexts


def gate_requests(request: CommissionRequest, settings: Mapping[str, GateContext]) -> dict[str, GateRequest]:
    """By gate file: checks made anew, for as long as they may take, and nothing launched."""
    return {gate_file: _request_of(request, gate_file, context) for gate_file, context in settings.items()}


def _request_of(request: CommissionRequest, file: str, context: GateContext | None = None) -> GateRequest:
    sets = ["policy.reuse_pass_minutes=0"]
    if context is not None:
        checks = context.gate.checks
        minutes = max(float(request.minutes), checks.max_runtime_minutes)
        stage_s = max(minutes * 60 * STAGE_SHARE, checks.stage_s)
        unbounded = checks.model_copy(update={"deadline_s": None, "max_runtime_minutes": minutes})
        deadline_s = max(checks.whole_deadline_s, unbounded.whole_deadline_s)
        sets += [f"checks.max_runtime_minutes={minutes}", f"checks.stage_s={stage_s}"]
        sets.append(f"checks.deadline_s={deadline_s}")
    return GateRequest(
        gate_file=file,
        profile=request.profile,
        launch=False,
        wait="verdict",
        reason=request.reason or "commissioning",
        advanced=Advanced(overrides=sets, ask_minutes=0),
    )


def commission_title(parameters: Mapping[str, Any]) -> str:
    """ "commission p5-prod, p5-test: deep"; "commission" for a request that the flow is going to reject."""
    try:
        request = CommissionRequest.model_validate(parameters.get("request"))
    except ValidationError:
        return "commission"
    return f"commission {', '.join(request.gate_files):.200}: {request.profile}"
