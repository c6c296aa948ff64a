"""What the store kept of a gate, for a command line whose flow was cut short."""

from __future__ import annotations

from checks.decode import DecodeError
from checks.model import Verdict
from checks.report import digest, load
from checks.verdict import decide
from tasks.setting import Setting
from tasks.store.base import StoreError


def kept_verdict(setting: Setting, gate_id: str) -> tuple[Verdict, str, str] | None:
    """The verdict, and where report and page lie; None where nothing had been judged."""
    try:
        data = setting.store.get(report_key(gate_id))
        if data is None:
            return None
        report = load(data)
    except (StoreError, DecodeError):
        return None
    verdict = decide(report, setting.policy, setting.facts, setting.baseline, report_digest=digest(data))
    return (
        verdict,
        setting.store.place(report_key(gate_id)),
        setting.store.place(f"gates/{gate_id}/report.html"),
    )


def report_key(gate_id: str) -> str:
    """Where a gate's report lies in the store."""
    return f"gates/{gate_id}/health_check_metrics.json"


def verdict_key(gate_id: str) -> str:
    """Where a gate's verdict lies in the store."""
    return f"gates/{gate_id}/verdict.json"
