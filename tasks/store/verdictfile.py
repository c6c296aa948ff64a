"""What verdict.json says in every version of this program: the answer, and the findings by level, cause, check and subject.

A verdict that another version kept may say more; what is not compared is not read. Each key that is, is read strictly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from checks.decode import DecodeError, decode, parse_json
from checks.model import Answer, Cause, Digests, Level, Verdict

VERDICT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class KeptFinding:
    """One finding, as far as it is compared."""

    level: Level
    cause: Cause
    check: str
    subject: str
    message: str


@dataclass(frozen=True)
class KeptVerdict:
    """A verdict, as far as it is compared."""

    level: Level
    answer: Answer
    findings: tuple[KeptFinding, ...]
    condemned: tuple[str, ...]
    digests: Digests


def load(data: bytes) -> KeptVerdict:
    """The verdict in a verdict.json. Raises DecodeError."""
    table = _only(KeptVerdict, parse_json(data, VERDICT_BYTES), "")
    findings = table.get("findings")
    if isinstance(findings, list):
        table["findings"] = [_only(KeptFinding, row, f"findings[{i}]") for i, row in enumerate(findings)]
    return decode(KeptVerdict, table)


def of(verdict: Verdict) -> KeptVerdict:
    """The same of a verdict that was made just now."""
    findings = tuple(KeptFinding(f.level, f.cause, f.check, f.subject, f.message) for f in verdict.findings)
    return KeptVerdict(verdict.level, verdict.answer, findings, verdict.condemned, verdict.digests)


def _only(kind: type, value: object, path: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise DecodeError("expected a table", path)
    names = {field.name for field in fields(kind)}
    return {key: item for key, item in value.items() if key in names}
