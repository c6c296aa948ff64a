"""What the verdict says of a check that was skipped because of a certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from checks.judge.certificates.decision import Decision, WhyMeasured
from checks.judge.not_measured import not_measured
from checks.model import Cause, Coverage, Finding, FindingKind, Level, Observation
from checks.model_details import Unmeasured

AGAIN = "Run the gate again: it measures the check where no certificate stands for it."


def about(row: Observation, decision: Decision | None, level: Level) -> Finding:
    """A WARN if a certificate stands for the check. Otherwise the check was not measured, and the finding has this level."""
    if decision is not None and decision.why is None:
        said = f"gate {decision.gate_id} measured it {age_text(decision.age_s)} ago, and this gate did not measure it again"
        return Finding(Level.WARN, Cause.EVIDENCE, row.check, row.subject, said, kind=FindingKind.CERTIFIED)
    why = WhyMeasured.NO_CERTIFICATE if decision is None or decision.why is None else decision.why
    said = f"it was skipped as certified, and no certificate stands for it: {why.value}"
    return not_measured(row.check, row.subject, Unmeasured("", said), level, row.evidence, AGAIN)


def counted(coverage: Coverage, findings: Iterable[Finding]) -> Coverage:
    """The coverage with the number of checks that a certificate stands for."""
    return replace(coverage, certified=sum(one.kind is FindingKind.CERTIFIED for one in findings))


def age_text(seconds: float) -> str:
    """ "40 s", "35 min" or "3.2 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
