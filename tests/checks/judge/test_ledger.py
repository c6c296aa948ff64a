"""The ledger: for each check of the plan, what was looked at, what it was held to, and what could not speak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.judge.ledger import ledger, limits_text
from checks.model import Observation, Outcome
from checks.policy import Over, Rule
from tests.sample_reports import POLICY, healthy, verdict_of, with_row, without_row


def test_every_check_of_the_plan_has_an_entry_and_its_sources() -> None:
    """What was left out is there as well, with the reason."""
    report = healthy()
    entries = ledger(report, POLICY, verdict_of(report))
    assert [planned.check for planned in report.plan] == [entry.check for entry in entries]
    for entry, planned in zip(entries, report.plan, strict=True):
        assert (planned.skip.value if planned.skip else "") == entry.skip
        line = POLICY.checks.get(planned.check)
        if planned.skip is None and line is not None:
            assert {rule.source for rule in line.rules} == set(entry.sources)
            assert (entry.measured, entry.missing) == (entry.required, 0)


def test_ledger_counts_missing_and_errored_apart() -> None:
    """A silent rank is not one that said why it could not."""

    def died(row: Observation) -> Observation:
        return replace(row, outcome=Outcome.ERRORED, metrics={}, reason="died")

    check = "collective.all_reduce"
    report = with_row(without_row(healthy(), check, "node-1/rank-3"), check, "node-0/rank-0", died)
    entry = next(e for e in ledger(report, POLICY, verdict_of(report)) if e.check == check)
    assert (4, 2, 1, 1) == (entry.required, entry.measured, entry.errored, entry.missing)


def test_a_comparison_with_too_few_peers_is_listed_as_silent() -> None:
    """Two nodes are no fleet: the verdict does not rest on the comparison, and says so."""
    report = healthy()
    rule = Rule("gflops", "made up", Over.FLEET, fail_below=0.9)
    line = replace(POLICY.checks["compute.gemm"], rules=(rule,))
    policy = replace(POLICY, checks={**POLICY.checks, "compute.gemm": line})
    entry = next(e for e in ledger(report, policy, verdict_of(report, policy)) if e.check == "compute.gemm")
    assert ("gflops was not compared: 2 to compare, 4 are needed",) == entry.silent


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule("m", "s", fail_below=1, warn_below=2), "FAIL below 1, WARN below 2"),
        (Rule("m", "s", Over.NODE, fail_below=0.9), "FAIL below 0.9 times the median of its node"),
        (
            Rule("m", "s", Over.SLOWEST, warn_above=0.1),
            "WARN above 0.1 of the job's time, lost to the slowest",
        ),
        (Rule("m", "s", equals=0), "FAIL unless 0"),
        (
            Rule("m", "s", Over.CLUSTER, same=True, level="WARN"),
            "WARN unless it is the same everywhere over the cluster",
        ),
        (Rule("m", "s", fact="gpus"), "FAIL below the instance type's gpus"),
    ],
)
def test_a_rule_in_words(rule: Rule, said: str) -> None:
    """Whoever reads the page need not know the policy's keys."""
    assert said == limits_text(rule)
