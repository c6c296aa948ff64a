"""Report <-> JSON. A merged report is stored by columns: nodes once, then metric -> one value a subject.

A node writes a node report (rows, <= 256 KiB) as it goes; `checks.merge` makes the merged report of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from checks.decode import DecodeError, Range, decode, parse_json
from checks.model import (
    EVIDENCE_BYTES,
    SCHEMA_VERSION,
    Declared,
    Node,
    Observation,
    Outcome,
    Planned,
    Profile,
    Report,
    Skip,
    Value,
)

NODE_REPORT_BYTES = 256 * 1024
REPORT_BYTES = 512 * 1024 * 1024

Version = Annotated[int, Range(SCHEMA_VERSION, SCHEMA_VERSION)]
Seconds = Annotated[float, Range(0, 1e9)]


@dataclass(frozen=True)
class Columns:
    """All observations of one check; every list has one entry a subject, null where there is none."""

    subjects: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    seconds: tuple[Seconds, ...]
    started_s: tuple[Seconds, ...]
    skips: tuple[Skip | None, ...]
    reasons: tuple[str, ...]
    evidence: tuple[str, ...]
    evidence_truncated: tuple[bool, ...]
    evidence_sha256: tuple[str, ...]
    metrics: Mapping[str, tuple[Value | None, ...]]


@dataclass(frozen=True)
class ReportFile:
    """`health_check_metrics.json` as it lies on disk."""

    schema_version: Version
    gate_id: str
    attempt: str
    measured_at: str
    profile: Profile
    declared: Declared
    catalogue: str
    plan: tuple[Planned, ...]
    nodes: tuple[Node, ...]
    checks: Mapping[str, Columns]
    collection: tuple[str, ...]


@dataclass(frozen=True)
class NodeReport:
    """What one node knows so far. `node.complete` is set by the last write only."""

    schema_version: Version
    gate_id: str
    measured_at: str
    profile: Profile
    declared: Declared
    plan: tuple[Planned, ...]
    node: Node
    observations: tuple[Observation, ...]


def dump(report: Report) -> bytes:
    """The report's one canonical JSON text (sorted keys, UTF-8): equal reports give equal bytes."""
    by_check: dict[str, list[Observation]] = {}
    for observation in report.observations:
        by_check.setdefault(observation.check, []).append(observation)
    file = ReportFile(
        schema_version=SCHEMA_VERSION,
        checks={check: _columns(rows) for check, rows in by_check.items()},
        **{f.name: getattr(report, f.name) for f in dataclasses.fields(report) if f.name != "observations"},
    )
    return dump_plain(file)


def load(data: bytes) -> Report:
    """The report in `data`. Raises DecodeError for anything that is not wholly a report of this version."""
    value = parse_json(data, REPORT_BYTES)
    _require_version(value)
    file = decode(ReportFile, value)
    rows = tuple(row for check, columns in file.checks.items() for row in _rows(check, columns))
    names = [f.name for f in dataclasses.fields(Report) if f.name != "observations"]
    return Report(observations=rows, **{name: getattr(file, name) for name in names})


def load_node(data: bytes) -> NodeReport:
    """The node report in `data`. Raises DecodeError."""
    value = parse_json(data, NODE_REPORT_BYTES)
    _require_version(value)
    return decode(NodeReport, value)


def dump_plain(value: object) -> bytes:
    """A dataclass, enum or container as canonical JSON. Raises ValueError for NaN: nothing writes it."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def plain(value: object) -> object:
    """A dataclass, enum or container as dicts, lists and scalars."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def digest(data: bytes) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(data).hexdigest()


def clip(text: str) -> tuple[str, bool]:
    """Evidence cut to 4 KiB of UTF-8, keeping its start and end, and whether anything was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= EVIDENCE_BYTES:
        return data.decode("utf-8"), False
    half = EVIDENCE_BYTES // 2 - 32
    start, end = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    return f"{start}\n[{len(data) - 2 * half} bytes cut]\n{end}", True


def _require_version(value: object) -> None:
    version = value.get("schema_version") if isinstance(value, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise DecodeError(
            f"schema version {version!r:.40} is unknown, this reads {SCHEMA_VERSION}", "schema_version"
        )


def _columns(rows: Sequence[Observation]) -> Columns:
    rows = sorted(rows, key=lambda row: row.subject)
    names = sorted({name for row in rows for name in row.metrics})
    return Columns(
        subjects=tuple(row.subject for row in rows),
        outcomes=tuple(row.outcome for row in rows),
        seconds=tuple(row.seconds for row in rows),
        started_s=tuple(row.started_s for row in rows),
        skips=tuple(row.skip for row in rows),
        reasons=tuple(row.reason for row in rows),
        evidence=tuple(row.evidence for row in rows),
        evidence_truncated=tuple(row.evidence_truncated for row in rows),
        evidence_sha256=tuple(row.evidence_sha256 for row in rows),
        metrics={name: tuple(row.metrics.get(name) for row in rows) for name in names},
    )


def _rows(check: str, columns: Columns) -> list[Observation]:
    length = len(columns.subjects)
    lists = [getattr(columns, f.name) for f in dataclasses.fields(columns) if f.name != "metrics"]
    if any(len(item) != length for item in (*lists, *columns.metrics.values())):
        raise DecodeError("the columns differ in length", f"checks.{check}")
    return [
        Observation(
            check=check,
            subject=columns.subjects[i],
            outcome=columns.outcomes[i],
            seconds=columns.seconds[i],
            started_s=columns.started_s[i],
            metrics={name: v for name, values in columns.metrics.items() if (v := values[i]) is not None},
            skip=columns.skips[i],
            reason=columns.reasons[i],
            evidence=columns.evidence[i],
            evidence_truncated=columns.evidence_truncated[i],
            evidence_sha256=columns.evidence_sha256[i],
        )
        for i in range(length)
    ]
