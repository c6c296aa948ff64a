"""What the verdict says of a check that was skipped because of a certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from checks.judge.certificates.decision import CertificateDecision, WhyMeasured
from checks.judge.not_measured import not_measured
from checks.model import Cause, Coverage, Finding, FindingKind, Level, Observation
from checks.model_details import Unmeasured
from checks.value_types import age_text

AGAIN = "Run the gate again: it measures the check where no certificate stands for it."


def about(record: Observation, decision: CertificateDecision | None, level: Level) -> Finding:
    """A WARN if a certificate stands for the check. Otherwise the check was not measured, and the finding has this level."""
    if decision is not None and decision.reason is None:
        message = f"was not tested with {record.check} again: gate {decision.gate_id} did so {age_text(decision.age_s)} ago"
        return Finding(
            Level.WARN, Cause.EVIDENCE, record.check, record.subject, message, kind=FindingKind.CERTIFIED, is_predicate=True
        )  # fmt: skip
    reason = WhyMeasured.NO_CERTIFICATE if decision is None or decision.reason is None else decision.reason
    message = f"it was skipped as certified, and no certificate stands for it: {reason.value}"
    return not_measured(record.check, record.subject, Unmeasured("", message), level, record.evidence, AGAIN)


def counted(coverage: Coverage, findings: Iterable[Finding]) -> Coverage:
    """The coverage with the number of checks that a certificate stands for."""
    return replace(coverage, certified=sum(finding.kind is FindingKind.CERTIFIED for finding in findings))
