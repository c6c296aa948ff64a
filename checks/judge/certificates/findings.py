"""What the verdict says of a check that was skipped because of a certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from checks.documents.certificates import Choice
from checks.judge.certificates.decision import CertificateDecision, WhyMeasured
from checks.judge.not_measured import not_measured
from checks.model import Cause, Coverage, Finding, FindingKind, Level, Observation
from checks.model_details import Unmeasured
from checks.value_types import age_text

AGAIN = "Run the gate again: it measures the check where no certificate stands for it."


def about(record: Observation, decision: CertificateDecision | None, level: Level) -> Finding:
    """A WARN if a certificate stands for the check. Otherwise the check was not measured, and the finding has this level."""
    if decision is not None and decision.why is None:
        message = f"was not tested with {record.check} again: gate {decision.gate_id} did so {age_text(decision.age_s)} ago"
        reckoned = choice_text(decision.choice) if decision.choice is not None else ""
        return Finding(
            Level.WARN, Cause.EVIDENCE, record.check, record.subject, message, reckoned, kind=FindingKind.CERTIFIED, is_predicate=True
        )  # fmt: skip
    why = WhyMeasured.NO_CERTIFICATE if decision is None or decision.why is None else decision.why
    message = f"it was skipped as certified, and no certificate stands for it: {why.value}"
    return not_measured(record.check, record.subject, Unmeasured("", message), level, record.evidence, AGAIN)


def counted(coverage: Coverage, findings: Iterable[Finding]) -> Coverage:
    """The coverage with the number of checks that a certificate stands for."""
    return replace(coverage, certified=sum(finding.kind is FindingKind.CERTIFIED for finding in findings))


def choice_text(choice: Choice) -> str:
    """The sum: "A fault since then on 3 machines: 0.0002 x 1.8 node-hours = 0.00036; the check: 0.0083 node-hours"."""
    expected = choice.probability * choice.lost
    count = f"{choice.machines} machine{'' if choice.machines == 1 else 's'}"
    return (
        f"A fault since then on {count}: {choice.probability:.2g} x {choice.lost:.3g} {choice.unit} = {expected:.2g}; "
        f"the check: {choice.cost:.2g} {choice.unit}"
    )
