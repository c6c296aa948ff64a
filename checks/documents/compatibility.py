"""What documents of version 0.1.0 say in a sentence, and later ones in a field. Pure.

Only decoders use it, and only for documents that lack the field. The sentences are those of 0.1.0, and never change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from checks.documents.columns import Columns
from checks.model import Cause, ErrorKind, FindingKind, Observation, Outcome
from checks.model_details import PairOutcome

_SMALL_MESSAGES = "was measured with no message of"
# The beginnings of the reasons of ERRORED rows.
_ERRORS: Mapping[str, ErrorKind] = {
    "it raised ": ErrorKind.RAISED,
    "its deadline of ": ErrorKind.DEADLINE,
    "not run: ": ErrorKind.NOT_RUN,
    "not reached: ": ErrorKind.NOT_REACHED,
}
_NOT_MEASURED = "not measured: "
_UNMEASURED_VALUE = re.compile(r"(?P<value>.+?) (?P<reason>(?:is|has) .*)")
# The beginnings of the failures of tests between two ranks. PEER_LEFT also needs the end of the text.
_PAIRS: Mapping[str, PairOutcome] = {
    "not run": PairOutcome.NOT_RUN,
    "not tried": PairOutcome.NOT_RUN,
    "no answer": PairOutcome.NO_ANSWER,
    "connection closed": PairOutcome.CLOSED,
}


def pair_outcome(failure: str) -> PairOutcome:
    """The outcome of a test between two ranks whose row lacks `results`."""
    if failure == "ok":
        return PairOutcome.OK
    if failure.startswith("not run: rank") and failure.endswith("left the tournament"):
        return PairOutcome.PEER_LEFT
    return next((made for start, made in _PAIRS.items() if failure.startswith(start)), PairOutcome.FAILED)


def was_refused(failure: str) -> bool:
    """Whether nothing listened on a peer's port, for a row of network.reachability that lacks `refused`."""
    return "refused" in failure


def error_kind(reason: str) -> ErrorKind:
    """Why a check of 0.1.0 is ERRORED."""
    return next((kind for start, kind in _ERRORS.items() if reason.startswith(start)), ErrorKind.OTHER)


def with_error_kind(row: Observation) -> Observation:
    """The row. An ERRORED row without a kind gets one."""
    if row.outcome is not Outcome.ERRORED or row.error_kind is not None:
        return row
    return replace(row, error_kind=error_kind(row.reason))


def with_error_kinds(columns: Columns) -> Columns:
    """The same for rows in columns. Columns of different lengths stay as they are."""
    kinds = columns.error_kinds or (None,) * len(columns.subjects)
    if not len(kinds) == len(columns.outcomes) == len(columns.reasons):
        return columns
    if Outcome.ERRORED in columns.outcomes:
        rows = zip(columns.outcomes, kinds, columns.reasons, strict=True)
        kinds = tuple(
            error_kind(why) if outcome is Outcome.ERRORED and kind is None else kind
            for outcome, kind, why in rows
        )
    return columns if kinds == columns.error_kinds else replace(columns, error_kinds=kinds)


def with_finding_kinds(verdict: Mapping[str, object]) -> dict[str, object]:
    """The table of a verdict: each finding has a kind, and says what was not measured. What does not look like a finding stays as
    it is.
    """
    findings = verdict.get("findings")
    if not isinstance(findings, list):
        return dict(verdict)
    return {**verdict, "findings": [_with_unmeasured(_with_kind(finding)) for finding in findings]}


def finding_kind(message: str) -> FindingKind | None:
    """The kind of a finding of 0.1.0 whose cause is EVIDENCE."""
    if message.startswith("no baseline: "):
        small = _SMALL_MESSAGES in message
        return FindingKind.ONLY_SMALL_MESSAGES if small else FindingKind.NO_BASELINE
    if message.startswith("not measured, because driver ") and " is too old: " in message:
        return FindingKind.DRIVER_TOO_OLD
    return FindingKind.NOT_MEASURED if message.startswith(_NOT_MEASURED) else None


def _with_kind(finding: object) -> object:
    if not isinstance(finding, dict) or "kind" in finding:
        return finding
    message = finding.get("message")
    if finding.get("cause") != Cause.EVIDENCE.value or not isinstance(message, str):
        return finding
    kind = finding_kind(message)
    return {**finding, "kind": kind.value if kind else None}


def _with_unmeasured(finding: object) -> object:
    if not isinstance(finding, dict) or "unmeasured" in finding:
        return finding
    message = finding.get("message")
    if finding.get("kind") != FindingKind.NOT_MEASURED.value or not isinstance(message, str):
        return finding
    said = message.removeprefix(_NOT_MEASURED)
    parts = _UNMEASURED_VALUE.fullmatch(said)
    unmeasured = parts.groupdict() if parts else {"value": "", "reason": said}
    return {**finding, "unmeasured": unmeasured}
