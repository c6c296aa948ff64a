"""The JSON Schema of health_check_metrics.json, made from the types that the strict reader decodes.

`python -m tasks.reports.schema` writes checks/report.schema.json; a test compares the committed file with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter

from checks.documents.report import ReportFile

PATH = Path(__file__).resolve().parents[2] / "checks" / "report.schema.json"
EXACT = 2**53
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def report_schema() -> str:
    """The schema as text: unknown keys are refused wherever the reader refuses them."""
    schema: dict[str, Json] = TypeAdapter(ReportFile).json_schema()
    _walk(schema, _strict)
    head: dict[str, Json] = {"$schema": DIALECT, "title": "health_check_metrics.json"}
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
    for word in ("minimum", "maximum"):
        bound = table.get(word)
        if isinstance(bound, float) and abs(bound) < EXACT and bound.is_integer():
            table[word] = int(bound)


def _walk(value: Json, change: Callable[[dict[str, Json]], None]) -> None:
    if isinstance(value, dict):
        if not isinstance(value.get("title"), dict):  # a field that is called "title" is no title
            change(value)
        for item in value.values():
            _walk(item, change)
    elif isinstance(value, list):
        for item in value:
            _walk(item, change)


def main() -> int:
    """Write the file."""
    PATH.write_text(report_schema(), encoding="utf-8")
    print(PATH)
    return 0


if __name__ == "__main__":
    sys.exit(main())
