"""What an operator may ask for: it is the flow's one parameter, and so the form in Prefect's UI.

A field's place in the form is its `position`. There is no Optional, no union and no default_factory, because the form shows
none of them well. What the schema cannot express (an override's key, a file that is broken) the flow refuses with Rejected.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from tasks.gate_file.folder import gate_file_names

Wait = Literal["verdict", "started", "finished"]
AS_THE_FILE_SAYS = "as the gate file says"
Depth = Literal["as the gate file says", "quick", "standard", "deep"]
# What a line of the overrides looks like; its key and value are checked when the gate file is read.
ASSIGNMENT = ".=."
PLACES = ("baseline", "store")
ASK = "How long a question stays open; no answer is a refusal. 0: nobody is asked, nothing is launched."
BASELINE = "A baseline's file on the worker: a value that is worse is a WARN. Empty: as the gate file says."
STORE = (
    "Where reports and locks are stored: a folder on the worker, or s3://bucket/prefix. "
    "Empty: as the gate file says. Gates of one cluster must share it."
)
PROFILE = (
    "How thoroughly the nodes are checked. A more thorough profile may take longer than the gate file allows: "
    "see Overrides, checks.max_runtime_minutes."
)
WAIT = "verdict: submit it and end. started: until it runs. finished: until it has ended."
GATE = "The id of the gate. Empty: go on with the open cases of the cluster, or take its last refused gate."
REPORT_STORE = "Where the gate's report is. Empty: as the gate file says."
OPEN_ONLY = "Go on with repairs that wait or were interrupted, and begin none. Without any, nothing is done."
BOUNDS = ("minimum", "maximum", "minLength", "maxLength")


def names_as_choices(schema: JsonDict) -> None:
    """The gate files' names as a drop-down, the first field. The folder is read when a schema is made, never at import."""
    schema["position"] = 0
    if names := gate_file_names():
        schema["enum"] = list(names)


def bounded_schema(position: int) -> Any:
    """A field's bounds once more, under allOf, so that an error is shown next to it.

    Prefect's V1 form drops all other keys before it asks whether a value is valid; the server then names the bound when the
    form is gone, in a corner of the page.
    """

    def extra(schema: JsonDict) -> None:
        schema["position"] = position
        schema["allOf"] = [{key: schema[key] for key in BOUNDS if key in schema}]

    return extra


def at_position(position: int, default: object, title: str, text: str, **bounds: Any) -> Any:
    """A field of a form with its title, its place, and the text below it."""
    extra = bounded_schema(position) if "ge" in bounds else {"position": position}
    return Field(default=default, title=title, description=text, json_schema_extra=extra, **bounds)


def hide_locations(schema: JsonDict) -> None:
    """Where a form offers names, it offers no paths: a person who chooses the store also chooses its answers, passes and locks."""
    properties = schema.get("properties")
    if gate_file_names() and isinstance(properties, dict):
        for name in PLACES:
            properties.pop(name, None)


def place_last(schema: JsonDict) -> None:
    """The group is the last one; its default, which the form sends back, has no more fields than the form."""
    schema["position"] = 9
    default = schema.get("default")
    if gate_file_names() and isinstance(default, dict):
        schema["default"] = {name: value for name, value in default.items() if name not in PLACES}


class Advanced(BaseModel):
    """Leave as is unless you know why."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        title="Advanced: leave as is unless you know why",
        json_schema_extra=hide_locations,
    )

    overrides: list[str] = Field(
        default=[],
        title="Overrides",
        description="Values to change in the gate file for this run, one per line: cluster.declared.nodes=4. "
        "Commands, paths, people and secrets cannot be changed.",
        json_schema_extra={"position": 0, "items": {"type": "string", "pattern": ASSIGNMENT}},
    )
    ask_minutes: int = at_position(1, 30, "Wait for approval (minutes)", ASK, ge=0, le=24 * 60)
    baseline: str = at_position(2, "", "Baseline", BASELINE)
    store: str = at_position(3, "", "Store", STORE)


GateFileName = Annotated[
    str, Field(title="Gate file", min_length=1, max_length=4096, json_schema_extra=names_as_choices)
]
NOTE = "A note for people who read the record later. Optional."
Note = Annotated[str, Field(max_length=500, title="Why this run", description=NOTE)]


class GateRequest(BaseModel):
    """Checks the cluster, then launches the training job only if it is healthy."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Gate")

    gate_file: GateFileName = Field(
        description="The name of the gate file. It defines cluster, checks, policy and training."
    )
    profile: Depth = at_position(1, "as the gate file says", "Check profile", PROFILE)
    launch: bool = at_position(2, True, "Launch the training", "Off: check and decide; launch nothing.")
    wait: Wait = at_position(3, "finished", "Wait for the training", WAIT)
    reason: Note = Field(default="", json_schema_extra=bounded_schema(4))
    advanced: Advanced = Field(default=Advanced(), title="Advanced", json_schema_extra=place_last)

    @property
    def sets(self) -> tuple[str, ...]:
        """All that is changed in the gate file, in the form of `--set`; a line of `overrides` wins."""
        chosen = () if self.profile == AS_THE_FILE_SAYS else (f'checks.profile="{self.profile}"',)
        return (*chosen, *self.advanced.overrides)


class RemedyRequest(BaseModel):
    """Repairs the machines that a gate condemned, proves them, and gives them back, as its gate file allows."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Remedy", json_schema_extra=hide_locations)

    gate_file: GateFileName = Field(
        description="The name of the gate file of the gate that condemned machines."
    )
    gate_id: str = at_position(
        1, "", "Gate", GATE, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$", max_length=253
    )
    store: str = at_position(2, "", "Store", REPORT_STORE, max_length=4096)
    open_only: bool = at_position(3, False, "Only what waits", OPEN_ONLY)
