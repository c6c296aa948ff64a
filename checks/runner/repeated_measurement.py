"""Measures a slow value again before it counts as slow, and keeps both values.

The policy says which metrics are about speed and which values are slow: its rules with `needs_cpu`. The second measurement's values
count; the first one's are kept beside them, `first_copy_gbps` beside `copy_gbps`. If the first measurement showed something that is
not about speed, such as a wrong element, that value stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from checks.check import Check, Context
from checks.documents.host_load import Contention
from checks.facts.builtin import builtin
from checks.judge.rules.values import RuleContext
from checks.model import FIRST, Cause, Observation, Outcome, Value
from checks.policy import JUDGED_BY_THE_ENGINE, RELATIVE, CheckPolicy, Rule
from checks.process.cpu_usage import Watch
from checks.process.observe import probe

if TYPE_CHECKING:
    from checks.probes.pairs.rendezvous import NoteStore

# Judgement: a burst of other work (a log that is rotated, a package index) lasts about this long.
PAUSE_S = 0.5
# The second measurement must fit into the rest of the deadline, with this factor to spare.
SPARE = 1.5
MOST = 0.5  # the share of the remaining time: later checks need the rest

# All ranks of a group check measure again, or none does: any of them must be slow, and all of them must have time.
Agree = Callable[[bool, bool], bool]


def decide_alone(slow: bool, has_time: bool) -> bool:
    """The decision of a check that needs no other rank."""
    return slow and has_time


def together(note_store: NoteStore, ranks: int, wait_s: float) -> Agree:
    """The decision of all ranks, made with notes: a rank whose measurement failed is in no collective, but votes all the same.

    The last rank to vote writes the decision; a rank that waits in vain writes "no". The first decision counts.
    """

    def agree(slow: bool, has_time: bool) -> bool:
        asking, late = note_store.add("slow", int(slow)), note_store.add("late", int(not has_time))
        if note_store.add("votes", 1) == ranks and asking is not None and late is not None:
            yes = bool(note_store.add("slow", 0)) and not note_store.add("late", 0)
            decision = note_store.agree("decision", "yes" if yes else "no")
        else:
            decision = note_store.await_note("decision", wait_s) or note_store.agree("decision", "no")
        note_store.close()
        return decision == "yes"

    return agree


def observed(
    check: Check, context: Context, subject: str, line: CheckPolicy, agree: Agree = decide_alone
) -> Observation:
    """The check's observation, with the CPU load during it; if it was slow, with both measurements."""
    begun, speed = time.monotonic(), [rule for rule in line.rules if rule.needs_cpu]
    with_load = bool(speed) or check.name in JUDGED_BY_THE_ENGINE
    first = _watched(check, context, subject, with_load)
    if not speed:
        return first
    took = time.monotonic() - begun
    has_time = first.outcome is Outcome.MEASURED and SPARE * took + PAUSE_S < MOST * (
        context.timeout_s - took
    )
    if not agree(_is_slow(check.name, context, first, speed), has_time):
        return first
    time.sleep(PAUSE_S)
    second = _watched(check, context, subject, with_load)
    if second.outcome is not Outcome.MEASURED:
        return second
    metrics = both(first.metrics, second.metrics, line.rules, _faults(check.name, context, first, line))
    evidence = f"measured twice, because the first value was slow\n{second.evidence}\nfirst measurement:\n{first.evidence}"
    return replace(second, metrics=metrics, evidence=evidence, seconds=time.monotonic() - begun)


def both(
    first: Mapping[str, Value], second: Mapping[str, Value], rules: Sequence[Rule], faulty: Sequence[Rule]
) -> dict[str, Value]:
    """The metrics of two measurements: the second's, with the first's speeds beside them and the first's faults. Pure."""
    faults = {name: first[name] for rule in faulty for name in (rule.metric, rule.each) if name in first}
    speeds = [rule for rule in rules if rule.needs_cpu or rule.over in RELATIVE]
    wanted = {name for rule in speeds for name in (rule.metric, rule.each, rule.at) if name}
    wanted |= {name for name in first if name.startswith("host_")}
    return {**second, **faults, **{f"{FIRST}{name}": first[name] for name in sorted(wanted) if name in first}}


def _watched(check: Check, context: Context, subject: str, with_load: bool) -> Observation:
    if not with_load:
        return probe(check, context, subject)
    watch = Watch()
    observation = probe(check, context, subject)
    contention = watch.contention()
    if contention is None or observation.outcome is not Outcome.MEASURED:
        return observation
    return replace(observation, metrics={**observation.metrics, **contention.metrics()})


def _is_slow(check: str, context: Context, observation: Observation, speed: Sequence[Rule]) -> bool:
    """Whether a rule that can be applied here calls the value slow, or other work used the CPUs and a rule compares with peers."""
    if observation.outcome is not Outcome.MEASURED:
        return False
    here = [rule for rule in speed if rule.over not in RELATIVE]
    load = Contention.from_metrics(observation.metrics)
    if len(here) < len(speed) and load is not None and load.busy:
        return True
    return any(_fails(check, context, observation, rule) for rule in here)


def _faults(check: str, context: Context, observation: Observation, line: CheckPolicy) -> list[Rule]:
    others = [
        rule for rule in line.rules if not rule.needs_cpu and not rule.same and rule.over not in RELATIVE
    ]
    return [rule for rule in others if _fails(check, context, observation, rule)]


def _fails(check: str, context: Context, observation: Observation, rule: Rule) -> bool:
    from checks.judge.rules import apply as rules

    facts = builtin()
    instance_type = context.declared.instance_type
    rule_context = RuleContext(context.instance, facts.absent(instance_type, check), context.declared, facts)
    # Without regard to the CPU load, which is considered when the report is judged.
    plain = CheckPolicy(rules=(replace(rule, needs_cpu=False),))
    findings = rules.apply(check, plain, [observation], 1, rule_context)
    return any(finding.cause is not Cause.EVIDENCE or rule.cause is Cause.EVIDENCE for finding in findings)
