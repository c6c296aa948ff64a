"""What an operator may ask for: it is the flow's one parameter, and so the form in Prefect's UI."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Wait = Literal["verdict", "started", "finished"]


class Advanced(BaseModel):
    """Leave as is unless you know why."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    overrides: list[str] = Field(
        default=[],
        title="Overrides",
        description="Values to change in the gate file: a.b=value. Commands and paths cannot be changed.",
        json_schema_extra={"position": 0},
    )
    store: str = Field(
        default="",
        title="Store",
        description="Where reports and leases are kept; empty: as the gate file says.",
        json_schema_extra={"position": 1},
    )
    baseline: str = Field(
        default="",
        title="Baseline",
        description="A baseline's file: what is worse than it is a WARN; empty: as the gate file says.",
        json_schema_extra={"position": 3},
    )
    ask_minutes: int = Field(
        default=30,
        ge=0,
        le=24 * 60,
        title="Wait for a person (minutes)",
        description="How long a question stays open; 0: do not wait, nothing is launched.",
        json_schema_extra={"position": 2},
    )


class GateRequest(BaseModel):
    """Checks the cluster, then launches the training job only if it is healthy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gate_file: str = Field(
        title="Gate file",
        description="Path of a gate file (deployments/gates/*.toml).",
        min_length=1,
        json_schema_extra={"position": 0},
    )
    wait: Wait = Field(
        default="finished",
        title="Wait until",
        description="verdict: hand the training over, end. started: until it runs. finished: until it ended.",
        json_schema_extra={"position": 1},
    )
    advanced: Advanced = Field(default=Advanced(), title="Advanced", json_schema_extra={"position": 2})
