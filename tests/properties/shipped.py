"""Reports of the shipped catalogues under the shipped policies, healthy and faulty, for properties. Constructed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from checks.documents.report import dump, load
from checks.facts.builtin import builtin
from checks.judge.baseline.bands import Baseline
from checks.judge.baseline.learn import ReportCase as Learnt
from checks.judge.baseline.learn import learn
from checks.judge.verdict import decide, unreadable
from checks.model import Cause, KernelLog, Level, Report, Verdict
from checks.policy import JUDGED_BY_THE_ENGINE, CheckPolicy, Over, Policy, Rule, check_sense
from checks.value_types import DecodeError
from tasks.gate_file.references import default_policy
from tests.catalogue_reports import expected_report
from tests.checks.judge.test_evidence_of_withheld_logs import unread
from tests.properties.spoils import Document, bad

# The second GPU type is one of whose collectives nothing is known.
READABLE, WITHHELD = KernelLog.READABLE, KernelLog.WITHHELD
BOTH = (("p5.48xlarge", 1), ("g5.12xlarge", 2), ("trn1.32xlarge", 2))
KINDS = tuple((*one, READABLE) for one in (("cpu", 1), ("cpu", 3), ("p5.48xlarge", 2), *BOTH))
# On an engine that withholds the kernel's log, so that its checks are skipped.
CONFINED = tuple((*one, WITHHELD) for one in (("cpu", 2), *BOTH))


@cache
def _healthy(kind: str, nodes: int, log: KernelLog) -> bytes:
    report = expected_report(kind, nodes, kernel_log=log)
    return dump(unread(report) if log is WITHHELD else report)


@cache
def policy_with(kind: str, optional: frozenset[str]) -> Policy:
    """The shipped policy in which these checks are optional, as `load` takes it: what is optional only warns."""
    shipped, easy = default_policy(kind)[1], optional - {*JUDGED_BY_THE_ENGINE}
    lines = {name: _eased(line) if name in easy else line for name, line in shipped.checks.items()}
    made = replace(shipped, checks=lines)
    check_sense(made)
    return made


def _eased(line: CheckPolicy) -> CheckPolicy:
    rules = tuple(_warning(rule) for rule in line.rules if rule.over is not Over.EXPECTED)
    return replace(line, required=False, rules=rules)


def _warning(rule: Rule) -> Rule:
    low = rule.fail_below if rule.warn_below is None else rule.warn_below
    high = rule.fail_above if rule.warn_above is None else rule.warn_above
    return replace(rule, warn_below=low, warn_above=high, fail_below=None, fail_above=None, level="WARN")


@cache
def _baseline(kind: str, nodes: int) -> Baseline:
    return learned(expected_report(kind, nodes), policy_with(kind, frozenset()))


def learned(report: Report, policy: Policy) -> Baseline:
    """A baseline of two such reports of the same machines."""
    two = [replace(report, gate_id=gate) for gate in ("first", "second")]
    return learn([Learnt(each, decide(each, policy, builtin()), policy) for each in two])


def judged(document: Document, policy: Policy, baseline: Baseline | None) -> Verdict:
    """As the command line judges a file."""
    data = json.dumps(document).encode()
    try:
        return decide(load(data), policy, builtin(), baseline)
    except DecodeError as error:
        return unreadable(str(error), policy, builtin(), data)


class Case:
    """A report before and after something was taken from `check`; shown by what was done alone."""

    def __init__(
        self, kind: str, nodes: int, before: Document, optional: frozenset[str], with_baseline: bool
    ) -> None:
        self.kind, self.before, self.optional = kind, before, optional
        self.policy = policy_with(kind, optional)
        self.baseline = _baseline(kind, nodes) if with_baseline else None
        self.after: Document = {}
        self.check = self.what = ""

    def spoilt(self, check: str, what: str, after: Document) -> Case:
        """What was done."""
        self.check, self.what, self.after = check, what, after
        return self

    def __repr__(self) -> str:
        with_it = "with" if self.baseline else "without"
        return f"Case({self.kind}, {self.check}, {self.what}, optional={sorted(self.optional)}, {with_it} a baseline)"

    def judged(self, document: Document) -> Verdict:
        """As the command line judges a file."""
        return judged(document, self.policy, self.baseline)


@st.composite
def faulty(draw: st.DrawFn, kinds: tuple[tuple[str, int, KernelLog], ...] | None = None) -> Case:
    """A report of a shipped catalogue, with none, one or two values out of bounds, and which checks are optional."""
    kind, nodes, log = draw(st.sampled_from((*KINDS, *CONFINED) if kinds is None else kinds))
    document: Document = json.loads(_healthy(kind, nodes, log))
    checks = sorted(name for name, check in document["checks"].items() if check["metrics"])
    for name in draw(st.lists(st.sampled_from(checks), max_size=2)):
        metrics = document["checks"][name]["metrics"]
        metric = draw(st.sampled_from(sorted(metrics)))
        place = draw(st.integers(0, len(metrics[metric]) - 1))
        metrics[metric][place] = bad(metrics[metric][place])
    optional = frozenset(draw(st.lists(st.sampled_from(checks), max_size=3)))
    return Case(kind, nodes, document, optional, draw(st.booleans()))


def missed(judge: Callable[[Document], Verdict], before: Document, after: Document) -> Verdict:
    """The verdict afterwards, which says what is missing and is no better than the one before."""
    was, now = judge(before), judge(after)

    assert says_so(now)
    assert now.level.rank >= was.level.rank
    return now


def says_so(verdict: Verdict) -> bool:
    """Whether the verdict is no PASS, and has a reason with the cause EVIDENCE."""
    return verdict.level is not Level.PASS and any(
        finding.cause is Cause.EVIDENCE and finding.level is not Level.PASS for finding in verdict.findings
    )
