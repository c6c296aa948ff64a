"""The same for generated policies, of every kind of rule, over small reports: nothing that is lost helps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checks import model
from checks.documents.report import dump
from checks.judge.baseline.bands import Baseline
from checks.policy import CheckPolicy, Expect, OnWarn, Over, Policy, Rule, can_fail, check_sense
from tests.properties.shipped import judged, learned, missed
from tests.properties.spoils import ROW_SPOILS, Document, bad, lose_value, mixed, without_subjects

FAST = settings(max_examples=25)
WHEN = "2026-11-22T08:00:00+00:00"
ONE, MANY, TEXT, LABELS = "one_gbps", "many_gbps", "text", "labels"
METRICS = (ONE, MANY, TEXT, LABELS)
NUMBERS = st.sampled_from([0, 0.5, 1, 1.0, 2.0, 4, 100.0])
BOUNDS = st.sampled_from([
    {"warn_below": 0.9, "fail_below": 0.5}, {"fail_below": 0.8}, {"warn_below": 0.9}, {"fail_above": 1.2}, {"warn_above": 1.5},
])  # fmt: skip
ABOVE = st.sampled_from([{"warn_above": 0.1}, {"fail_above": 0.3}, {"warn_above": 0.1, "fail_above": 0.5}])
NUMERIC, LEVELS = st.sampled_from([ONE, MANY]), st.sampled_from(["WARN", "FAIL"])
CAUSES = st.sampled_from([model.Cause.HARDWARE, model.Cause.CONFIGURATION, model.Cause.EVIDENCE])


def _bounded(metric: str, over: Over, bounds: Mapping[str, Any], **keys: Any) -> Rule:
    return Rule(metric, "generated", over, **bounds, **keys)


RULES = st.one_of(
    st.builds(_bounded, NUMERIC, st.sampled_from([Over.SUBJECT, Over.CLUSTER]), BOUNDS, cause=CAUSES),
    st.builds(_bounded, st.just(MANY), st.just(Over.SUBJECT), BOUNDS, each=st.just(LABELS)),
    st.builds(_bounded, NUMERIC, st.sampled_from([Over.PEERS, Over.NODE]), BOUNDS, min_peers=st.sampled_from([2, 3])),
    st.builds(_bounded, NUMERIC, st.just(Over.FLEET), BOUNDS, min_peers=st.just(2), deviations=st.sampled_from([0.0, 2.0])),
    st.builds(_bounded, NUMERIC, st.just(Over.SLOWEST), ABOVE, min_peers=st.just(2)),
    st.builds(_bounded, st.just(ONE), st.just(Over.EXPECTED), BOUNDS, expect=st.just(Expect.MEMORY)),
    st.builds(_bounded, st.just(MANY), st.just(Over.EXPECTED), BOUNDS, expect=st.just(Expect.GEMM), at=st.just(LABELS)),
    st.builds(lambda m, v, level, cause: Rule(m, "generated", equals=v, level=level, cause=cause), NUMERIC,
              st.sampled_from([0, 1, 1.0]), LEVELS, CAUSES),
    st.builds(lambda level: Rule(TEXT, "generated", equals="a", level=level), LEVELS),
    st.builds(lambda m, level: Rule(m, "generated", Over.CLUSTER, same=True, level=level), st.sampled_from(METRICS), LEVELS),
    st.builds(lambda level: Rule(MANY, "generated", uniform=True, level=level), LEVELS),
    st.builds(lambda m, level: Rule(m, "generated", fact="gpus", level=level), NUMERIC, LEVELS),
)  # fmt: skip


@st.composite
def _lines(draw: st.DrawFn) -> CheckPolicy:
    """One that `load` takes: of an optional check nothing can FAIL."""
    required, rules = draw(st.booleans()), draw(st.lists(RULES, max_size=3))
    kept = tuple(rule for rule in rules if required or not can_fail(rule))
    return CheckPolicy(required=required, rules=kept)


@dataclass(frozen=True)
class Small:
    """A report, its policy, and perhaps a baseline."""

    report: model.Report
    policy: Policy
    baseline: Baseline | None

    def judged(self, document: Document) -> model.Verdict:
        """As the command line judges a file."""
        return judged(document, self.policy, self.baseline)

    def document(self) -> Document:
        """A copy, as it lies on disk."""
        made: Document = json.loads(dump(self.report))
        return made

    def __repr__(self) -> str:
        rows = [(row.check, row.subject, dict(row.metrics)) for row in self.report.observations]
        return f"Small({self.policy.checks}, {rows}, baseline={self.baseline is not None})"


@st.composite
def _smalls(draw: st.DrawFn) -> Small:
    nodes, ranks = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    declared = model.Declared("cpu", nodes, 0, ranks, tuple(f"node-{i}" for i in range(nodes)))
    lines = {f"made.c{i}": line for i, line in enumerate(draw(st.lists(_lines(), min_size=1, max_size=2)))}
    policy = Policy("generated", ("cpu",), OnWarn.GO, 0.25, {"made.rank": CheckPolicy(), **lines})
    check_sense(policy)
    plan = [model.Planned("made.rank", model.Scope.RANK, (ONE,))]
    rows = [_row("made.rank", subject, {ONE: 1.0}) for subject in _subjects(model.Scope.RANK, declared)]
    for name in lines:
        scope = draw(st.sampled_from(model.Scope))
        plan.append(model.Planned(name, scope, METRICS))
        usual = draw(NUMBERS)
        rows += [_row(name, subject, draw(_metrics(usual))) for subject in _subjects(scope, declared)]
    found = tuple(
        model.Node(name, i, "one", "c" * 64, True, {"host": name, "boot_id": f"b-{i}"}, WHEN)
        for i, name in enumerate(declared.node_names)
    )
    report = model.Report(
        "small", "one", WHEN, model.Profile.QUICK, declared, "c" * 64, tuple(plan), found, tuple(rows)
    )
    return Small(report, policy, learned(report, policy) if draw(st.booleans()) else None)


def _row(check: str, subject: str, metrics: Mapping[str, model.Value]) -> model.Observation:
    return model.Observation(check, subject, model.Outcome.MEASURED, 1.0, metrics, evidence=f"of {subject}")


@st.composite
def _metrics(draw: st.DrawFn, usual: float) -> dict[str, model.Value]:
    """Mostly the usual numbers, as in a fleet."""
    one = draw(st.just(usual) | NUMBERS)
    many = (usual, draw(st.just(usual) | NUMBERS))
    return {ONE: one, MANY: many, TEXT: draw(st.sampled_from(["a", "a", "b"])), LABELS: ("x", "y")}


def _subjects(scope: model.Scope, declared: model.Declared) -> list[str]:
    if scope is model.Scope.CLUSTER:
        return [model.CLUSTER]
    if scope is model.Scope.NODE:
        return list(declared.node_names)
    per = declared.ranks_per_node
    return [
        model.rank_subject(name, i * per + j)
        for i, name in enumerate(declared.node_names)
        for j in range(per)
    ]


@FAST
@given(_smalls(), st.data())
def test_an_observation_that_is_lost_never_helps(small: Small, data: st.DataObject) -> None:
    """Whatever happens to a row."""
    after = small.document()
    check = after["checks"][data.draw(st.sampled_from(sorted(after["checks"])))]
    spoil = data.draw(st.sampled_from(ROW_SPOILS))
    spoil(check, data.draw(st.integers(0, len(check["subjects"]) - 1)))

    missed(small.judged, small.document(), after)


@FAST
@given(_smalls(), st.data())
def test_a_value_that_is_lost_never_helps(small: Small, data: st.DataObject) -> None:
    """Whatever happens to a value."""
    after = small.document()
    lose_value(data.draw, after, small.policy.checks, "cpu")

    missed(small.judged, small.document(), after)


@FAST
@given(_smalls(), st.sampled_from(["node", "rank", "check", "metric", "plan"]), st.data())
def test_a_part_that_is_lost_never_helps(small: Small, part: str, data: st.DataObject) -> None:
    """A node, a rank, a check, a metric of all, a line of the plan."""
    after = small.document()
    name = data.draw(st.sampled_from(sorted(after["checks"])))
    if part == "node":
        gone = data.draw(st.sampled_from(after["nodes"]))
        after["nodes"].remove(gone)
        without_subjects(after, lambda subject: subject.partition("/")[0] == gone["name"])
    elif part == "rank":
        rank = data.draw(st.sampled_from(after["checks"]["made.rank"]["subjects"]))
        without_subjects(after, lambda subject: subject == rank)
    elif part == "check":
        del after["checks"][name]
    elif part == "metric":
        metrics = after["checks"][name]["metrics"]
        del metrics[data.draw(st.sampled_from(sorted(metrics)))]
    else:
        after["plan"] = [line for line in after["plan"] if line["check"] != name]

    missed(small.judged, small.document(), after)


@FAST
@given(_smalls(), st.data())
def test_a_value_gone_bad_never_helps(small: Small, data: st.DataObject) -> None:
    """Far below every bound, whatever it is compared with."""
    after = small.document()
    name = data.draw(st.sampled_from(sorted(after["checks"])))
    column = after["checks"][name]["metrics"][data.draw(NUMERIC) if name != "made.rank" else ONE]
    place = data.draw(st.integers(0, len(column) - 1))
    column[place] = bad(column[place])

    assert small.judged(after).level.rank >= small.judged(small.document()).level.rank


@FAST
@given(_smalls(), st.randoms(use_true_random=False))
def test_order_changes_nothing(small: Small, chance: Any) -> None:
    """The same findings, in the same order; and the same bytes twice."""
    shuffled = small.document()
    mixed(shuffled, chance)
    one, other = small.judged(small.document()), small.judged(shuffled)

    assert repr(one) == repr(small.judged(small.document()))
    assert replace(one, digests=other.digests) == other
