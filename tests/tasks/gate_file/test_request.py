"""The form: what its schema offers, what a request changes in the gate file, and what is kept of it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from checks.model import Profile
from tasks.gate.commission import CommissionRequest, commission_title, gate_contexts, gate_requests
from tasks.gate.context import open_gate_context, run_title
from tasks.gate.record.request import keep_request
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import Advanced, GateRequest
from tasks.store.folder import FolderStore
from tasks.store.layout import request_key
from tests.flows.driving import open_session
from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import edit, opened, refusal


@pytest.mark.parametrize("model", [GateRequest, CommissionRequest])
def test_every_field_has_a_place_a_title_and_a_shape_that_the_form_shows(model: type[BaseModel]) -> None:
    """No union and no null, which the form shows badly; whatever has no default is asked for."""
    schema = model.model_json_schema()
    groups = (schema, *schema.get("$defs", {}).values())
    for name, field in chain.from_iterable(group["properties"].items() for group in groups):
        assert isinstance(field["position"], int) and field["title"], name
        assert not {"anyOf", "oneOf"} & set(field), name
        assert "description" in field or "$ref" in field, name
        assert "default" in field or name in ("gate_file", "gate_files")


def test_the_names_are_read_when_the_form_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate file more is a choice more; without a folder any path may be typed."""
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path))
    assert "enum" not in GateRequest.model_json_schema()["properties"]["gate_file"]
    (tmp_path / "new.toml").write_text("[cluster]\n")

    assert ["new"] == GateRequest.model_json_schema()["properties"]["gate_file"]["enum"]
    assert ["new"] == CommissionRequest.model_json_schema()["properties"]["gate_files"]["items"]["enum"]
    monkeypatch.setenv("PRELAUNCH_GATES", "")
    assert "enum" not in GateRequest.model_json_schema()["properties"]["gate_file"]


def test_bounds_stand_twice() -> None:
    """As JSON Schema has them, and where the V1 form looks."""
    field = Advanced.model_json_schema()["properties"]["ask_minutes"]

    assert [{"minimum": 0, "maximum": 1440}] == field["allOf"]
    assert (0, 1440) == (field["minimum"], field["maximum"])


def test_the_profile_of_the_form_is_an_override(tmp_path: Path) -> None:
    """The gate file's own by default; a line of the overrides has the last word."""
    path = str(write_gate(tmp_path))

    def profile(form: str, *overrides: str) -> Profile:
        more = {"profile": form, "advanced": {"overrides": overrides}}
        return open_gate_context(GateRequest.model_validate({"gate_file": path, **more})).gate.checks.profile

    assert (Profile.QUICK, Profile.DEEP) == (opened(path).gate.checks.profile, profile("deep"))
    assert Profile.STANDARD is profile("deep", "checks.profile=standard")
    assert "gate test: 2 nodes, deep" == run_title({"request": {"gate_file": path, "profile": "deep"}})


@pytest.mark.parametrize(
    ("advanced", "said"),
    [
        ({"overrides": ["nodes"]}, "overrides (--set): nodes: "),
        ({"overrides": ["training.command=x"]}, "overrides (--set): training.command: "),
        ({"overrides": ["cluster.declared.nodez=1"]}, "gate.toml with overrides (--set): cluster.declared.nodez"),
        ({"baseline": "none.json"}, "baseline (--baseline): "),
        ({"store": "ftp://x"}, "store: "),
    ],
)  # fmt: skip
def test_form_error_names_the_field(tmp_path: Path, advanced: dict[str, Any], said: str) -> None:
    """Whoever filled the form finds the field again."""
    assert said in str(refusal(write_gate(tmp_path), **advanced))


def test_request_is_kept_with_the_reason_of_the_run(store: FolderStore) -> None:
    """Beside the verdict, with the flow run and all that was asked for."""
    keep_request(store, "g", GateRequest(gate_file="local", reason="node-1 came back"), "run-1")

    kept = json.loads(store.get(request_key("g")) or b"")
    assert ("run-1", "node-1 came back", "local") == (kept["flow_run"], kept["reason"], kept["gate_file"])


def test_a_commissioning_measures_for_as_long_as_it_may_and_launches_nothing(tmp_path: Path) -> None:
    """The limits of a quick gate file would end a deep one; those of a longer one stay."""
    named = str(write_gate(tmp_path))

    def asked() -> GateRequest:
        request = CommissionRequest(gate_files=[named], minutes=120)
        return gate_requests(request, gate_contexts(request))[named]

    assert 4260.0 == open_gate_context(asked()).gate.checks.whole_deadline_s
    edit(Path(named), "stage_s = 20.0", "stage_s = 20.0\ndeadline_s = 30")
    request, gate = asked(), open_gate_context(asked()).gate
    checks = gate.checks
    assert (Profile.DEEP, 120.0, 5400.0) == (checks.profile, checks.max_runtime_minutes, checks.stage_s)
    assert 4260.0 == checks.whole_deadline_s
    assert (False, 0) == (request.launch, request.advanced.ask_minutes)
    assert 0.0 == gate.policy.reuse_pass_minutes
    edit(Path(named), "max_runtime_minutes = 1.0", "max_runtime_minutes = 500")
    edit(Path(named), "stage_s = 20.0\ndeadline_s = 30", "stage_s = 20000\ndeadline_s = 9000")
    longer = open_gate_context(asked()).gate.checks
    assert (500.0, 22500.0, 9000.0) == (longer.max_runtime_minutes, longer.stage_s, longer.deadline_s)


def test_a_commissioning_is_called_by_its_clusters() -> None:
    """ "commission" where the request is none."""
    assert "commission a, b: deep" == commission_title({"request": {"gate_files": ["a", "b"]}})
    assert "commission" == commission_title({"request": {}})
    with pytest.raises(ValidationError):
        CommissionRequest(gate_files=[])


@pytest.mark.parametrize("place", ["store", "baseline"])
def test_a_deployment_takes_no_store_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Whoever fills the form would bring their own answers, passes and leases; its schema does not offer it either."""
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path))
    write_gate(tmp_path)
    request = GateRequest.model_validate({"gate_file": "gate", "advanced": {place: str(tmp_path / "mine")}})
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")

    assert place not in Advanced.model_json_schema()["properties"]
    with pytest.raises(GateFileError, match=f"^{place}: cannot be chosen for a deployment"):
        open_session(request, "a-run")


@pytest.mark.parametrize(
    ("override", "form", "deployed", "refused"),
    [
        ("policy={mode='observe'}", "form_may_override = false", True, True),
        ("policy.reuse_pass_minutes=1440", "", True, True),
        ("policy.reuse_pass_minutes=0", "", True, False),
        ("policy.mode=observe", "form_may_override = true", True, False),
        ("policy.mode=observe", "", False, False),
    ],
)
def test_a_form_lets_no_failure_pass_by_an_override(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, form: str, deployed: bool, refused: bool
) -> None:
    """The form does not know who fills it in. A terminal, a gate file that trusts its form, and a stricter value are accepted."""
    path = write_gate(tmp_path, policy="reuse_pass_minutes = 60")
    path.write_text(f"{path.read_text()}[approval]\n{form}\n")
    if deployed:
        monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")
    request = GateRequest(gate_file=str(path), advanced=Advanced(overrides=[override]))
    expected = pytest.raises(GateFileError, match="form_may_override") if refused else nullcontext()

    with expected, open_session(request, "a-run"):
        pass


def test_form_default_matches_its_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group's default has the group's fields and no other: the server would refuse an untouched form."""
    (tmp_path / "new.toml").write_text("[cluster]\n")
    for folder in (str(tmp_path), ""):
        monkeypatch.setenv("PRELAUNCH_GATES", folder)
        schema = GateRequest.model_json_schema()
        group = schema["$defs"]["Advanced"]["properties"]

        assert set(group) == set(schema["properties"]["advanced"]["default"])
        assert bool(folder) is ("store" not in group)
