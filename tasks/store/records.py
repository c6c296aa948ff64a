"""The record that a store keeps of one verdict, in a few hundred bytes: records/<gate id>.json. The rows of an index are made of it.

A verdict.json, from which it is made, is read strictly: one of another version is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, digest, dump_plain
from checks.documents.report import load as load_report
from checks.judge.rules.wording import several, subject_text, subjects_text
from checks.model import ANSWER_WORDS, SCHEMA_VERSION, Answer, Cause, Finding, Level, Profile, Report, Verdict
from checks.value_types import DecodeError, Text
from tasks.store.base import Store, document_at
from tasks.store.layout import RECORDS, name_of, record_key
from tasks.text.inert import one_line

VERDICT_BYTES = 256 * 1024 * 1024
RECORD_BYTES = 1 << 22
FINDING_CHARACTERS = 300
# tasks.gate.jobs.new_gate_id ends a gate's id so.
STAMP = re.compile(r"-(\d{8}-\d{6})-[0-9a-f]{4}$")
# tasks.retest ends the name of the cluster of a re-test so.
RETEST_CLUSTER = re.compile(r"-retest-[0-9a-f]{8}$")
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", re.IGNORECASE)
# Checks have names of the form area.thing. The other words that a finding may have ("report", "baseline") are no measurement.
NO_CHECKS = ("watch.findings",)
GateId = Annotated[str, Text(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 253)]
Instant = Annotated[str, Text(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", 20)]


def is_missing(finding: Finding) -> bool:
    """Whether evidence is missing that the policy requires: it is said as CANNOT TELL, and not as a failure."""
    return finding.cause is Cause.EVIDENCE and finding.level is Level.FAIL


def is_measurement(finding: Finding) -> bool:
    """Whether it is about a check, whose name has the form area.thing, and not about a report or what the watch had found."""
    return "." in finding.check and finding.check not in NO_CHECKS


def matter(finding: Finding) -> str:
    """What it is about, beside check, subject and cause: its metric, or else its words without numbers, which differ each time."""
    return finding.metric or NUMBER.sub("#", one_line(finding.message, FINDING_CHARACTERS))


def finding_line(finding: Finding, subjects: Sequence[str] = ()) -> str:
    """The finding as a sentence: its level, or CANNOT TELL, and whom it is about; `subjects` as in `finding_sentence`."""
    label = ANSWER_WORDS[Answer.CANNOT_TELL] if is_missing(finding) else finding.level.value
    return f"{label} {finding_sentence(finding, subjects)}"


def finding_sentence(finding: Finding, subjects: Sequence[str] = ()) -> str:
    """The finding as a sentence with its subject, without its level; `subjects` are all of which the same was found."""
    if len(subjects) < 2:
        return f"{subject_text(finding.subject)}{'' if finding.is_predicate else ':'} {finding.message}"
    message = several(finding.message) if finding.is_predicate else finding.message
    return f"{subjects_text(subjects)}{'' if finding.is_predicate else ':'} {message}"


def _alike(finding: Finding, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Every subject of which the same was found, in the order of the findings."""
    same = (finding.level, finding.cause, finding.check, finding.message)
    return tuple(
        dict.fromkeys(
            item.subject for item in findings if (item.level, item.cause, item.check, item.message) == same
        )
    )


def findings_line(findings: Sequence[Finding]) -> str:
    """What a gate found of one node in a line: the first finding; where that is missing evidence, how many checks lack it."""
    bad = [finding for finding in findings if finding.level is not Level.PASS] or list(findings)
    first = bad[0]
    missing = [finding for finding in bad if is_missing(finding)]
    if not is_missing(first) or len(missing) == 1:
        return finding_line(first, _alike(first, bad))
    checks = len({finding.check for finding in missing})
    label = ANSWER_WORDS[Answer.CANNOT_TELL]
    count = f"{checks} check{'' if checks == 1 else 's'} ({len(missing)} results)"
    return f"{label} {count}, first {first.check}: {finding_sentence(first)}"


def load(data: bytes) -> Verdict:
    """The verdict in a verdict.json. Raises DecodeError."""
    return verdict_in(parse_json(data, VERDICT_BYTES))


def verdict_in(table: object, path: str = "") -> Verdict:
    """The verdict in the table of a verdict.json. Raises DecodeError."""
    if not isinstance(table, Mapping):
        raise DecodeError("expected a table", path)
    coverage = table.get("coverage")
    if isinstance(coverage, Mapping):
        table = {**table, "coverage": {name: _count(count) for name, count in coverage.items()}}
    return decode(Verdict, table, path)


def _count(count: object) -> object:
    """verdict.json says "declared" for what a Count calls required."""
    if not isinstance(count, Mapping):
        return count
    return {"required" if key == "declared" else key: value for key, value in count.items()}


@dataclass(frozen=True)
class RecordDigests:
    """SHA-256 of the report as it was kept, and of what it was judged with."""

    report: str
    policy: str
    facts: str
    baseline: str | None


@dataclass(frozen=True)
class Record:
    """One verdict. `gate` and `cluster` are "" if it was made from report and verdict alone.

    `report` is the key of the report, `reused` the gate whose PASS stood for this one, `finding` the first finding in
    a line. `judged_at` is UTC by the clock of the flow, `measured_at` what the report says.
    """

    schema_version: Version
    gate_id: GateId
    gate: str
    cluster: str
    instance_type: str
    nodes: int
    profile: Profile
    measured_at: str
    judged_at: Instant
    answer: Answer
    level: Level
    report: str
    digests: RecordDigests
    engine: str
    condemned: tuple[str, ...]
    finding: str
    reused: str = ""


def record_of(
    gate_id: str,
    report: Report,
    verdict: Verdict,
    key: str,
    judged_at: float,
    gate: str = "",
    cluster: str = "",
    reused: str = "",
) -> Record:
    """The record of a verdict on a report that lies under `key`. `judged_at` is in Unix seconds."""
    first = next((finding for finding in verdict.findings if finding.level is not Level.PASS), None)
    line = "" if first is None else finding_line(first, _alike(first, verdict.findings))
    digests = verdict.digests
    return Record(
        SCHEMA_VERSION,
        gate_id,
        gate,
        cluster,
        report.declared.instance_type,
        report.declared.nodes,
        report.profile,
        one_line(report.measured_at, 64),
        datetime.fromtimestamp(judged_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        verdict.answer,
        verdict.level,
        key,
        RecordDigests(digests.report, digests.policy, digests.facts, digests.baseline),
        digests.engine,
        verdict.condemned,
        one_line(line, FINDING_CHARACTERS),
        reused,
    )


def keep(store: Store, record: Record) -> None:
    """Write the record to the store. Raises StoreError."""
    store.put(record_key(record.gate_id), dump_plain(record))


def read(store: Store, gate_id: str) -> Record | None:
    """The record of a gate; None if there is none. Raises DecodeError, StoreError."""
    record = document_at(store, record_key(gate_id), Record, RECORD_BYTES)
    if record is not None and record.gate_id != gate_id:
        raise DecodeError(f"it is the record of gate {record.gate_id}", "gate_id")
    return record


def judged_report(store: Store, key: str, wanted: str) -> Report:
    """The report of this digest. Raises StoreError, and DecodeError where there is none or another one."""
    data = store.get(key)
    if data is None or digest(data) != wanted:
        raise DecodeError("it is missing, or it is not the report that was judged")
    return load_report(data)


def recorded(store: Store) -> tuple[str, ...]:
    """The ids of all gates that have a record. Raises StoreError."""
    return tuple(gate_id for key in store.list(RECORDS) if (gate_id := name_of(key)))


def is_gate_id(text: str) -> bool:
    """Whether the word of a command line has the form of a gate's id, and is no file."""
    return "/" not in text and stamped_at(text) is not None and not Path(text).exists()


def stamped_at(gate_id: str) -> float | None:
    """When a gate began, in Unix seconds, as its id says; None for an id of another form."""
    match = STAMP.search(gate_id)
    try:
        return datetime.strptime(match[1] + "+0000", "%Y%m%d-%H%M%S%z").timestamp() if match else None
    except ValueError:
        return None
