"""What a report leaves out of its lists, and machines that are there twice. Each input once made a PASS.

An element whose own outcome says that it was not measured has no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checks import model
from checks.documents.columns import CheckTable
from checks.facts.builtin import builtin
from checks.judge.completeness import defect_of, is_whole, judge_lists, unfit
from checks.judge.verdict import decide
from checks.policy import CheckPolicy, Over, Rule
from tests.catalogue_reports import catalogue_report, policy_of
from tests.sample_reports import healthy, with_metric, with_row

P5 = "p5.48xlarge"


def _findings(report: model.Report) -> Sequence[model.Finding]:
    return decide(report, policy_of(report.declared.instance_type), builtin()).findings


def _with_identity(kind: str, *shared: str, unread: str = "") -> model.Report:
    """Two nodes whose identities are alike in these keys and differ in all others, without the one that was not read."""
    keys = ("boot_id", "product_uuid", "gpu_uuids")

    def named(node: model.Node) -> model.Node:
        made = {key: f"{key}-{'one' if key in shared else node.name}" for key in keys}
        return replace(node, identity={**node.identity, **made, **({unread: ""} if unread else {})})

    report = catalogue_report(kind, 2)
    return replace(report, nodes=tuple(map(named, report.nodes)))


def _is_missing(found: model.Finding, check: str, subject: str) -> bool:
    evidence = (found.level, found.cause) == (model.Level.FAIL, model.Cause.EVIDENCE)
    return evidence and (found.check, found.subject) == (check, subject)


@pytest.mark.parametrize("check", ["gpu.ecc", "gpu.row_remap", "gpu.nvlink", "dcgm.diag", "dcgm.health"])
@pytest.mark.parametrize("how", ["shorter", "doubled"])
def test_a_gpu_that_a_list_leaves_out_was_not_looked_at(check: str, how: str) -> None:
    """Seven of eight in every array, or one of them twice: consistent, and no proof of the eighth."""

    def without_first(row: model.Observation) -> model.Observation:
        lists = {name: value for name, value in row.metrics.items() if isinstance(value, tuple)}
        shorter = {name: (*one[1:], *one[1 : 2 if how == "doubled" else 1]) for name, one in lists.items()}
        return replace(row, metrics={**row.metrics, **shorter})

    report = with_row(catalogue_report(P5, 2), check, "node-1", without_first)
    silent = replace(report, plan=tuple(replace(line, holds=()) for line in report.plan))
    # Whether or not the plan says what the lists hold.
    for (found,) in (_findings(report), _findings(silent)):
        assert _is_missing(found, check, "node-1") and "the check lists 7 of 8 GPUs" in found.message


def test_a_list_that_is_compared_place_by_place_is_as_long_as_the_labels_of_its_check() -> None:
    """A slow second device that falls off the list would else be nobody's."""
    line = CheckPolicy(
        rules=(Rule("lost", "s", equals=0, each="pairs"), Rule("rate_gbps", "s", Over.PEERS, warn_below=0.5))
    )
    metrics: dict[str, model.Value] = {"pairs": ("a", "b"), "lost": (0, 0), "rate_gbps": (9.0,)}
    rows = CheckTable.collect(
        "made.check", (model.Observation("made.check", "node-0", model.Outcome.MEASURED, 1.0, metrics),)
    )
    planned = model.Planned("made.check", model.Scope.NODE, ("pairs", "lost", "rate_gbps"))
    found = [*judge_lists(planned, rows, healthy(1, 2).declared, line)]

    assert ["not measured: rate_gbps has 1 values for 2 pairs"] == [finding.message for finding in found]


@pytest.mark.parametrize(
    ("shared", "unread"),
    [("boot_id", ""), ("product_uuid", "boot_id"), ("product_uuid", "gpu_uuids"), ("gpu_uuids", "")],
)
@pytest.mark.parametrize("kind", [P5, "trn1.32xlarge"])
def test_machine_under_two_node_names_is_missing_evidence(kind: str, shared: str, unread: str) -> None:
    """Two agents on one host: the second machine was never looked at."""
    (found,) = _findings(_with_identity(kind, shared, unread=unread))

    assert (model.Level.FAIL, model.Cause.EVIDENCE, "node-1") == (found.level, found.cause, found.subject)
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

    assert 1001 == len(found) and {model.CLUSTER} == {f.subject for f in found}
    assert any("99000 more things" in f.message for f in found)


def test_a_plan_that_asks_the_cluster_once_hides_no_node() -> None:
    """One edited word in the plan, and seven nodes of eight need not answer."""
    report = catalogue_report(P5, 2)
    plan = tuple(replace(p, scope=model.Scope.CLUSTER) if p.check == "gpu.ecc" else p for p in report.plan)
    rows = tuple(
        replace(row, subject=model.CLUSTER) if row.check == "gpu.ecc" else row
        for row in report.observations
        if (row.check, row.subject) != ("gpu.ecc", "node-1")
    )

    (found,) = _findings(replace(report, plan=plan, observations=rows))

    assert _is_missing(found, "gpu.ecc", model.CLUSTER)
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

    assert model.Count(15, 16) == decide(seven, policy_of(P5), builtin()).coverage.gpus


@pytest.mark.parametrize("more", ["values", "labels", "labels than one value alone"])
def test_lists_of_unequal_length_are_missing_evidence(more: str) -> None:
    """More values than labels as well as more labels than values."""
    name = "gpus" if more == "labels" else "ecc_current"

    def longer(row: model.Observation) -> model.Observation:
        held = row.metrics[name]
        assert isinstance(held, tuple)
        added = "GPU 8" if name == "gpus" else held[0]
        alone = added if "alone" in more else (*held, added)
        return replace(row, metrics={**row.metrics, name: alone})  # type: ignore[dict-item]

    found = _findings(with_row(catalogue_report(P5, 2), "gpu.ecc", "node-0", longer))

    assert {(model.Level.FAIL, model.Cause.EVIDENCE, "gpu.ecc")} == {
        (f.level, f.cause, f.check) for f in found
    }


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


CHECKS: dict[str, dict[str, model.Value]] = {
    "network.pairs": {"peers": ("b", "c"), "latency_us": (20.0, 21.0), "bandwidth_gbps": (5.0, 5.1)},
    "network.reachability": {"peers": ("b", "c"), "connect_ms": (0.2, 0.1), "refused": (0, 0)},
    "network.mtu": {"peers": ("b", "c"), "path_mtu_bytes": (9001, 9001), "narrowed_bytes": (0, 0), "full_size_lost": (0, 0)},
    "efa.pingpong": {"pairs": ("a", "b"), "rate_gbps": (11.0, 11.1), "latency_us": (16.0, 16.0), "acks_missing": (0, 0)},
}  # fmt: skip


def row(check: str, failures: tuple[str, ...], **metrics: model.Value) -> model.Observation:
    """A measurement of two elements."""
    return model.Observation(
        check, "a", model.Outcome.MEASURED, 1.0, {**CHECKS[check], "failures": failures, **metrics}
    )


def defect(one: model.Observation) -> str:
    """What is said of it, "" if it is fit to be judged."""
    planned = model.Planned(one.check, model.Scope.NODE, ("failures",))
    found = defect_of(one, planned)
    assert bool(found.value) == bool(unfit(planned, CheckTable.collect(one.check, (one,))))
    return f"{found.value} {found.reason}".strip()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("said", ["no answer", "reset by peer", "not run"])
def test_a_failed_element_with_a_number_is_not_measured(check: str, index: int, said: str) -> None:
    """Whichever it is, and whatever it says."""
    failures = ("ok", said) if index else (said, "ok")

    assert defect(row(check, failures)).endswith(
        f"[{index}] has a number, but its outcome says that it was not measured"
    )


@pytest.mark.parametrize("check", CHECKS)
def test_a_healthy_or_an_honest_row_is_judged(check: str) -> None:
    """All went well; or the second failed and has no numbers beside its counts."""
    failed = row(check, ("ok", "no answer"))
    measured: dict[str, model.Value] = {
        name: (value[0], None)  # type: ignore[misc]
        for name, value in CHECKS[check].items()
        if isinstance(value, tuple)
        and name.endswith(("_us", "_ms", "_gbps", "path_mtu_bytes", "narrowed_bytes"))
    }
    honest = replace(failed, metrics={**failed.metrics, **measured})

    assert ("", "") == (defect(row(check, ("ok", "ok"))), defect(honest))


SPOILT = {
    "impossible": row("network.mtu", ("ok", "ok"), narrowed_bytes=(-1e9, 0), path_mtu_bytes=(-1e9, 9001)),
    "empty": row("network.mtu", ("ok", "ok"), peers=(), path_mtu_bytes=()),
    "a number that was not measured": row("network.pairs", ("ok", "no answer")),
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_the_order_of_the_metrics_does_not_change_the_defect(spoilt: model.Observation) -> None:
    backwards = dict(reversed([*spoilt.metrics.items()]))

    assert defect(spoilt) == defect(replace(spoilt, metrics=backwards)) != ""
