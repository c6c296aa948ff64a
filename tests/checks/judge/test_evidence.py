"""Absence of evidence is never health: whatever is taken from a healthy report, the verdict says so.

It is said of the subject that lacks it, at the level that it deserves, with what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import (
    CLUSTER,
    Answer,
    Cause,
    Count,
    ErrorKind,
    Level,
    Observation,
    Outcome,
    Profile,
    Report,
    Scope,
    Skip,
    Verdict,
)
from checks.policy import CheckPolicy
from tasks.gate_file.references import default_policy
from tests.catalogue_reports import expected_report
from tests.sample_reports import (
    POLICY,
    SIZES,
    findings_of,
    healthy,
    verdict_of,
    with_metric,
    with_row,
    without_node,
)

FEW = settings(max_examples=30)
Spoil = Callable[[Observation], Observation]


def _skipped(skip: Skip | None) -> Spoil:
    return lambda row: replace(row, outcome=Outcome.SKIPPED, metrics={}, skip=skip, reason="so it says")


def _contradiction(row: Observation) -> Observation:
    return replace(row, skip=Skip.NOT_PERMITTED, reason="measured and skipped at once")


CLUSTERS = st.builds(healthy, st.integers(1, 5), st.integers(1, 3), st.sampled_from([0, 4]), st.booleans())


def _says_that_evidence_is_missing(verdict: Verdict) -> bool:
    return verdict.level is not Level.PASS and bool(findings_of(verdict, Cause.EVIDENCE))


@FEW
@given(CLUSTERS)
def test_a_healthy_report_passes_without_a_finding(report: Report) -> None:
    """Otherwise the properties below would hold for the wrong reason."""
    verdict = verdict_of(report)

    assert (Answer.GO, (), True) == (verdict.answer, verdict.findings, verdict.coverage.complete)


@pytest.mark.parametrize("spoil", [_contradiction, *map(_skipped, [None, *Skip])])
def test_observation_that_is_skipped_for_no_accepted_reason_is_missed(spoil: Spoil) -> None:
    """Nor is one that was measured and skipped at once evidence."""
    verdict = verdict_of(with_row(healthy(), "compute.gemm", "node-0/rank-1", spoil))

    assert _says_that_evidence_is_missing(verdict)


@FEW
@given(CLUSTERS, st.integers(0, 10))
def test_a_node_that_said_nothing_is_missed(report: Report, index: int) -> None:
    """Named where its name is declared; counted where it is not."""
    name = f"node-{index % len(report.nodes)}"
    verdict = verdict_of(without_node(report, name))
    subject, text = (name, "sent no report") if report.declared.node_names else (CLUSTER, "has no report of")
    said = [f for f in verdict.findings if f.subject == subject]

    assert verdict.answer is Answer.CANNOT_TELL
    assert any(finding.message.startswith(text) for finding in said)
    assert not verdict.condemned


@FEW
@given(CLUSTERS, st.integers(0, 20))
def test_a_plan_that_lacks_a_line_is_noticed(report: Report, index: int) -> None:
    """The policy knows what had to be planned, with or without the observations."""
    dropped = report.plan[index % len(report.plan)]
    plan = tuple(line for line in report.plan if line is not dropped)
    rows = tuple(row for row in report.observations if row.check != dropped.check)

    assert _says_that_evidence_is_missing(verdict_of(replace(report, plan=plan)))
    assert _says_that_evidence_is_missing(verdict_of(replace(report, plan=plan, observations=rows)))


@FEW
@given(CLUSTERS, st.integers(0, 20), st.sampled_from(Skip))
def test_a_plan_cannot_excuse_what_is_declared(report: Report, index: int, skip: Skip) -> None:
    """A check that applies is excused by no skip, whatever else the declaration lacks."""
    line = report.plan[index % len(report.plan)]
    if line.skip is not None:
        return
    plan = tuple(replace(p, skip=skip) if p is line else p for p in report.plan)
    rows = tuple(row for row in report.observations if row.check != line.check)

    assert _says_that_evidence_is_missing(verdict_of(replace(report, plan=plan, observations=rows)))


@FEW
@given(CLUSTERS, st.integers(0, 10))
def test_a_node_of_another_life_is_noticed(report: Report, index: int) -> None:
    """Another attempt's report, or another catalogue's, proves nothing about this one."""
    at = index % len(report.nodes)
    before, node, after = report.nodes[:at], report.nodes[at], report.nodes[at + 1 :]
    changed = [
        replace(report, nodes=(*before, replace(node, attempt="another"), *after)),
        replace(report, nodes=(*before, replace(node, catalogue="another"), *after)),
        replace(report, attempt="another"),
        replace(report, catalogue="another"),
    ]

    assert {Answer.CANNOT_TELL} == {verdict_of(one).answer for one in changed}


def _second_node(**changes: object) -> Report:
    first, second = healthy().nodes
    return replace(healthy(), nodes=(first, replace(second, **changes)))  # type: ignore[arg-type]


def _declared(**changes: object) -> Report:
    return replace(healthy(), declared=replace(healthy().declared, **changes))  # type: ignore[arg-type]


def _observed(row: Observation, **changes: object) -> Report:
    return replace(healthy(), observations=(*healthy().observations, replace(row, **changes)))  # type: ignore[arg-type]


GOOD = healthy()
FIRST_ROW = GOOD.observations[0]
# A rank check that is planned as a node check leaves its rows unplanned.
NARROWED = tuple(replace(p, scope=Scope.NODE) if p.check == "compute.gemm" else p for p in GOOD.plan)
NAMELESS = healthy(1, 1, named=False)
CONTRADICTIONS = {
    "collector's problem": replace(GOOD, collection=("node-1: truncated at byte 12",)),
    "a node twice": replace(GOOD, nodes=(*GOOD.nodes, GOOD.nodes[0])),
    "one rank twice": _second_node(rank=0),
    "rank too high": _second_node(rank=7),
    "incomplete": _second_node(complete=False),
    "planned twice": replace(GOOD, plan=(*GOOD.plan, GOOD.plan[0])),
    "a scope that is narrower": replace(GOOD, plan=NARROWED),
    "observed twice": _observed(FIRST_ROW),
    "an observation of a stranger": _observed(FIRST_ROW, subject="node-9"),
    "an observation of another scope": _observed(FIRST_ROW, subject="node-0/rank-0"),
    "an observation of an unplanned check": _observed(FIRST_ROW, check="made.up"),
    "a stranger": _declared(node_names=("node-0", "node-9")),
    "more ranks": _declared(ranks_per_node=3),
    "more nodes": _declared(nodes=3),
    "fewer nodes": _declared(nodes=1),
    # Its findings would pass for findings about everything.
    "a node that is called cluster": replace(NAMELESS, nodes=(replace(NAMELESS.nodes[0], name=CLUSTER),)),
}


@pytest.mark.parametrize("report", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_report_that_does_not_fit_itself_cannot_tell(report: Report) -> None:
    """Doubt about what was observed is a FAIL, cause EVIDENCE."""
    assert verdict_of(report).answer is Answer.CANNOT_TELL


def test_declared_gpus_that_were_not_found_fail() -> None:
    """8 declared and none found is FAIL, not "CPU only"."""
    report = healthy(2, 2, 4)
    for name in ("node-0", "node-1"):
        report = with_metric(report, "gpu.inventory", name, "gpus_found", 0)
        report = with_metric(report, "gpu.inventory", name, "gpus_missing", 4)
    verdict = verdict_of(report)

    assert (Answer.NO_GO, Count(0, 8)) == (verdict.answer, verdict.coverage.gpus)


def test_gpus_that_nobody_counted_fail_beside_a_warning_of_another_cause() -> None:
    """Incomplete coverage must be said even where another finding exists already."""
    report = with_metric(healthy(2, 2, 4), "system.clock", "node-0", "synchronised", False)
    plan = tuple(p for p in report.plan if p.check != "gpu.inventory")
    rows = tuple(row for row in report.observations if row.check != "gpu.inventory")
    policy = replace(POLICY, checks={k: v for k, v in POLICY.checks.items() if k != "gpu.inventory"})
    verdict = verdict_of(replace(report, plan=plan, observations=rows), policy)

    assert (Answer.CANNOT_TELL, 0) == (verdict.answer, verdict.coverage.gpus.observed)


def test_an_optional_check_that_errored_warns_and_an_accepted_skip_too() -> None:
    """Neither is nothing, and neither refuses by itself."""
    errored: Spoil = lambda row: replace(row, outcome=Outcome.ERRORED, metrics={}, reason="it raised")  # noqa: E731
    optional = verdict_of(with_row(healthy(), "storage.write", CLUSTER, errored))
    accepted = verdict_of(with_row(healthy(), "system.clock", "node-0", _skipped(Skip.NOT_PERMITTED)))

    for verdict in (optional, accepted):
        assert (Level.WARN, Answer.GO) == (verdict.level, verdict.answer)
        assert [Cause.EVIDENCE] == [finding.cause for finding in verdict.findings]
        assert not verdict.coverage.complete


@pytest.mark.parametrize(
    ("check", "accepts", "level", "answer"),
    [
        ("storage.write", (), Level.WARN, Answer.GO),
        ("compute.gemm", (), Level.FAIL, Answer.CANNOT_TELL),
        ("compute.gemm", (Skip.NOT_PERMITTED,), Level.FAIL, Answer.CANNOT_TELL),
        ("compute.gemm", (Skip.TOOL_MISSING,), Level.WARN, Answer.GO),
        ("compute.gemm", (Skip.GATE_FILE,), Level.WARN, Answer.GO),
    ],
)
def test_check_left_out_by_the_gate_file_is_a_warning_at_least(
    check: str, accepts: tuple[Skip, ...], level: Level, answer: Answer
) -> None:
    """And missing evidence where the policy requires the check, whoever wrote the report."""
    report = healthy()
    rows = tuple(_skipped(Skip.GATE_FILE)(row) if row.check == check else row for row in report.observations)
    line = replace(POLICY.checks[check], accept_skips=accepts)
    policy = replace(POLICY, checks={**POLICY.checks, check: line})
    verdict = verdict_of(replace(report, observations=rows), policy)

    assert (level, answer) == (verdict.level, verdict.answer)
    assert {Cause.EVIDENCE} == {finding.cause for finding in verdict.findings}
    assert all("left out by the gate file" in finding.message for finding in verdict.findings)


@pytest.mark.parametrize(("own", "answer"), [(True, Answer.GO), (False, Answer.CANNOT_TELL)])
def test_a_log_that_is_not_the_machines_own_is_no_evidence(own: bool, answer: Answer) -> None:
    """A variable put a file in its place: the finding names both, whatever the policy's line says."""

    def named(row: Observation) -> Observation:
        return replace(row, metrics={**row.metrics, "source": "/tmp/well.log", "own_source": own})

    verdict = verdict_of(with_row(healthy(), "system.clock", "node-0", named))
    said = [finding.message for finding in verdict.findings]

    assert answer is verdict.answer
    assert own or any("/tmp/well.log" in text and "PRELAUNCH_KERNEL_LOG" in text for text in said)


def test_a_check_that_the_policy_does_not_know_is_no_pass() -> None:
    """Nothing says what it must show."""
    policy = replace(POLICY, checks={k: v for k, v in POLICY.checks.items() if k != "compute.gemm"})

    assert verdict_of(healthy(), policy).answer is Answer.CANNOT_TELL


def test_a_line_may_leave_a_profile_out_and_then_the_plan_may_too() -> None:
    """NOT_IN_PROFILE is an excuse only if the policy says the same."""
    report = healthy()
    plan = tuple(
        replace(p, skip=Skip.NOT_IN_PROFILE) if p.check == "storage.write" else p for p in report.plan
    )
    rows = tuple(row for row in report.observations if row.check != "storage.write")
    left_out = replace(report, plan=plan, observations=rows)
    line = CheckPolicy(profiles=(Profile.DEEP,))
    policy = replace(POLICY, checks={**POLICY.checks, "storage.write": line})

    assert Answer.CANNOT_TELL is verdict_of(left_out).answer
    assert Answer.GO is verdict_of(left_out, policy).answer


def test_which_of_two_rows_came_first_changes_nothing() -> None:
    """Of two rows for one subject neither is used, so that order cannot decide."""
    report = healthy()
    other = replace(report.observations[0], metrics={**report.observations[0].metrics, "kernel": "5.4"})
    one = verdict_of(replace(report, observations=(*report.observations, other)))
    two = verdict_of(replace(report, observations=(other, *report.observations)))

    assert one.findings == two.findings


@pytest.mark.parametrize("check", ["nccl.intra_node", "nccl.tests"])
@pytest.mark.parametrize(("kind", "refused"), [("p5.48xlarge", True), ("g5.xlarge", False)])
def test_a_rank_that_claims_to_be_alone_is_held_to_the_declaration(
    check: str, kind: str, refused: bool
) -> None:
    """Of eight GPUs a node none has no neighbour, though the policy accepts the skip for machines with one."""
    report = expected_report(kind, 2)
    skip = _skipped(Skip.ONE_RANK_DECLARED)
    rows = tuple(skip(row) if row.check == check else row for row in report.observations)
    verdict = decide(replace(report, observations=rows), default_policy(kind)[1], builtin())

    assert refused is any(one.check == check and one.level is Level.FAIL for one in verdict.findings)


WHO, CHECK = "node-0/rank-0", "collective.all_reduce"


def test_an_empty_list_is_named_on_its_own_subject() -> None:
    """The other ranks measured."""
    report = with_metric(healthy(), CHECK, WHO, "busbw_gbps", ())
    found = [f for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.check == CHECK]

    assert "not measured: busbw_gbps is an empty list" in [f.message for f in found]
    assert {WHO} == {f.subject for f in found}


def test_a_value_that_no_rule_reads_may_be_missing_with_a_warning() -> None:
    """It changes no decision, and is not passed over."""
    report = with_metric(healthy(), CHECK, WHO, "sizes_bytes", (None, *SIZES[1:]))
    levels = {f.level for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.check == CHECK}

    assert {Level.WARN} == levels


def test_a_pair_without_a_rate_is_one_finding() -> None:
    """Its matrix is judged elsewhere, so that the missing value is not also one that no rule reads."""
    report = with_metric(healthy(), "network.pairs", "node-0", "bandwidth_gbps", (None,))
    (found,) = (f for f in verdict_of(report).findings if f.check == "network.pairs")

    assert (Level.FAIL, Cause.EVIDENCE) == (found.level, found.cause)


def test_a_missing_tool_is_to_be_installed() -> None:
    """The remedy is that of the reason."""

    def skipped(row: Observation) -> Observation:
        return replace(row, outcome=Outcome.SKIPPED, metrics={}, skip=Skip.TOOL_MISSING, reason="no tool")

    verdict = verdict_of(with_row(healthy(), CHECK, WHO, skipped))
    (found,) = (f for f in findings_of(verdict, Cause.EVIDENCE) if (f.check, f.subject) == (CHECK, WHO))

    assert found.remedy.startswith("Install the tool") and "no tool" in found.message


def _lost(kind: ErrorKind, reason: str, row: Observation) -> Observation:
    return replace(row, outcome=Outcome.ERRORED, metrics={}, reason=reason, error_kind=kind)


def test_a_limit_of_the_gate_file_comes_first_with_what_to_raise_and_what_follows_last() -> None:
    """Also where what follows belongs to a check that stands before it in the plan."""
    report = healthy()
    ranks = [row.subject for row in report.observations if row.check == CHECK]
    for rank in ranks:
        for check, kind, reason in (
            ("compute.gemm", ErrorKind.NOT_RUN, f"not run: the check {CHECK} did not return"),
            (CHECK, ErrorKind.LIMIT_PASSED, "its time limit of 1 s ([checks] timeouts_s) passed"),
        ):
            report = with_row(report, check, rank, partial(_lost, kind, reason))
    found = [f for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.level is Level.FAIL]

    assert [CHECK] * len(ranks) + ["compute.gemm"] * len(ranks) == [f.check for f in found]
    assert found[0].remedy.startswith(f'Raise "{CHECK}" in [checks] timeouts_s of the gate file')
    assert found[-1].remedy.startswith("The reason names what failed before it")


@pytest.mark.parametrize("kind", [ErrorKind.LIMIT_PASSED, ErrorKind.DEADLINE])
def test_a_rank_that_a_limit_of_the_gate_file_ended_first_is_no_suspect(kind: ErrorKind) -> None:
    """The others lost it because of the limit, which all of them have. With the check's usual deadline it was busy for too long."""
    report = healthy()
    first, *others = [row.subject for row in report.observations if row.check == CHECK]
    report = with_row(report, CHECK, first, partial(_lost, kind, "late"))
    closed = "the check raised RuntimeError: Connection closed by peer"
    for rank in others:
        report = with_row(report, CHECK, rank, partial(_lost, ErrorKind.RAISED, closed))
    found = [f.message for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.level is Level.FAIL]

    assert any("was still busy" in message for message in found) is (kind is ErrorKind.DEADLINE)
    assert found[0].startswith("not measured: late") is (kind is ErrorKind.LIMIT_PASSED)
