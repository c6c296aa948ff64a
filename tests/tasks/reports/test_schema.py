"""The committed JSON Schema and the strict reader: one corpus, one answer."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema

from checks.documents.report import dump, load
from checks.value_types import DecodeError
from tasks.reports.schema import PATH, report_schema
from tests.sample_reports import healthy

VALIDATOR = jsonschema.Draft202012Validator(json.loads(PATH.read_text()))
# Between them these checks have metrics of every kind: numbers, flags and words, single and in lists.
CHECKS = ("collective.all_reduce", "compute.gemm", "network.pairs", "system.clock", "training.ddp")
WHOLE: dict[str, Any] = json.loads(dump(healthy()))
GOOD: dict[str, Any] = {**WHOLE, "checks": {name: WHOLE["checks"][name] for name in CHECKS}}
# Values put in the place of every value of the report. 1.0 is left out: JSON's data model has one number for 1 and
# 1.0, so no schema can tell them apart; the reader refuses 1.0 where a count is due.
INTRUDERS: tuple[Any, ...] = (None, True, -1, 1.5, "", "nonsense", [], {}, [None], {"x": 1}, 10**400)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path in a document; of a list the first entry stands for all, and so does the first check for columns."""
    if path:
        yield path
    if isinstance(value, dict):
        later_check = len(path) == 2 and path[0] == "checks" and path[1] != CHECKS[0]
        for key, item in value.items():
            if key == "metrics" or not later_check:
                yield from places(item, (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def around(path: tuple[Any, ...]) -> Any:
    """The good report with the one check that the path is about. Nothing in a report depends on which other checks it has."""
    name = path[1] if len(path) > 1 and path[0] == "checks" else CHECKS[0]
    return {**GOOD, "checks": {name: GOOD["checks"][name]}}


def changed(path: tuple[Any, ...], value: Any, remove: bool = False) -> Any:
    """The good report with one value replaced or removed."""
    made = copy.deepcopy(around(path))
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made


def reader_takes(document: Any) -> bool:
    """Whether the strict reader takes it."""
    try:
        load(json.dumps(document).encode())
    except DecodeError as error:
        # Columns of unlike length are beyond what a schema can say; that is the reader's alone.
        return "the columns differ in length" in error.reason
    return True


def corpus() -> Iterator[tuple[str, Any]]:
    """Documents, each one step from the good one, and some that are none."""
    yield "good", GOOD
    yield from ((f"top-{type(value).__name__}", value) for value in INTRUDERS)
    for path in places(GOOD):
        name = ".".join(map(str, path))
        yield f"{name} removed", changed(path, None, remove=True)
        for value in INTRUDERS:
            yield f"{name} = {value!r:.20}", changed(path, value)
        inner = around(path)
        for key in path:
            inner = inner[key]
        if isinstance(inner, dict):
            yield f"{name} with another key", changed(path, {**inner, "surprise": 1})


def test_the_committed_schema_is_current() -> None:
    """`python -m tasks.reports.schema` writes it."""
    assert PATH.read_text() == report_schema()


def test_schema_and_reader_accept_and_refuse_the_same() -> None:
    """Over every place of a report: whatever stands there, or is missing."""
    documents = list(corpus())
    unlike = [
        name for name, document in documents if VALIDATOR.is_valid(document) is not reader_takes(document)
    ]

    assert reader_takes(GOOD) and len(documents) > 500
    assert unlike == []
