"""What a page shows beside a verdict: where its machines are, what it rests on, what it costs to be wrong, what such
machines should reach, and what this cluster's last gates said (pure).
"""

from __future__ import annotations

from dataclasses import dataclass

from checks.cost import Cost
from checks.culprit.judge import decoded
from checks.facts.table import Facts
from checks.ledger import Entry, ledger
from checks.model import Finding, Report, Verdict
from checks.policy import Policy
from tasks.remedies import NOWHERE, Place, commands
from tasks.render.cost import cost_line, is_worth_showing
from tasks.render.expectations import NOTHING_EXPECTED, Expectations, expectations
from tasks.render.grouping import Group
from tasks.render.past import Past
from tasks.render.shown import Shown, of_readings

TYPED_SUBJECTS = 3
# The longest command with the longest names of a node and a job: one that is cut does something else.
COMMAND = 1000


@dataclass(frozen=True)
class Beside:
    """Every part may be empty. `said` are lines below the headline: the cost, another tool's own verdict.

    `past` is None where nobody looked for earlier gates. `shown` is every matrix of who measured whom, decoded.
    """

    place: Place = NOWHERE
    ledger: tuple[Entry, ...] = ()
    said: tuple[str, ...] = ()
    cost: Cost | None = None
    expected: Expectations = NOTHING_EXPECTED
    past: Past | None = None
    shown: tuple[Shown, ...] = ()


NOTHING_BESIDE = Beside()


def beside(
    report: Report,
    policy: Policy,
    verdict: Verdict,
    launcher: str = "",
    job: str = "",
    said: tuple[str, ...] = (),
    cost: Cost | None = None,
    facts: Facts | None = None,
) -> Beside:
    """For a report, and the policy and facts that it was judged by; without a launcher nothing is there to type."""
    place = Place(launcher, report.declared.instance_type, job)
    lines = (*said, cost_line(cost)) if cost is not None and is_worth_showing(cost) else said
    expected = expectations(report, policy, facts)
    shown = of_readings(decoded(report, policy, facts)) if facts is not None else ()
    return Beside(place, ledger(report, policy, verdict), lines, cost, expected, shown=shown)


def typed(item: Group, verdict: Verdict, place: Place) -> tuple[str, ...]:
    """What to type for the group's first subjects, each command once."""
    evidence = dict(item.evidence)
    found = [
        command
        for subject in item.subjects[:TYPED_SUBJECTS]
        for command in commands(
            Finding(
                item.level, item.cause, item.check, subject, item.message,
                evidence.get(subject, ""), item.remedy, item.action,
            ),
            verdict,
            place,
        )
    ]  # fmt: skip
    return tuple(dict.fromkeys(found))
