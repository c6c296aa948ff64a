"""What the store kept of a gate, for a command line whose flow was cut short."""

from __future__ import annotations

from checks.decode import DecodeError
from checks.model import Verdict
from checks.report import load
from checks.verdict import decide
from tasks.setting import Setting
from tasks.store.base import StoreError


def kept_verdict(setting: Setting, gate_id: str) -> tuple[Verdict, str, str] | None:
    """The verdict, and where report and page lie; None where nothing had been judged."""
    try:
        data = setting.store.get(report_key(gate_id))
        report = None if data is None else load(data)
    except (StoreError, DecodeError):
        return None
    if report is None:
        return None
    verdict = decide(report, setting.policy, setting.facts)
    return (
        verdict,
        setting.store.place(report_key(gate_id)),
        setting.store.place(f"gates/{gate_id}/report.html"),
    )


def report_key(gate_id: str) -> str:
    """Where a gate's report lies in the store."""
    return f"gates/{gate_id}/health_check_metrics.json"
