"""What is kept of each node of a gate: what the verdict says of it, and by which it is recognised."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from checks.documents.report import digest, dump
from checks.judge.not_measured import is_accepted_gap
from checks.judge.trend.numbers import NodeIdentity
from checks.model import Cause, ErrorKind, Finding, Level, Outcome, Report
from checks.policy import CheckPolicy, Over, Rule
from checks.value_types import DecodeError
from tasks.reports.fleet.fleet import NodeState
from tasks.reports.fleet.states import fleet_of
from tasks.store import node_rows
from tasks.store.folder import FolderStore
from tasks.store.layout import nodes_key
from tasks.store.node_rows import GateNodes, Standing, rows_of
from tests.certified_machines import PastGate, judged_now, skips, steady
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric, with_row, without_node, wrong_sums
from tests.tasks.kept_gates import DAY_S, FIRST_S, gate_id, known_of

UUIDS = {f"node-{node}": f"GPU-{node}a,GPU-{node}b" for node in range(9)}


def known(report: Report, driver: str = "570.1") -> Report:
    """The report of nodes with GPUs that are recognised."""
    own = {n.name: {"gpu_uuids": UUIDS[n.name], "driver": driver} for n in report.nodes}
    nodes = tuple(replace(n, identity={**n.identity, **own[n.name]}) for n in report.nodes)
    return replace(report, nodes=nodes)


def rows(report: Report) -> GateNodes:
    """What is kept of it."""
    made = replace(report, gate_id=gate_id(0))
    verdict = replace(verdict_of(made), digests=replace(verdict_of(made).digests, report=digest(dump(made))))
    return rows_of(made, verdict, POLICY, gate_id(0), "2026-11-21T09:00:00Z", "c")


def standings(report: Report) -> dict[str, Standing]:
    """What the gate says of each node."""
    return {row.node: row.standing for row in rows(report).nodes}


def test_a_node_that_showed_everything_is_proven() -> None:
    """With the checks that were measured on it."""
    made = rows(healthy())

    assert {"node-0": Standing.PROVEN, "node-1": Standing.PROVEN} == standings(healthy())
    assert "compute.gemm" in made.checks[made.nodes[0].checks]


def test_another_nodes_fault_condemns_nobody_else() -> None:
    """The gate refuses, and the healthy node stays proven."""
    found = standings(wrong_sums(healthy(), "node-1/rank-3"))

    assert {"node-0": Standing.PROVEN, "node-1": Standing.CONDEMNED} == found


def test_a_declared_node_without_a_report_has_a_row() -> None:
    """Absence is no health: nobody can tell, and it has no identity."""
    made = rows(without_node(healthy(3, 2), "node-1"))
    row = made.nodes[1]

    assert ("node-1", Standing.CANNOT_TELL) == (row.node, row.standing)
    assert (None, ()) == (row.identity, made.checks[row.checks])


def test_a_check_that_did_not_measure_is_not_among_the_measured() -> None:
    """One rank of two is no measurement of the node."""
    broken = with_row(
        healthy(), "compute.gemm", "node-0/rank-1",
        lambda row: replace(row, outcome=Outcome.ERRORED, metrics={}, reason="it raised", error_kind=ErrorKind.RAISED),
    )  # fmt: skip
    made = rows(broken)

    assert Standing.CANNOT_TELL is made.nodes[0].standing
    assert ["compute.gemm" in made.checks[row.checks] for row in made.nodes] == [False, True]


def test_a_measurement_that_the_judge_does_not_trust_is_none() -> None:
    """Two rows of one rank: both say MEASURED, and the verdict that evidence is missing."""
    twice = healthy()
    (row,) = [o for o in twice.observations if (o.check, o.subject) == ("compute.gemm", "node-0/rank-0")]
    made = rows(replace(twice, observations=(*twice.observations, row)))

    assert [Standing.CANNOT_TELL, Standing.PROVEN] == [one.standing for one in made.nodes]
    assert ["compute.gemm" in made.checks[one.checks] for one in made.nodes] == [False, True]


def test_a_node_of_which_a_certificate_stands_for_a_check_is_no_new_proof() -> None:
    """Nor is it in doubt: what proves it is the gate that measured."""
    history = steady(1.0, (PastGate("first", 900.0),), gate_id="now-2")
    left_out = skips(history)
    report, verdict = judged_now(history, left_out)
    made = rows_of(report, verdict, history.policy, "now-2", "2026-11-21T09:00:00Z", "c")

    assert left_out
    assert [Standing.CERTIFIED] == [row.standing for row in made.nodes]
    assert left_out.isdisjoint(made.checks[made.nodes[0].checks])


def test_a_warning_is_a_doubt_and_a_failure_without_hardware_as_well() -> None:
    """Neither is proof, and neither condemns."""
    warned = with_metric(healthy(), "system.clock", "node-0", "synchronised", False)
    failed = with_metric(healthy(), "system.clock", "node-0", "wall_rate", 0.5)

    assert [Standing.DOUBTFUL, Standing.PROVEN] == list(standings(warned).values())
    assert [Standing.DOUBTFUL, Standing.PROVEN] == list(standings(failed).values())


def test_evidence_that_the_policy_does_without_is_no_doubt() -> None:
    """Otherwise no node of a fleet without an optional tool would ever be proven. Evidence that is required is missed as before."""
    gap = Finding(Level.WARN, Cause.EVIDENCE, "dcgm.policy", "node-0", "no tool", is_predicate=True)

    assert is_accepted_gap(gap)
    others = {*itertools.product((Level.WARN, Level.FAIL), Cause)} - {(Level.WARN, Cause.EVIDENCE)}
    assert not any(is_accepted_gap(replace(gap, level=level, cause=cause)) for level, cause in others)


def test_a_clock_that_is_ahead_makes_no_proof_younger() -> None:
    """The time of the verdict is the latest that counts."""
    nodes = tuple(replace(node, measured_at="2027-01-01T00:00:00Z") for node in healthy().nodes)
    ahead = replace(healthy(), nodes=nodes)

    assert {1795251600.0} == {row.measured_at for row in rows(ahead).nodes}


def test_ids_that_two_nodes_share_recognise_neither() -> None:
    """Two nodes of one host, as in a try-out."""
    nodes = tuple(replace(n, identity={**n.identity, "product_uuid": "same"}) for n in healthy().nodes)
    shared = replace(healthy(), nodes=nodes)

    assert [()] * 2 == [row.identity and row.identity.keys for row in rows(shared).nodes]


def test_node_rows_are_read_as_kept_and_refused_when_damaged(store: FolderStore) -> None:
    """Equal, and refused where it is not whole or another gate's."""
    made = rows(wrong_sums(known(healthy(6, 2)), "node-1/rank-3"))
    node_rows.keep(store, made)
    data = store.get(nodes_key(made.gate_id)) or b""

    assert made == node_rows.read(store, made.gate_id)
    assert None is node_rows.read(store, "other")
    store.put(nodes_key("other"), data)
    with pytest.raises(DecodeError, match="it has the nodes of gate"):
        node_rows.read(store, "other")
    table = json.loads(data)
    table["numbers"]["nodes"][0]["values"].pop()
    store.put(nodes_key(made.gate_id), json.dumps(table).encode())
    with pytest.raises(DecodeError, match="same length"):
        node_rows.read(store, made.gate_id)


def test_changes_of_an_identity_are_only_what_both_could_read() -> None:
    """A driver that was unknown for a day has not changed."""
    one = NodeIdentity(("GPU a",), ("a",), {"driver": "570"})

    assert {} == one.changes_to(NodeIdentity(("GPU a",), (), {}))
    newer = NodeIdentity((), ("a",), {"driver": "580", "VBIOS": "1"})
    assert {"driver": ("570", "580")} == one.changes_to(newer)
    assert {"GPUs": ("a", "a, b")} == one.changes_to(NodeIdentity((), ("a", "b"), {}))


@pytest.mark.parametrize(
    ("check", "metric", "proven_alone"),
    [("nccl.pairs", "", False), ("compute.gemm", "tflops", False), ("compute.gemm", "wrong_elements", True)],
)
@pytest.mark.parametrize(("first", "later"), [(4, 1), (4, 4), (1, 1), (2, 2)])
def test_what_only_peers_show_is_answered_by_a_gate_with_peers(
    first: int, later: int, check: str, metric: str, proven_alone: bool
) -> None:
    """A node alone shows what it had shown alone, and what it computes wrong; its speed among others only beside them."""
    fast = Rule("tflops", "peers", Over.FLEET, fail_below=0.9)
    exact = Rule("wrong_elements", "exact", equals=0)
    lines = {"nccl.pairs": CheckPolicy(min_ranks=2), "compute.gemm": CheckPolicy(rules=(fast, exact))}
    policy = replace(POLICY, checks=lines)
    bad = Finding(Level.FAIL, Cause.HARDWARE, check, "node-0", "is slow", metric=metric)

    def kept(number: int, nodes: int, findings: tuple[Finding, ...]) -> GateNodes:
        report = replace(healthy(nodes), gate_id=gate_id(number))
        names = [f"{node.name}/rank-{rank}" for node in report.nodes for rank in (0, 1)]
        row = next(row for row in report.observations if row.check == "compute.gemm")
        own = (replace(row, check=each, subject=name) for each in lines for name in names)
        report = replace(report, observations=tuple(own))
        verdict = replace(verdict_of(report), findings=findings, condemned=("node-0",) if findings else ())
        return rows_of(report, verdict, policy, gate_id(number), f"2025-11-2{number}T09:00:00Z", "c")

    both = fleet_of(known_of([kept(1, first, (bad,)), kept(2, later, ())]), FIRST_S + DAY_S, 9 * DAY_S).nodes
    (node,) = (one for one in both if one.name == "node-0")

    answered = proven_alone or first == later
    assert (answered, answered) == (node.state is not NodeState.CONDEMNED, not node.open)
