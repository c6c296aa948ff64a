"""What a report leaves out of its lists, and machines that are there twice. Each input once made a PASS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checks.facts.builtin import builtin
from checks.judge.completeness import is_whole
from checks.judge.verdict import decide
from checks.model import CLUSTER, Cause, Count, Finding, Level, Node, Observation, Report, Scope
from tests.catalogue_reports import catalogue_report, policy_of
from tests.sample_reports import with_metric, with_row

P5 = "p5.48xlarge"


def _findings(report: Report) -> Sequence[Finding]:
    return decide(report, policy_of(report.declared.instance_type), builtin()).findings


def _with_identity(kind: str, *shared: str, unread: str = "") -> Report:
    """Two nodes whose identities are alike in these keys and differ in all others, without the one that was not read."""
    keys = ("boot_id", "product_uuid", "gpu_uuids")

    def named(node: Node) -> Node:
        made = {key: f"{key}-{'one' if key in shared else node.name}" for key in keys}
        return replace(node, identity={**node.identity, **made, **({unread: ""} if unread else {})})

    report = catalogue_report(kind, 2)
    return replace(report, nodes=tuple(map(named, report.nodes)))


def _is_missing(found: Finding, check: str, subject: str) -> bool:
    evidence = (found.level, found.cause) == (Level.FAIL, Cause.EVIDENCE)
    return evidence and (found.check, found.subject) == (check, subject)


@pytest.mark.parametrize("check", ["gpu.ecc", "gpu.row_remap", "gpu.nvlink", "dcgm.diag", "dcgm.health"])
@pytest.mark.parametrize("how", ["shorter", "doubled"])
def test_a_gpu_that_a_list_leaves_out_was_not_looked_at(check: str, how: str) -> None:
    """Seven of eight in every array, or one of them twice: consistent, and no proof of the eighth."""

    def without_first(row: Observation) -> Observation:
        lists = {name: value for name, value in row.metrics.items() if isinstance(value, tuple)}
        shorter = {name: (*one[1:], *one[1 : 2 if how == "doubled" else 1]) for name, one in lists.items()}
        return replace(row, metrics={**row.metrics, **shorter})

    (found,) = _findings(with_row(catalogue_report(P5, 2), check, "node-1", without_first))

    assert _is_missing(found, check, "node-1") and "the check lists 7 of 8 GPUs" in found.message


@pytest.mark.parametrize(
    ("shared", "unread"),
    [("boot_id", ""), ("product_uuid", "boot_id"), ("product_uuid", "gpu_uuids"), ("gpu_uuids", "")],
)
@pytest.mark.parametrize("kind", [P5, "trn1.32xlarge"])
def test_machine_under_two_node_names_is_missing_evidence(kind: str, shared: str, unread: str) -> None:
    """Two agents on one host: the second machine was never looked at."""
    (found,) = _findings(_with_identity(kind, shared, unread=unread))

    assert (Level.FAIL, Cause.EVIDENCE, "node-1") == (found.level, found.cause, found.subject)
    assert "is the same machine as node-0" in found.message


@pytest.mark.parametrize(
    ("kind", "shared"), [(P5, ()), (P5, ("product_uuid",)), ("cpu", ("boot_id", "product_uuid"))]
)
def test_machines_that_differ_and_trials_on_one_host_are_no_twins(kind: str, shared: tuple[str, ...]) -> None:
    """Boards of one vendor may share an id. A gate without accelerators is tried out on one host."""
    assert () == _findings(_with_identity(kind, *shared))


def test_a_collection_of_a_hundred_thousand_problems_is_counted() -> None:
    """Nobody reads them, and a verdict does not take minutes for them."""
    report = replace(catalogue_report("cpu", 1), collection=tuple(f"node-{n}: gone" for n in range(100_000)))
    found = _findings(report)

    assert 1001 == len(found) and {CLUSTER} == {f.subject for f in found}
    assert any("99000 more things" in f.message for f in found)


def test_a_plan_that_asks_the_cluster_once_hides_no_node() -> None:
    """One edited word in the plan, and seven nodes of eight need not answer."""
    report = catalogue_report(P5, 2)
    plan = tuple(replace(p, scope=Scope.CLUSTER) if p.check == "gpu.ecc" else p for p in report.plan)
    rows = tuple(
        replace(row, subject=CLUSTER) if row.check == "gpu.ecc" else row
        for row in report.observations
        if (row.check, row.subject) != ("gpu.ecc", "node-1")
    )

    (found,) = _findings(replace(report, plan=plan, observations=rows))

    assert _is_missing(found, "gpu.ecc", CLUSTER)
    assert "the plan has scope cluster for this check, but the policy requires scope node" in found.message


@pytest.mark.parametrize(
    ("found", "whole"),
    [
        (("a", "b"), True),
        (("a",), False),
        (("a", "a"), False),
        (("b", "a"), False),
        (("a", "c"), False),
        (("a", "b", "c"), False),
        ((), False),
    ],
)
def test_subjects_are_whole_if_each_is_there_once_and_in_order(found: tuple[str, ...], whole: bool) -> None:
    """Nothing else is left to say of them."""
    assert whole is is_whole(found, frozenset({"a", "b"}))


def test_a_gpu_too_many_on_one_node_hides_none_that_another_one_lacks() -> None:
    """Nine and seven are not twice eight."""
    nine = with_metric(catalogue_report(P5, 2), "gpu.inventory", "node-0", "gpus_found", 9)
    seven = with_metric(nine, "gpu.inventory", "node-1", "gpus_found", 7)

    assert Count(15, 16) == decide(seven, policy_of(P5), builtin()).coverage.gpus


@pytest.mark.parametrize("more", ["values", "labels", "labels than one value alone"])
def test_lists_of_unequal_length_are_missing_evidence(more: str) -> None:
    """More values than labels as well as more labels than values."""
    name = "gpus" if more == "labels" else "ecc_current"

    def longer(row: Observation) -> Observation:
        held = row.metrics[name]
        assert isinstance(held, tuple)
        added = "GPU 8" if name == "gpus" else held[0]
        alone = added if "alone" in more else (*held, added)
        return replace(row, metrics={**row.metrics, name: alone})  # type: ignore[dict-item]

    found = _findings(with_row(catalogue_report(P5, 2), "gpu.ecc", "node-0", longer))

    assert {(Level.FAIL, Cause.EVIDENCE, "gpu.ecc")} == {(f.level, f.cause, f.check) for f in found}


@pytest.mark.parametrize(
    ("change", "said"), [("rank", "nodes have node rank 2"), ("surplus", "3 nodes reported")]
)
def test_nodes_that_nobody_declared_are_missing_evidence(change: str, said: str) -> None:
    """A rank as great as the number of nodes, which begin at 0, and one node more than there should be."""
    report = catalogue_report("cpu", 2)
    first, second = report.nodes
    surplus = replace(second, name="node-9", rank=1)
    nodes = (first, replace(second, rank=2)) if change == "rank" else (first, second, surplus)

    assert any(said in finding.message for finding in _findings(replace(report, nodes=nodes)))
