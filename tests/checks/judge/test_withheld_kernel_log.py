"""An engine may withhold the kernel's log: then the checks that replace it are evidence that must be there."""

from __future__ import annotations

from dataclasses import replace

from checks.facts import withheld_kernel_log
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Cause, KernelLog, Level, Outcome, Profile, Report, Skip
from tasks.gate_file.references import default_policy
from tests.catalogue_reports import expected_report


def _withheld(kind: str = "p5.48xlarge") -> Report:
    """Healthy machines of an engine that withholds the kernel's log."""
    report = expected_report(kind, 1, Profile.QUICK, KernelLog.WITHHELD)
    rows = (
        replace(row, outcome=Outcome.SKIPPED, metrics={}, skip=Skip.NOT_PERMITTED, reason="so it says")
        if row.check in withheld_kernel_log.READERS
        else row
        for row in report.observations
    )
    return replace(report, observations=tuple(rows))


def test_a_check_that_replaces_the_kernel_log_must_be_in_the_plan() -> None:
    """Also one that the policy itself does not ask for; with all of them there is only a note, which is no fault of hardware."""
    report = _withheld()
    _, policy = default_policy("p5.48xlarge")
    stand_in = "gpu.xid_events"
    short = replace(
        report,
        plan=tuple(p for p in report.plan if p.check != stand_in),
        observations=tuple(row for row in report.observations if row.check != stand_in),
    )
    own = replace(policy, checks={name: line for name, line in policy.checks.items() if name != stand_in})

    notes = [f for f in decide(report, policy, builtin()).findings if f.level is Level.PASS]
    assert [("kernel", Cause.EVIDENCE)] == [(f.check, f.cause) for f in notes]
    said = [f.message for f in decide(short, own, builtin()).findings if f.check == stand_in]
    assert ["this check replaces the kernel log, but the plan does not contain it"] == said
