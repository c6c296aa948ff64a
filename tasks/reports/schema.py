"""The JSON Schemas of reports, gate files and policies, made from the types that their readers decode.

`python -m tasks.reports.schema` writes the committed files; tests compare them. Editors find those of gate files and policies by
the line `#:schema` at the top of a file. The schema of a gate's result is written by hand; tests compare every end of a gate with it.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter

from checks.documents.report import EVERY, ReportFile
from checks.policy import Policy
from tasks.gate_file.model import Gate
from tasks.launchers.registry import LAUNCHERS

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "checks" / "report.schema.json"
GATE_PATH = ROOT / "deployments" / "schemas" / "gate.schema.json"
POLICY_PATH = ROOT / "deployments" / "schemas" / "policy.schema.json"
RESULT_PATH = ROOT / "deployments" / "schemas" / "result.schema.json"
EXACT = 2**53
DEFINED = "#/$defs/{model}"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def report_schema() -> str:
    """The schema as text: unknown keys are refused wherever the reader refuses them."""
    schema = TypeAdapter(ReportFile).json_schema()
    columns = schema["$defs"]["Columns"]["properties"]
    for name in columns.keys() - {"subjects", "metrics"}:
        columns[name] = _column(columns[name])
    columns["metrics"]["additionalProperties"] = _column(columns["metrics"]["additionalProperties"])
    return schema_text(schema, "health_check_metrics.json")


def _column(values: dict[str, Json]) -> dict[str, Json]:
    """A list, or the one value of all subjects."""
    return {
        "anyOf": [values, {"type": "object", "properties": {EVERY: values["items"]}, "required": [EVERY]}]
    }


def policy_schema() -> str:
    """The schema of a policy, with what each key means."""
    return schema_text(TypeAdapter(Policy).json_schema(), "A policy of Prelaunch")


def gate_schema() -> str:
    """The schema of a gate file, with what each key means, and the options of each launcher."""
    schema = Gate.model_json_schema(ref_template=DEFINED)
    shared, cases = schema["$defs"], list[Json]()
    for name, module in LAUNCHERS.items():
        # Each launcher's own definitions bear its name: those of two launchers may be called alike.
        own_ref = DEFINED.format(model=f"{name}_{{model}}")
        options = TypeAdapter(importlib.import_module(module).Options).json_schema(ref_template=own_ref)
        shared.update({f"{name}_{model}": table for model, table in options.pop("$defs", {}).items()})
        shared[f"Options_{name}"] = options
        launcher: Json = {"properties": {"cluster": {"properties": {"launcher": {"const": name}}}}}
        own: Json = {"options": {"$ref": DEFINED.format(model=f"Options_{name}")}}
        needed: Json = ["options"] if options.get("required") else []
        then: Json = {"properties": {"cluster": {"properties": own, "required": needed}}}
        # Where the file names no launcher, the condition holds too: that is the first, "local".
        required: Json = {} if not cases else {"properties": {"cluster": {"required": ["launcher"]}}}
        cases.append({"if": {"allOf": [launcher, required]}, "then": then})
    shared["Cluster"]["properties"]["launcher"]["enum"] = list(LAUNCHERS)
    return schema_text({**schema, "allOf": cases}, "A gate file of Prelaunch")


def schema_text(schema: dict[str, Json], title: str) -> str:
    """The text of a schema that refuses unknown keys."""
    _make_strict(schema)
    head: dict[str, Json] = {"$schema": DIALECT, "title": title}
    return json.dumps({**schema, **head}, indent=1, sort_keys=True) + "\n"


def _strict(table: dict[str, Json]) -> None:
    """Refuse other keys, as a dataclass does, and remove titles, which only repeat field names."""
    if table.get("type") == "object" and "properties" in table:
        table["additionalProperties"] = False
    if isinstance(table.get("title"), str) and table.get("type") != "object":
        table.pop("title")
    if table.get("type") == "number":
        # Finite is what a double can hold; a longer number is refused by the reader too.
        table.setdefault("minimum", -sys.float_info.max)
        table.setdefault("maximum", sys.float_info.max)
    for key in ("minimum", "maximum"):
        bound = table.get(key)
        if isinstance(bound, float) and abs(bound) < EXACT and bound.is_integer():
            table[key] = int(bound)


def _make_strict(value: Json) -> None:
    """Change every table within a schema."""
    if isinstance(value, dict):
        if not isinstance(value.get("title"), dict):  # a field that is called "title" is no title
            _strict(value)
        for item in value.values():
            _make_strict(item)
    elif isinstance(value, list):
        for item in value:
            _make_strict(item)


SCHEMAS: Mapping[str, tuple[Path, Callable[[], str]]] = {
    "gate": (GATE_PATH, gate_schema),
    "policy": (POLICY_PATH, policy_schema),
    "report": (PATH, report_schema),
}


def main() -> int:
    """Write the files."""
    for path, schema in SCHEMAS.values():
        path.parent.mkdir(exist_ok=True)
        path.write_text(schema(), encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
