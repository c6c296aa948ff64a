"""Node reports -> one report: what cannot be read or does not belong is said, never left out in silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks import bundle as bundles
from checks.bundle import Bundle
from checks.documents.report import NODE_REPORT_BYTES, NodeReport, dump, dump_plain
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.merge import merge
from checks.model import Declared, KernelLog, Node, Observation, Outcome, Profile, Report, Skip
from checks.policy import OnWarn, Policy

WHEN = "2026-11-21T08:00:00+00:00"
POLICY = Policy("none", ("cpu",), OnWarn.GO, 0.25, {})
LEFT_OUT = Observation("system.clock", "node-1", Outcome.SKIPPED, 0.0, {}, Skip.GATE_FILE, "left out")
DECLARED = Declared("cpu", 2, 0, 1, ("node-0", "node-1"))


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """A bundle for two nodes."""
    return bundles.make("gate-1", DECLARED, Profile.QUICK, POLICY, builtin())


def _node(bundle: Bundle, rank: int, attempt: str = "a1") -> NodeReport:
    name = f"node-{rank}"
    row = Observation("system.clock", name, Outcome.MEASURED, 0.1, {"year": 2026})
    node = Node(name, rank, attempt, bundle.catalogue, True, {})
    return NodeReport(1, "gate-1", WHEN, Profile.QUICK, DECLARED, bundles.plan_of(bundle)[1], node, (row,))


def _merged(bundle: Bundle, *reports: NodeReport | bytes) -> Report:
    data = [report if isinstance(report, bytes) else dump_plain(report) for report in reports]
    return merge(bundle, "a1", {f"file-{i}": one for i, one in enumerate(data)}, WHEN)


def test_whole_reports_become_one(bundle: Bundle) -> None:
    """Nodes by rank, rows of all, no problem, and the plan is the gate's own."""
    report = _merged(bundle, _node(bundle, 1), _node(bundle, 0))

    assert ["node-0", "node-1"] == [node.name for node in report.nodes]
    assert (2, ()) == (len(report.observations), report.collection)
    assert bundles.plan_of(bundle)[1] == report.plan


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda r: dump_plain(r)[:-40], id="truncated"),
        pytest.param(lambda r: b"", id="empty"),
        pytest.param(lambda r: b" " * (NODE_REPORT_BYTES + 1), id="too large"),
        pytest.param(lambda r: replace(r, gate_id="gate-2"), id="another gate"),
        pytest.param(lambda r: replace(r, profile=Profile.DEEP), id="another profile"),
        pytest.param(lambda r: replace(r, declared=replace(DECLARED, nodes=3)), id="another declaration"),
        pytest.param(
            lambda r: replace(r, declared=replace(DECLARED, kernel_log=KernelLog.WITHHELD)),
            id="a kernel log that the gate's declaration calls readable",
        ),
        pytest.param(lambda r: replace(r, measured_at="yesterday"), id="no time"),
        pytest.param(
            lambda r: replace(r, observations=(replace(r.observations[0], subject="node-0"),)),
            id="speaks of a peer",
        ),
        pytest.param(
            lambda r: replace(r, observations=(LEFT_OUT,)), id="left out what the gate file does not"
        ),
    ],
)
def test_a_report_that_does_not_belong_is_a_problem(
    bundle: Bundle, spoil: Callable[[NodeReport], NodeReport | bytes]
) -> None:
    """It is named in `collection`, its node is absent, and the verdict cannot tell."""
    report = _merged(bundle, _node(bundle, 0), spoil(_node(bundle, 1)))
    verdict = decide(report, POLICY, builtin())

    assert (1, ["node-0"]) == (len(report.collection), [node.name for node in report.nodes])
    assert report.collection[0].startswith("file-1: ")
    assert report.collection[0] in {finding.message for finding in verdict.findings}


def test_a_problem_is_said_in_a_few_words(bundle: Bundle) -> None:
    """Even where the file repeats a megabyte of nonsense as a key."""
    data = dump_plain({"schema_version": 1, "x" * 200_000: 1})

    assert len(_merged(bundle, data).collection[0]) <= 500


def test_a_node_of_another_attempt_is_kept_and_found(bundle: Bundle) -> None:
    """The verdict refuses it; the merge hides nothing."""
    report = _merged(bundle, _node(bundle, 0), _node(bundle, 1, attempt="a0"))
    messages = {finding.message for finding in decide(report, POLICY, builtin()).findings}

    assert any("sent a report of another attempt" in message for message in messages)


def test_merge_reports_a_node_named_in_two_files(bundle: Bundle) -> None:
    """Neither of two can be trusted."""
    report = _merged(bundle, _node(bundle, 0), _node(bundle, 1), _node(bundle, 1))
    messages = {finding.message for finding in decide(report, POLICY, builtin()).findings}

    assert "is named in 2 reports" in messages


def test_without_a_single_report_the_time_is_the_collectors(bundle: Bundle) -> None:
    """And nothing was observed."""
    report = _merged(bundle)

    assert (WHEN, (), ()) == (report.measured_at, report.nodes, report.observations)


def test_numbers_that_somebody_raised_are_in_the_report(bundle: Bundle) -> None:
    """As they were given; in a report of which none was raised nothing stands."""
    raised = replace(bundle, raised=("training.smoke.steps=200",))

    assert _merged(raised, _node(bundle, 0)).raised == ("training.smoke.steps=200",)
    assert b"raised" not in dump(_merged(bundle, _node(bundle, 0)))
