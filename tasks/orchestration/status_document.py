"""Reads the status that a run published (tasks/orchestration/status.py), strictly: one that is not completely understood counts as
no verdict (pure).

StatusError         it is not a status of this version, or it contradicts itself
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checks.documents.decode import decode, parse_json
from checks.exit_codes import Exit
from checks.model import Answer, Level, Verdict
from checks.value_types import DecodeError
from tasks.gate.outcome import Decision
from tasks.gate.question import ApprovalAction

BYTES = 64 << 20
WENT = (Decision.LAUNCHED, Decision.PASSED, Decision.OVERRIDDEN, Decision.OBSERVED)


class StatusError(Exception):
    """The status of the run cannot be read; the message says why."""


@dataclass(frozen=True)
class RunStatus:
    """The last status of a run. `code` and `document` are None while it runs; `verdict` is None if nothing was judged."""

    gate_id: str
    gate: str
    cluster: str
    store: str
    code: int | None
    document: Mapping[str, object] | None
    verdict: Verdict | None
    lines: tuple[str, ...]
    left_out: int


def read_status(data: object) -> RunStatus:
    """The status in an artifact's data. Raises StatusError."""
    try:
        table = parse_json(_line(data), BYTES)
        if not isinstance(table, Mapping) or table.get("schema_version") != 1:
            raise StatusError("it is not a status of this version")
        texts = {key: decode(str, table.get(key), key) for key in ("gate_id", "gate", "cluster", "store")}
        if table.get("phase") == "running":
            return RunStatus(**texts, code=None, document=None, verdict=None, lines=(), left_out=0)
        return _ended(table, texts)
    except DecodeError as error:
        raise StatusError(str(error)) from error


def _line(data: object) -> str:
    """The one line of JSON at the end of the text."""
    lines = data.rstrip().splitlines() if isinstance(data, str) else []
    if len(lines) < 3 or lines[-1] != "```" or lines[-3] != "```json":
        raise StatusError("it is not a status of this version")
    return lines[-2]


def _ended(table: Mapping[str, object], texts: Mapping[str, str]) -> RunStatus:
    document = table.get("outcome")
    if table.get("phase") != "ended" or not isinstance(document, Mapping):
        raise StatusError("it shows neither that the run continues nor how it ended")
    code = decode(int, table.get("exit_code"), "exit_code")
    verdict = _verdict(document.get("verdict"))
    _require_sense(code, document, verdict)
    lines = decode(tuple[str, ...], table.get("beside"), "beside")
    left_out = decode(int, table.get("findings_left_out"), "findings_left_out")
    return RunStatus(**texts, code=code, document=document, verdict=verdict, lines=lines, left_out=left_out)


def _verdict(value: object) -> Verdict | None:
    """The verdict as `tasks.render.findings` writes it."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("coverage"), Mapping):
        raise StatusError("its verdict is not valid")
    counts = {key: _count(count) for key, count in value["coverage"].items()}
    return decode(Verdict, {**value, "coverage": counts}, "verdict")


def _count(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    return {("required" if key == "declared" else key): number for key, number in value.items()}


def _require_sense(code: int, document: Mapping[str, object], verdict: Verdict | None) -> None:
    """Require a reason for exit code 0: a GO, a person's approval, or observe mode."""
    if code not in (Exit.GO, Exit.NO_GO, Exit.REJECTED, Exit.CANNOT_TELL, Exit.JOB_FAILED, Exit.NO_CAPACITY):
        raise StatusError(f"its exit code {code} is not valid")
    if code != Exit.GO:
        return
    decision = document.get("decision")
    if verdict is None or decision not in WENT:
        raise StatusError("it ended well without a verdict")
    if verdict.answer is Answer.GO and verdict.level is Level.FAIL:
        raise StatusError("its answer is go, and its level is FAIL")
    said_so = decision == Decision.OBSERVED or _launches(document.get("approval"))
    if verdict.answer is not Answer.GO and not said_so:
        raise StatusError(f"it ended well with the answer {verdict.answer.value}, and nobody approved it")


def _launches(approval: object) -> bool:
    """Whether a person's answer lets the training start. An answer that refuses, or does not count, does not."""
    if not isinstance(approval, Mapping):
        return False
    return approval.get("action") == ApprovalAction.LAUNCH and approval.get("note") == ""
