"""Reports of the whole catalogue under a shipped policy, made from the policy's own rules. Constructed, not measured.

Every value is one that its rules accept, as far as a rule says so by itself; what rules do not look at is a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from checks import catalog, model
from checks.facts.builtin import builtin
from checks.facts.instances import Instance
from checks.judge.culprits.from_report import CHECKS
from checks.judge.reachability import PAIRS, REACHABILITY
from checks.judge.rules.expected_questions import questions
from checks.judge.rules.values import RuleContext
from checks.policy import CheckPolicy, Expect, Over, Policy, Rule
from tasks.gate_file.references import default_policy
from tests.checks.culprit.rows import row
from tests.planned_contents import with_contents

WHEN = "2026-11-22T08:00:00+00:00"


@cache
def policy_of(instance_type: str) -> Policy:
    """The shipped one without the rules that know what to expect: the values here are made up."""
    shipped = default_policy(instance_type)[1]
    lines = {
        name: replace(line, rules=tuple(rule for rule in line.rules if rule.over is not Over.EXPECTED))
        for name, line in shipped.checks.items()
    }
    return replace(shipped, checks=lines)


def catalogue_report(
    instance_type: str,
    nodes: int,
    profile: model.Profile = model.Profile.STANDARD,
    peers: bool = True,
    kernel_log: model.KernelLog = model.KernelLog.READABLE,
) -> model.Report:
    """A report of every planned check; without `peers`, the checks of each pair of nodes are left out of the plan."""
    instance, policy = builtin().instances[instance_type], policy_of(instance_type)
    names = tuple(f"node-{index}" for index in range(nodes))
    declared = model.Declared(instance_type, nodes, instance.gpus, max(instance.gpus, 1), names, kernel_log)
    plan = tuple(
        line
        for line in catalog.plan(catalog.CATALOG, declared, profile, instance)
        if peers or line.check not in (PAIRS, REACHABILITY, *CHECKS)
    )
    wanted = [line for line in plan if line.skip is None]
    rows = [
        model.Observation(line.check, subject, model.Outcome.MEASURED, 1.5, metrics, started_s=2.0)
        for line in wanted
        for subject, metrics in _of_check(line, policy.checks.get(line.check), declared, instance)
    ]
    for line in (line for line in wanted if line.check in CHECKS):
        rows += _tournament(line, declared, profile)
    found = tuple(
        model.Node(name, rank, "one", "c" * 64, True, {"host": name, "boot_id": f"{rank:032x}"}, WHEN)
        for rank, name in enumerate(names)
    )
    return model.Report("catalogue", "one", WHEN, profile, declared, "c" * 64, plan, found, tuple(rows))


def expected_report(
    instance_type: str,
    nodes: int,
    profile: model.Profile = model.Profile.STANDARD,
    kernel_log: model.KernelLog = model.KernelLog.READABLE,
    peers: bool = True,
) -> model.Report:
    """As `catalogue_report`, with the rates that the facts expect of the type, where they know any."""
    report = catalogue_report(instance_type, nodes, profile, peers, kernel_log)
    facts, policy = builtin(), default_policy(instance_type)[1]
    known = RuleContext(facts.instances[instance_type], frozenset(), report.declared, facts)
    rows = tuple(_as_expected(row, policy.checks.get(row.check), known) for row in report.observations)
    return replace(report, observations=rows)


def _as_expected(row: model.Observation, line: CheckPolicy | None, known: RuleContext) -> model.Observation:
    rules = [rule for rule in (line.rules if line else ()) if rule.over is Over.EXPECTED]
    metrics: Mapping[str, model.Value] = row.metrics
    for rule in rules:
        if rule.at:
            labels = _labels(rule, known, metrics[rule.at])
            count = len(labels) if isinstance(labels, tuple) else 1
            metrics = {**metrics, rule.at: labels, rule.metric: (1.0,) * count}
    for rule in rules:
        asked = questions(row.check, rule, replace(row, metrics=metrics), known)
        assert not isinstance(asked, str), asked
        held = metrics[rule.metric]
        rates = tuple(q.expected.value if q.expected else 4.0 for q in asked)
        if isinstance(held, tuple):
            metrics = {**metrics, rule.metric: rates}
        elif asked[0].expected:
            metrics = {**metrics, rule.metric: rates[0]}
    return replace(row, metrics=metrics)


def _labels(rule: Rule, known: RuleContext, held: model.Value) -> model.Value:
    """Points of programs; sizes and precisions as they are."""
    if not isinstance(held, tuple) or rule.expect is not Expect.COLLECTIVE or rule.at != "points":
        return held
    ranks = known.declared.ranks if known.declared else 0
    return tuple(f"all_reduce_perf {2**30 - 4 * index} B, {ranks} ranks" for index in range(len(held)))


def _of_check(
    planned: model.Planned, line: CheckPolicy | None, declared: model.Declared, instance: Instance
) -> list[tuple[str, dict[str, model.Value]]]:
    names = declared.node_names
    if planned.check in CHECKS:
        return []
    if planned.check in (PAIRS, REACHABILITY):
        return [(name, _towards([n for n in names if n != name])) for name in names]
    metrics = _metrics(planned, line or CheckPolicy(), max(instance.gpus, 1), instance)
    if planned.scope is model.Scope.CLUSTER:
        return [(model.CLUSTER, metrics)]
    if planned.scope is model.Scope.NODE:
        return [(name, metrics) for name in names]
    per_node = declared.ranks_per_node
    places = ((name, rank * per_node + local) for rank, name in enumerate(names) for local in range(per_node))
    return [(model.rank_subject(name, rank), metrics) for name, rank in places]


def _tournament(
    planned: model.Planned, declared: model.Declared, profile: model.Profile
) -> list[model.Observation]:
    """Every pair at about 45 GB/s, which is nine tenths of what a p5.48xlarge's network gives a GPU."""
    per = declared.ranks_per_node
    rows = [
        row(rank, declared.nodes, per, lambda one, other: {}, planned.check, profile, 45.0)
        for rank in range(declared.ranks)
    ]
    kept = ({name: one.metrics[name] for name in planned.metrics} for one in rows)
    return [replace(one, seconds=1.5, metrics=m, started_s=2.0) for one, m in zip(rows, kept, strict=True)]


def _towards(peers: list[str]) -> dict[str, model.Value]:
    numbers = tuple(9.5 for _ in peers)
    return {
        "peers": tuple(peers), "failures": tuple("ok" for _ in peers), "refused": (0,) * len(peers), "connect_ms": numbers,
        "latency_us": numbers, "bandwidth_gbps": numbers, "rendezvous": "ok", "other_catalogues": 0,
    }  # fmt: skip


def _metrics(
    planned: model.Planned, line: CheckPolicy, width: int, instance: Instance
) -> dict[str, model.Value]:
    made: dict[str, model.Value] = dict.fromkeys(planned.metrics, 1)
    for metric in dict.fromkeys(rule.metric for rule in line.rules):
        rules = [rule for rule in line.rules if rule.metric == metric]
        value = _value(rules, instance)
        wide = any(rule.each or rule.at or rule.uniform for rule in rules)
        made[metric] = (value,) * width if wide else value  # type: ignore[assignment]
        for rule in rules:
            if rule.each:
                made[rule.each] = tuple(f"GPU {index}" for index in range(width))
            if rule.at:
                made[rule.at] = tuple(2 ** (30 + index) for index in range(width))
    if "gpus_found" in made:
        made["gpus_found"] = instance.gpus
    return with_contents(made, planned)


def _value(rules: Sequence[Rule], instance: Instance) -> bool | int | float | str:
    lows, highs = [0.0], [1e6]
    for rule in rules:
        if rule.equals is not None:
            return rule.equals
        if rule.fact and type(known := getattr(instance, rule.fact)) is int:
            return int(known)
        if rule.same and len(rules) == 1:
            return "alike"
        if rule.over in (Over.SUBJECT, Over.CLUSTER):
            lows += [bound for bound in (rule.fail_below, rule.warn_below) if bound is not None]
            highs += [bound for bound in (rule.fail_above, rule.warn_above) if bound is not None]
    low, high = max(lows), min(highs)
    return (low + high) / 2 if high < 1e6 else low * 1.1 + 1
