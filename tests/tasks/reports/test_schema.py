"""The committed JSON Schema of a report and the strict reader: one corpus, one answer."""

from __future__ import annotations

import dataclasses
import importlib
import json
import typing
from enum import Enum
from typing import Any

import jsonschema
import pytest

from checks.documents.report import dump, load
from checks.value_types import DecodeError
from tasks.launchers.registry import LAUNCHERS
from tasks.reports.schema import PATH, gate_schema
from tests.sample_reports import healthy
from tests.tasks.reports.test_schema_corpus import broken

VALIDATOR = jsonschema.Draft202012Validator(json.loads(PATH.read_text()))
# Between them these metrics are of every kind: numbers, flags and words, single and in lists.
CHECKS = ("collective.all_reduce", "compute.gemm", "network.pairs", "system.clock", "training.ddp")
KINDS = ("wrong_elements", "gflops", "bandwidth_gbps", "peers", "synchronised", "weights_digest")
WHOLE: dict[str, Any] = json.loads(dump(healthy()))
# One check that has the first subject of each of them.
TABLES = [table for check in CHECKS for table in WHOLE["checks"][check]["metrics"].items()]
METRICS = {name: column[:1] for name, column in TABLES if name in KINDS}
COLUMNS = {name: column[:1] for name, column in WHOLE["checks"][CHECKS[0]].items() if name != "metrics"}
TABLE = {"compute.gemm": {**COLUMNS, "metrics": METRICS}}
GOOD: dict[str, Any] = {**WHOLE, "plan": WHOLE["plan"][:1], "checks": TABLE}
# Values put in the place of every value of the report. 1.0 is left out: JSON's data model has one number for 1 and
# 1.0, so no schema can tell them apart; the reader refuses 1.0 where a count is due.
INTRUDERS: tuple[Any, ...] = (None, True, -1, 1.5, "", "nonsense", [], {}, [None], {"x": 1}, 10**400)


def reader_takes(document: Any) -> bool:
    """Whether the strict reader takes it."""
    try:
        load(json.dumps(document).encode())
    except DecodeError as error:
        # Columns of unlike length are beyond what a schema can say; that is the reader's alone.
        return "the columns differ in length" in error.reason
    return True


def test_schema_and_reader_accept_and_refuse_the_same() -> None:
    """Over every place of a report: whatever stands there, or is missing."""
    documents = [*broken(GOOD, INTRUDERS), *((f"{value!r}", value) for value in INTRUDERS)]

    assert len(KINDS) == len(METRICS)
    assert VALIDATOR.is_valid(GOOD) and reader_takes(GOOD) and len(documents) > 500
    assert [] == [name for name, one in documents if VALIDATOR.is_valid(one) is not reader_takes(one)]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_gate_schema_takes_every_choice_of_the_launchers_options(launcher: str) -> None:
    """Two launchers have an option `code`, each with values of its own."""
    options = importlib.import_module(LAUNCHERS[launcher]).Options
    kinds = typing.get_type_hints(options)
    choices = [
        (field.name, value.value)
        for field in dataclasses.fields(options)
        if isinstance(kind := kinds[field.name], type) and issubclass(kind, Enum)
        for value in kind
    ]
    validator = jsonschema.Draft202012Validator(json.loads(gate_schema()))
    refused = [
        (name, value)
        for name, value in choices
        for error in validator.iter_errors({"cluster": {"launcher": launcher, "options": {name: value}}})
        if name in error.absolute_path
    ]

    assert ([], True) == (refused, bool(choices))
