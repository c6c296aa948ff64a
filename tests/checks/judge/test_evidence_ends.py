"""What the engine tells of the end of a node without a complete report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checks.facts.builtin import builtin
from checks.judge.consequences import OWN_REASONS, marked
from checks.judge.evidence import AGAIN, NO_LOG
from checks.judge.verdict import decide
from checks.model import (
    CLUSTER,
    Answer,
    Cause,
    ErrorKind,
    Finding,
    FindingKind,
    Level,
    NodeEnd,
    Observation,
    Outcome,
    Report,
    Verdict,
)
from tests.checks.local_policy import local_policy, silent_node
from tests.sample_reports import healthy, verdict_of, without_node


def test_a_node_whose_process_failed_comes_first() -> None:
    """The ranks that fell silent with it are a consequence; how it ended says more than that it is silent."""
    report = replace(without_node(healthy(2, 2), "node-1"), ends=(NodeEnd("node-1", -9, "out of memory"),))
    first = verdict_of(report).findings[0]

    assert ("report", "node-1", "sent no report (its process was ended by SIGKILL)", "Its log ends: out of memory") == (
        first.check, first.subject, first.message, first.evidence,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "first", "message"),
    [
        ((NodeEnd("node-0", 143, ""), NodeEnd("node-1", 137, "")), "node-1", "(its process exited 137)"),
        ((NodeEnd("node-0", -15, ""), NodeEnd("node-1", None, "")), "node-1", "(its process did not end)"),
        ((NodeEnd("node-0", 143, ""), NodeEnd("node-1", None, "", "it is down*")), "node-1", "(it is down*)"),
        ((NodeEnd("node-0", 1, ""), NodeEnd("node-1", 143, "")), "node-0", "(its process exited 1)"),
        ((NodeEnd("node-0", 143, ""), NodeEnd("node-1", 143, "")), "node-0", "(its process exited 143)"),
        (
            (
                NodeEnd("node-0", None, "", "its job was cancelled because somebody stopped it"),
                NodeEnd("node-1", None, ""),
            ),
            "node-0",
            "(its job was cancelled because somebody stopped it)",
        ),
    ],
)
@pytest.mark.parametrize("declared", [True, False])
def test_a_node_that_was_asked_to_end_is_named_after_the_others(
    ends: tuple[NodeEnd, ...], first: str, message: str, declared: bool
) -> None:
    """SIGTERM is what an engine sends once another one has failed. Names that only the engine knows count as well."""
    report = without_node(without_node(healthy(3, 1), "node-0"), "node-1")
    if not declared:
        report = replace(report, declared=replace(report.declared, node_names=()))
    findings = verdict_of(replace(report, ends=ends)).findings
    found = [one for one in findings if one.message.startswith("sent no report (")]

    assert (first, f"sent no report {message}") == (found[0].subject, found[0].message)
    assert {"node-0", "node-1"} == {one.subject for one in found}


def recorded(name: str) -> tuple[Report, Verdict]:
    """The gate, judged."""
    report, policy = silent_node(name)
    return report, decide(report, policy, builtin())


def by_itself(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """Check and subject of what follows from no silent node."""
    return [(one.check, one.subject) for one in findings if not one.follows]


@pytest.mark.parametrize("name", ["before_ranks", "during_ranks"])
def test_findings_on_peers_follow_from_the_silent_node(name: str) -> None:
    """One finding stands by itself and has the remedy; the answer stays CANNOT TELL, and every other finding stays as well."""
    report, verdict = recorded(name)
    about_peer = [one for one in verdict.findings if one.subject.startswith("node-0")]

    assert Answer.CANNOT_TELL is verdict.answer
    assert [("report", "node-1")] == by_itself(verdict.findings)
    assert NO_LOG == verdict.findings[0].remedy and {"node-1"} == {one.follows for one in about_peer}
    assert 20 <= len(about_peer) and len(report.collection) == 1


def test_finding_with_a_reason_of_its_own_follows_from_no_node() -> None:
    """An error of a peer's own check, and what that peer did not begin after it; a cluster of which every node is silent."""
    report, _ = recorded("before_ranks")
    own = Observation(
        "network.names", "node-0", Outcome.ERRORED, 0.1, reason="no such file", error_kind=ErrorKind.RAISED
    )
    rows = [one for one in report.observations if (one.check, one.subject) != (own.check, own.subject)]
    policy = local_policy()
    broken = decide(replace(report, observations=(*rows, own)), policy, builtin())
    nobody = replace(report, nodes=tuple(replace(one, complete=False) for one in report.nodes))

    found = by_itself(broken.findings)
    assert ("network.names", "node-0") in found and ("compute.gemm", "node-0/rank-0") in found
    assert not any(one.follows for one in decide(nobody, policy, builtin()).findings)


@pytest.mark.parametrize("kind", [*OWN_REASONS, None])
def test_finding_that_every_gate_has_follows_from_no_silent_node(kind: FindingKind | None) -> None:
    """Nobody knows what such machines reach, whether all of them report or not; its remedy stays."""
    report, _ = recorded("during_ranks")
    warning = Finding(Level.WARN, Cause.EVIDENCE, "collective.pairs", CLUSTER, "no baseline", kind=kind)

    [marked_one] = marked([warning], report, local_policy())
    assert ("node-1" if kind is None else "") == marked_one.follows


def test_a_check_that_was_not_planned_follows_from_no_silent_node() -> None:
    """Whoever made the report left it out, and no node's log says why."""
    report, _ = recorded("before_ranks")
    left_out = replace(report, plan=tuple(one for one in report.plan if one.check != "collective.pairs"))
    verdict = decide(left_out, local_policy(), builtin())

    assert ("collective.pairs", CLUSTER) in by_itself(verdict.findings)
    assert ("collective.pairs", "node-1/rank-2") not in by_itself(verdict.findings)


def test_a_broken_part_follows_from_no_silent_node() -> None:
    """Only missing evidence does: what was measured stands, and comes first."""
    report, _ = recorded("during_ranks")
    rows = [
        replace(one, metrics={**one.metrics, "codes": "79", "act": (3,), "incidents": 1})
        if one.check == "kernel.xid"
        else one
        for one in report.observations
    ]
    broken = decide(replace(report, observations=rows), local_policy(), builtin())

    assert Answer.NO_GO is broken.answer
    assert all(one.cause is Cause.EVIDENCE for one in broken.findings if one.follows)
    assert "" == broken.findings[0].follows and Cause.EVIDENCE is not broken.findings[0].cause


@pytest.mark.parametrize(
    ("end", "remedy"),
    [
        (NodeEnd("node-1", 9, " \n"), NO_LOG),
        (NodeEnd("node-1", 9, "killed"), AGAIN),
        (NodeEnd("node-1", None, ""), AGAIN),
    ],
)
def test_remedy_points_to_no_empty_log(end: NodeEnd, remedy: str) -> None:
    """One that has not ended may still write one."""
    report = replace(without_node(healthy(2, 2), "node-1"), ends=(end,))

    assert remedy == verdict_of(report).findings[0].remedy
