"""All built-in facts that apply to an instance type: each row of each table with its source, conditions, date and kind (pure)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from checks import facts as folder
from checks.documents.decode import parse_json
from checks.facts.durations import devices_of
from checks.facts.instances import Facts, Instance, is_of_model
from checks.facts.peak_rates import of_model
from checks.facts.provenance import KEYS, TABLE, Provenance, every_row

FOLDER = Path(folder.__path__[0])
CODES_SECTION = "Codes and their meanings"
RATES_SECTION = "Rates expected of such machines (of collectives: the bus bandwidth)"
# The files, and what people read their rows under. Codes apply to every type with a GPU.
SECTIONS = {
    "parts": "The most that such a GPU can do",
    **dict.fromkeys(("collectives", "gemm", "memory", "transfer"), RATES_SECTION),
    "prices": "Prices on demand",
    "durations": "How long the checks take",
    "not_applicable": "Metrics that such a GPU does not have",
    "failures": "Failure statistics of all types",
    **dict.fromkeys(("xid", "sxid", "nvlink5", "xid_overlays", "dcgm"), CODES_SECTION),
}


@dataclass(frozen=True)
class InstanceFact:
    """One fact: a number of the type itself, or a row of a table as text. `section` is what people read it under, `fields` the row."""

    section: str
    name: str
    value: float | str
    provenance: Provenance
    fields: Mapping[str, Any] = field(default_factory=dict)


def instance_facts(name: str, facts: Facts) -> tuple[InstanceFact, ...]:
    """All of an instance type that is in the table. Codes and their meanings come last."""
    instance = facts.instances[name]
    sections = {file: text for file, text in SECTIONS.items() if instance.gpus or text != CODES_SECTION}
    entries = (fact for file, text in sections.items() for fact in _facts(file, text, name, instance))
    return (*_instance(instance, facts), *entries)


def _instance(instance: Instance, facts: Facts) -> Iterator[InstanceFact]:
    for column in (entry.name for entry in dataclasses.fields(Instance)):
        value = getattr(instance, column)
        if column not in ("provenance", "columns") and value not in (None, ""):
            yield InstanceFact("The type", column, value, facts.origin(instance, column))


@cache
def _document(file: str) -> tuple[Any, tuple[tuple[str, Provenance], ...]]:
    """A file of facts, and where each of its rows comes from."""
    document = parse_json((FOLDER / f"{file}.json").read_bytes(), 1 << 24)
    return document, tuple(every_row(document))


def _facts(file: str, section: str, name: str, instance: Instance) -> Iterator[InstanceFact]:
    """The rows of a file that apply to the type."""
    document, origins = _document(file)
    devices = devices_of(instance, instance.gpus).value
    for path, provenance in origins:
        table, _, key = path.partition(".")
        data = document[table]
        is_list = isinstance(data, list)
        fact = data[int(key)] if is_list else data[key]
        models = [other["model"] for other in data if "model" in other] if is_list and "model" in fact else []
        if _applies(fact, name, instance, devices, models):
            values = {column: value for column, value in fact.items() if column not in (*KEYS, TABLE)}
            label = table if is_list else f"{file}.{table}.{key}"
            text = ", ".join(f"{column} {_short(value)}" for column, value in values.items())
            yield InstanceFact(section, label, text, provenance, values)


def _applies(fact: Mapping[str, Any], name: str, instance: Instance, devices: str, models: list[str]) -> bool:
    """Whether a row is about the type; one that names no type, no GPU and no device is about all of them."""
    model = fact.get("model")
    # A metric is not available on all variants of a GPU; a rate is that of the model that is named most precisely.
    nearest = of_model(instance.gpu, models)
    is_of_gpu = is_of_model(instance.gpu, model or "") if "metric" in fact else model == nearest
    return (
        (model is None or is_of_gpu)
        and name in fact.get("types", [name])
        and fact.get("instance_type", name) == name
        and fact.get("devices", devices) == devices
    )


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
