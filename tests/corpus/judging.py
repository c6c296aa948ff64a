"""How the corpus judges: the shipped policy's line for one check, through the whole engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

from checks import catalog
from checks.explain.reading import ReadOptions
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Declared, Node, Observation, Planned, Report, Verdict, node_of
from checks.policy import Policy
from tasks.gate_file.references import default_policy
from tasks.reports.explained_input import explain_text
from tests.corpus.case import Case, declared


def verdict_of(case: Case, rows: tuple[Observation, ...]) -> Verdict:
    """The verdict on a report in which this check alone was planned."""
    policy = _policy(case.instance_type)
    line = {case.check: policy.checks[case.check]} if case.check in policy.checks else {}
    check = next(check for check in catalog.CATALOG if check.name == case.check)
    said = declared(case.instance_type, case.nodes)
    names = sorted({node_of(row.subject) for row in rows})
    ranks = Counter(node_of(row.subject) for row in rows if "/" in row.subject)
    said = replace(said, ranks_per_node=max([1, *ranks.values()]), nodes=max(len(names), case.nodes))
    nodes = tuple(Node(name, index, "one", "", True, {}) for index, name in enumerate(names))
    planned = Planned(check.name, check.scope, check.metrics, None)
    report = Report("corpus", "one", "2026-11-01T00:00:00Z", case.profile, said, "", (planned,), nodes, rows)
    found = decide(report, replace(policy, checks=line), builtin())
    # A report of one check lacks ranks and GPUs; what gpu.inventory did not see, it says itself.
    ignored = {"report", "facts"}
    return replace(found, findings=tuple(f for f in found.findings if f.check not in ignored))


def explained(text: str, declared: Declared | None = None) -> Verdict:
    """What `prelaunch explain` answers about the text of a file, whose kind it recognises."""
    return explain_text("-", "-", text.encode(), None, None, ReadOptions(declared)).verdict


@cache
def _policy(instance_type: str) -> Policy:
    """Read once a type: hundreds of cases are judged by each."""
    return default_policy(instance_type, declared(instance_type))[1]
