"""Report <-> JSON. A merged report is stored in columns: the nodes once, then metric -> one value per subject.

A node writes a node report (rows, at most NODE_REPORT_BYTES) while it runs; `checks.merge` makes the merged report from these.
"""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, cast

from checks import model
from checks.documents.columns import CheckTable, Columns, Observations, by_check
from checks.documents.decode import decode, parse_json
from checks.model_details import Images
from checks.value_types import SPARSE, DecodeError, Range

# More than three times what the pair tests of eight ranks of one of 512 nodes take, which are by far the most of it.
NODE_REPORT_BYTES = 1024 * 1024
REPORT_BYTES = 512 * 1024 * 1024

MERGED_FILE = "health_check_metrics.json"

# A column of so many equal values or more is written as one value under this key. Most columns of a fleet are such.
EVERY, REPEATED = "all", 256

# A file that also has the tables of another tool holds the report under this key (tasks/render/seed_report.py).
WRAPPED = "prelaunch_report"
Version = Annotated[int, Range(model.SCHEMA_VERSION, model.SCHEMA_VERSION)]


@dataclass(frozen=True)
class ReportFile:
    """The content of `health_check_metrics.json`."""

    schema_version: Version
    gate_id: str
    attempt: str
    measured_at: str
    profile: model.Profile
    declared: model.Declared
    catalogue: str
    plan: tuple[model.Planned, ...]
    nodes: tuple[model.Node, ...]
    checks: Mapping[str, Columns]
    collection: tuple[str, ...]
    ends: tuple[model.NodeEnd, ...] = ()
    certificates: str = dataclasses.field(default="", metadata=SPARSE)
    images: Images | None = dataclasses.field(default=None, metadata=SPARSE)
    raised: tuple[str, ...] = dataclasses.field(default=(), metadata=SPARSE)


@dataclass(frozen=True)
class NodeReport:
    """Everything that one node has observed so far. Only the last write sets `node.complete`."""

    schema_version: Version
    gate_id: str
    measured_at: str
    profile: model.Profile
    declared: model.Declared
    plan: tuple[model.Planned, ...]
    node: model.Node
    observations: tuple[model.Observation, ...]


def dump(report: model.Report) -> bytes:
    """The report as canonical JSON (sorted keys, UTF-8): equal reports give equal bytes."""
    file = ReportFile(
        schema_version=model.SCHEMA_VERSION,
        checks={},
        **{f.name: getattr(report, f.name) for f in dataclasses.fields(report) if f.name != "observations"},
    )
    tables = {
        check: _written(table.by_subject().columns) for check, table in by_check(report.observations).items()
    }
    return dump_plain({**plain_table(file), "checks": tables})


def load(data: bytes) -> model.Report:
    """The report in `data`. Raises DecodeError if it is not completely a report of this version."""
    # There are millions of new values and no cycles among them: the garbage collector would scan all of them again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        value = parse_json(data, REPORT_BYTES)
        value = value.get(WRAPPED, value) if isinstance(value, dict) else value
        _require_version(value)
        _repeat(value.get("checks") if isinstance(value, dict) else None)
        file = decode(ReportFile, value)
    finally:
        # To the oldest generation, unseen: they would all be new, and the next collection would look at each.
        gc.freeze()
        gc.unfreeze()
        if collecting:
            gc.enable()
    for check, columns in file.checks.items():
        if not columns.even:
            raise DecodeError("the columns differ in length", f"checks.{check}")
    observations = Observations(CheckTable(check, columns) for check, columns in file.checks.items())
    names = [f.name for f in dataclasses.fields(model.Report) if f.name != "observations"]
    return model.Report(observations=observations, **{name: getattr(file, name) for name in names})


def _written(columns: Columns) -> dict[str, object]:
    """The columns as the file has them."""
    table = plain_table(columns)
    for holder, name in _columns_of(table):
        column, count = holder[name], len(columns.subjects)
        # The texts differ where values are equal but not the same: True and 1, 0.0 and -0.0.
        if count >= REPEATED and column.count(column[0]) == count and len(set(map(repr, column))) == 1:
            holder[name] = {EVERY: column[0]}
    return table


def _repeat(checks: object) -> None:
    """Write the columns of all checks as lists again. Raises DecodeError if these are more values than a file of REPORT_BYTES could
    list: a short file must not fill the memory.
    """
    repeated, values = [], 0
    for table in checks.values() if isinstance(checks, dict) else ():
        for holder, name in _columns_of(table) if type(table) is dict else ():
            column, subjects = holder[name], table.get("subjects")
            if type(column) is dict and column.keys() == {EVERY}:
                count = len(subjects) if type(subjects) is list else 0
                values += count * max(1, len(column[EVERY]) if type(column[EVERY]) is list else 1)
                repeated.append((holder, name, [column[EVERY]], count))
    if values > REPORT_BYTES // 2:  # a value and its comma
        raise DecodeError(f"it repeats {values:,} values", "checks")
    for holder, name, once, count in repeated:
        holder[name] = once * count


def _columns_of(table: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Where each column of a check is, but that of its subjects."""
    own = [(table, name) for name in table if name not in ("subjects", "metrics")]
    metrics = table.get("metrics")
    return own + [(metrics, name) for name in metrics] if type(metrics) is dict else own


def load_node(data: bytes) -> NodeReport:
    """The node report in `data`. Raises DecodeError."""
    value = parse_json(data, NODE_REPORT_BYTES)
    _require_version(value)
    return decode(NodeReport, value)


def dump_plain(value: object) -> bytes:
    """A dataclass, enum or container as canonical JSON. Raises ValueError for NaN: nothing writes it."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def plain_table(value: object) -> dict[str, object]:
    """A dataclass as a dict."""
    return cast(dict[str, object], plain(value))


_SCALARS = frozenset({str, int, float, bool, type(None)})


def plain(value: object) -> object:
    """A dataclass, enum or container as dicts, lists and scalars."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, (list, tuple)) and set(map(type, value)) <= _SCALARS:
        return list(value)
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names, sparse = _names(type(value))
        table: dict[str, object] = {name: plain(getattr(value, name)) for name in names}
        for name, default in sparse:
            if (item := getattr(value, name)) != default:
                table[name] = plain(item)
        return table
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@lru_cache(maxsize=256)
def _names(dataclass_type: Any) -> tuple[tuple[str, ...], tuple[tuple[str, object], ...]]:
    """The keys that are always there, and those that are left out with their default (SPARSE)."""
    fields = dataclasses.fields(dataclass_type)
    names = tuple(field.name for field in fields if field.metadata.keys().isdisjoint(SPARSE))
    return names, tuple((field.name, field.default) for field in fields if field.name not in names)


def digest(data: bytes) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(data).hexdigest()


def clip(text: str) -> tuple[str, bool]:
    """Evidence cut to 4 KiB of UTF-8, with its start and end, and whether anything was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= model.EVIDENCE_BYTES:
        return data.decode("utf-8"), False
    half = model.EVIDENCE_BYTES // 2 - 32
    start, end = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    return f"{start}\n[{len(data) - 2 * half} bytes cut]\n{end}", True


def _require_version(value: object) -> None:
    version = value.get("schema_version") if isinstance(value, dict) else None
    if type(version) is not int or version != model.SCHEMA_VERSION:
        raise DecodeError(
            f"schema version {version!r:.40} is unknown, this reads {model.SCHEMA_VERSION}", "schema_version"
        )
