"""What a commissioning asks for: its form, and the gate that each cluster gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.config import JsonDict

from tasks.gatefolder import offered
from tasks.gateread import GateFileError
from tasks.request import Advanced, GateRequest, bounded
from tasks.requested import require_names
from tasks.setting import Setting, open_setting

# The ranks' checks come after the nodes', and the reports after both.
STAGE_SHARE = 0.75


def _names(schema: JsonDict) -> None:
    schema["position"] = 0
    if names := offered():
        schema["items"] = {"type": "string", "enum": list(names)}


class CommissionRequest(BaseModel):
    """Checks whole clusters, side by side, and launches nothing. What passed teaches the cluster's baseline."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Commissioning")

    gate_files: list[str] = Field(
        title="Gate files",
        description="Which clusters: a gate file each. Two gate files of one cluster cannot be checked at once.",
        min_length=1,
        max_length=50,
        json_schema_extra=_names,
    )
    profile: Literal["quick", "standard", "deep"] = Field(
        default="deep",
        title="Check profile",
        description="How deep to look.",
        json_schema_extra={"position": 1},
    )
    minutes: int = Field(
        default=120,
        ge=1,
        le=24 * 60,
        title="Checks may take (minutes)",
        description="A cluster's checks are ended after this time, and it cannot be told. "
        "A gate file that allows more is taken at its word.",
        json_schema_extra=bounded(2),
    )
    learn: bool = Field(
        default=True,
        title="Learn baselines",
        description="After a go the cluster's baseline is learned anew from its kept reports. "
        "The file that a gate is held to is never changed.",
        json_schema_extra={"position": 3},
    )
    reports: int = Field(
        default=20,
        ge=1,
        le=500,
        title="Learn from (reports)",
        description="The newest reports of that cluster that ended in a go; others are not learned from.",
        json_schema_extra=bounded(4),
    )
    reason: str = Field(
        default="",
        max_length=500,
        title="Why this run",
        description="For whoever looks at the record later. It may stay empty.",
        json_schema_extra=bounded(5),
    )


def settings_of(request: CommissionRequest) -> dict[str, Setting]:
    """By gate file. Raises GateFileError: for whatever is wrong in one, and where two are of one cluster.

    A cluster's lease is held by a process: two gates of this one would take it for their own.
    """
    require_names(request.gate_files)
    found: dict[str, Setting] = {}
    for named in request.gate_files:
        setting = open_setting(_request_of(request, named))
        name = setting.gate.cluster.name
        same = next((other for other, one in found.items() if one.gate.cluster.name == name), None)
        if same is not None:
            said = f"{same} and {named} are both of cluster {name}. Name one of them"
            raise GateFileError("gate_files", "", said)
        found[named] = open_setting(_request_of(request, named, setting))
    return found


def requests_of(request: CommissionRequest, settings: Mapping[str, Setting]) -> dict[str, GateRequest]:
    """By gate file: checks made anew, for as long as they may take, and nothing launched."""
    return {named: _request_of(request, named, setting) for named, setting in settings.items()}


def _request_of(request: CommissionRequest, named: str, setting: Setting | None = None) -> GateRequest:
    sets = ["policy.reuse_pass_minutes=0"]
    if setting is not None:
        checks = setting.gate.checks
        minutes = max(float(request.minutes), checks.max_runtime_minutes)
        stage_s = max(minutes * 60 * STAGE_SHARE, checks.stage_s)
        sets += [f"checks.max_runtime_minutes={minutes}", f"checks.stage_s={stage_s}"]
    return GateRequest(
        gate_file=named,
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
