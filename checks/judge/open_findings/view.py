"""What one machine shows by itself: the checks that are safe beside a job, judged without the rules about an idle machine. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checks.check import Check
from checks.documents.columns import by_check
from checks.facts.instances import Facts
from checks.judge.open_findings.jobs import ABOUT_JOBS
from checks.judge.open_findings.update import LatestEvidence, seen_on
from checks.judge.verdict import decide
from checks.model import Outcome, Report
from checks.policy import Policy

# Rules about a machine on which nothing but a gate runs: a job takes memory, keeps the file server busy and fills /dev/shm, and
# without a gate nobody need send anything between two rounds.
IDLE = frozenset(
    (
        ("efa.counters", "sent_bytes"),
        ("gpu.memory", "memory_used_mib"),
        ("ib.counters", "sent_bytes"),
        ("mounts.responsive", "slowest_s"),
        ("system.resources", "memory_available_bytes"),
        ("system.resources", "shm_free_bytes"),
    )
)


def watched(catalogue: Sequence[Check], policy: Policy) -> tuple[Check, ...]:
    """The checks of the catalogue that are safe beside a job and that the policy judges, or the rules about jobs."""
    judged = {*policy.checks, *ABOUT_JOBS}
    return tuple(check for check in catalogue if check.beside_job and check.name in judged)


def view(policy: Policy, catalogue: Sequence[Check]) -> Policy:
    """The policy with the entries of the watched checks alone, without the rules about an idle machine, and with those about jobs."""
    names = {check.name for check in watched(catalogue, policy)}
    lines = {
        name: replace(line, rules=tuple(rule for rule in line.rules if (name, rule.metric) not in IDLE))
        for name, line in {**policy.checks, **ABOUT_JOBS}.items()
        if name in names
    }
    return replace(policy, checks=lines)


def seen_alone(
    report: Report, seen_by: Policy, facts: Facts, at: float, by: str, boot_id: str
) -> LatestEvidence:
    """What a report of one node says of it; `seen_by` is a policy of `view`, `at` a Unix time."""
    names = {line.check for line in report.plan}
    findings = [finding for finding in decide(report, seen_by, facts).findings if finding.check in names]
    measured = by_check([record for record in report.observations if record.outcome is Outcome.MEASURED])
    return seen_on(report.nodes[0].name, at, by, boot_id, findings, measured, report.plan)
