"""Sentences are for people: whatever they say, the verdict is the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checks.judge.baseline.bands import Baseline
from checks.judge.ledger import ledger
from checks.judge.reachability import REACHABILITY
from checks.model import Action, Finding, Outcome, Report, Verdict
from checks.policy import Overlay, Policy
from tests.checks.baselines import FOUR, STEADY, gemm, judged
from tests.checks.culprit.rows import Change, tournament
from tests.checks.judge.baseline.test_compare import EXPECTING
from tests.checks.judge.culprits.test_findings import _policy as pairs_policy
from tests.checks.judge.culprits.test_silent_ranks import DDP, DEADLINE, GEMM, OOM, REDUCE, TIMED_OUT, broken
from tests.checks.judge.test_xid_overlay import judged as xid_judged
from tests.checks.judge.test_xid_overlay import row as xid_row
from tests.sample_reports import POLICY, healthy, with_metric, without_node, without_row, wrong_sums


def reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on every finding's message, whoever makes it, says something else."""
    plain = Finding.__init__

    def made(self: Finding, *values: Any, **named: Any) -> None:
        plain(self, *values, **named)
        said = "".join(chr(ord(letter) ^ 1) for letter in self.message)
        # `replace` makes a finding of one that says something else already.
        if not self.message.startswith("~"):
            object.__setattr__(self, "message", f"~{said}")

    monkeypatch.setattr(Finding, "__init__", made)


def without_words(verdict: Verdict) -> tuple[object, ...]:
    """All of the verdict that anything is decided by."""
    findings = sorted(
        (f.level.value, f.cause.value, f.check, f.subject, f.action.value, f.kind or "", f.metric)
        for f in verdict.findings
    )
    answer = (verdict.level, verdict.answer, verdict.condemned, verdict.suspect_policy)
    return (*answer, verdict.coverage, findings)


@pytest.mark.parametrize(
    ("report", "baseline", "policy"),
    [
        (gemm(STEADY), None, EXPECTING),
        (gemm(STEADY), FOUR, EXPECTING),
        (gemm([20.0] * 8), FOUR, EXPECTING),
        (wrong_sums(healthy(2, 2)), None, POLICY),
        (without_node(healthy(4, 2), "node-2"), None, POLICY),
        (without_row(healthy(2, 2), "collective.all_reduce", "node-1/rank-3"), None, POLICY),
    ],
)
def test_no_verdict_follows_from_a_finding_s_message(
    report: Report, baseline: Baseline | None, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the answer nor which findings there are; nor what a check's entry in the ledger lacks."""
    before = judged(report, baseline, policy)
    lacks = [len(entry.silent) for entry in ledger(report, policy, before)]
    reworded(monkeypatch)
    after = judged(report, baseline, policy)

    assert all(finding.message.startswith("~") for finding in after.findings)
    assert without_words(before) == without_words(after)
    assert lacks == [len(entry.silent) for entry in ledger(report, policy, after)]


LOST_BEFORE = "not reached: the rank checks never began: torchrun ended with exit code 1"
REASONS = (
    broken(healthy(2, 8), REDUCE, {13}),
    broken(healthy(2, 8), REDUCE, {13}, DEADLINE),
    broken(healthy(2, 4), REDUCE, set(), {**dict.fromkeys(range(8), TIMED_OUT), 2: OOM}),
    broken(healthy(2, 4), REDUCE, set(), {**dict.fromkeys(range(8), TIMED_OUT), 2: DEADLINE}),
    broken(healthy(2, 2), REDUCE, set(), {0: TIMED_OUT, 1: TIMED_OUT, 2: LOST_BEFORE, 3: LOST_BEFORE}),
    broken(healthy(2, 2), GEMM, {0}, "not run: the process group could not be formed: wait timeout"),
    broken(without_node(healthy(4, 2), "node-2"), DDP, set(), TIMED_OUT),
)


@pytest.mark.parametrize("report", REASONS)
def test_no_verdict_follows_from_how_a_reason_begins(report: Report) -> None:
    """What torch itself says within it counts, and how the check ended is a field."""
    rows = (
        replace(row, reason=f"To sum up: {row.reason}") if row.outcome is Outcome.ERRORED else row
        for row in report.observations
    )
    after = replace(report, observations=tuple(rows))

    assert after != report
    assert without_words(judged(report, None)) == without_words(judged(after, None))


NOTHING = {
    "bandwidth_gbps": None, "latency_us": None, "slowest_us": None, "wrong_elements": None, "retransmits": None,
}  # fmt: skip


def failing(rank: int, said: str, peer_said: str = "") -> Change:
    """Every test of this rank ends in such a way; the others may say something else of it."""

    def change(one: int, other: int) -> dict[str, float | int | str | None]:
        if rank not in (one, other):
            return {}
        return {**NOTHING, "failures": said if one == rank or not peer_said else peer_said}

    return change


@pytest.mark.parametrize(
    "change",
    [
        failing(3, "no answer within 2 s"),
        failing(3, "connection closed"),
        failing(3, "not run: the check's time was over", "no answer within 2 s"),
        failing(3, "not tried: it gave no answer to ranks 1 and 2"),
        failing(3, "not run: rank 3 had left the tournament"),
        failing(3, "failed: something"),
    ],
)
def test_no_verdict_follows_from_what_a_failed_test_of_two_ranks_says(change: Change) -> None:
    """How it ended is a field."""
    before = tournament(8, 1, change)
    rows = []
    for row in before.observations:
        failures = row.metrics["failures"]
        assert isinstance(failures, tuple)
        told = tuple(said if said == "ok" else f"To sum up: {said}" for said in failures)
        rows.append(replace(row, metrics={**row.metrics, "failures": told}))
    after = replace(before, observations=tuple(rows))

    assert after != before
    answers = [without_words(judged(one, None, pairs_policy())) for one in (before, after)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(("reason", "refused"), [("Connection refused", 1), ("timed out", 0)])
def test_no_verdict_follows_from_why_a_peer_was_not_reached(reason: str, refused: int) -> None:
    """That nothing listens there is a field; a failure that is not ok is one, whatever it says."""

    def unreached(reason: str) -> Report:
        """Node 3, of which the others say this."""
        report = healthy(4, 1)
        for name in ("node-0", "node-1", "node-2"):
            report = with_metric(report, REACHABILITY, name, "failures", ("ok", "ok", reason))
            report = with_metric(report, REACHABILITY, name, "refused", (0, 0, refused))
        return report

    before, after = (judged(unreached(text), None) for text in (reason, "Nobody came to the door."))
    assert before.findings and without_words(before) == without_words(after)


@pytest.mark.parametrize("by", [Overlay.NVIDIA, Overlay.EKS])
def test_an_xid_s_action_does_not_follow_from_the_message_of_its_count(
    by: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule's metric says what was counted."""
    seen = xid_row("NVRM: Xid (PCI:0000:b9:00): 119, x")
    before = [(f.level, f.cause, f.action, f.remedy, f.source) for f in xid_judged(seen, by)]
    reworded(monkeypatch)

    assert before == [(f.level, f.cause, f.action, f.remedy, f.source) for f in xid_judged(seen, by)]
    assert {Action.NONE} != {action for _, _, action, _, _ in before}
