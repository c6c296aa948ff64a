"""Whether a check that certificates cover is worth its time: it is run where probability times loss exceeds its cost. Pure.

The probability is that of a fault since the certificate: published failures per node and day, times the share of them that checks of
this kind find. The loss is what such a fault would cost the job, and the cost is that all machines wait while the check runs.
Of every span the greatest value counts, so that what is not known well makes a gate measure more. The choice is among checks that
certificates cover: it never makes a gate measure less than they allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from checks.documents.certificates import Certificate, Choice
from checks.facts.failures import Failures, Fault
from checks.judge.cost.cost import DAY_HOURS, Job, Model
from checks.judge.cost.failure_model import any_of, family_of, lost_to_straggler


def chosen(
    offered: Sequence[Certificate], now: float, job: Job, failures: Failures
) -> tuple[tuple[Certificate, ...], tuple[Choice, ...]]:
    """The certificates without the checks that are worth their time, and a choice for each check. `now` is a Unix time."""
    covered: dict[str, list[Certificate]] = {}
    for one in offered:
        for check in one.checks:
            covered.setdefault(check, []).append(one)
    choices = tuple(_choice(check, found, now, job, failures) for check, found in sorted(covered.items()))
    worth = {choice.check for choice in choices if choice.is_worth}
    left = (replace(one, checks=_without(one.checks, worth)) for one in offered)
    return tuple(one for one in left if one.checks), choices


def _choice(
    check: str, certificates: Sequence[Certificate], now: float, job: Job, failures: Failures
) -> Choice:
    machines = len({certificate.machine for certificate in certificates})
    age_days = max(max(now - certificate.at, 0.0) for certificate in certificates) / 86400.0
    rate = max(rate.per_1000_node_days for rate in failures.rates.values()) / 1000.0
    found_by_it = min(1.0, failures.share(check).share_of_nodes / failures.share("").share_of_nodes)
    one_machine = (1.0 - math.exp(-rate * age_days)) * found_by_it
    cost = max(certificate.checks[check] for certificate in certificates) / 3600.0 * job.units
    unit = "GPU-hours" if job.gpus_per_node else "node-hours"
    return Choice(check, machines, any_of(machines, one_machine), _lost(check, job, failures), cost, unit)


def _lost(check: str, job: Job, failures: Failures) -> float:
    """The most that a fault which this check finds would cost the job, in unit-hours."""
    horizon = DAY_HOURS if job.hours is None else job.hours
    model, family = Model(job, failures, horizon), family_of(check)
    fault = family.fault if family is not None else Fault.CRASH
    if fault is Fault.CORRUPTION:
        return model.whole
    if fault is Fault.SLOW:
        return lost_to_straggler(job.units, horizon, failures.span("slow_fail")).high
    return model.capped(model.failure(fault)).high


def _without(checks: Mapping[str, float], worth: set[str]) -> dict[str, float]:
    return {check: seconds for check, seconds in checks.items() if check not in worth}
