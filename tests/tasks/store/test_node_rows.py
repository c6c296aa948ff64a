"""What is kept of each node of a gate: what the verdict says of it, by which it is recognised, and the same from an index."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import digest, dump
from checks.judge.trend.numbers import NodeIdentity
from checks.judge.trend.trend import follow
from checks.model import Cause, ErrorKind, Level, Outcome, Report
from checks.value_types import DecodeError
from tasks.store import node_rows
from tasks.store.folder import FolderStore
from tasks.store.history import known_nodes, listed, rebuild
from tasks.store.index import FILE, Index, history_of
from tasks.store.layout import nodes_key
from tasks.store.node_rows import (
    FIRST,
    NEWEST,
    GateNodes,
    Standing,
    is_accepted_gap,
    rows_of,
)
from tasks.store.records import KeptFinding, of
from tests.certified_machines import PastGate, judged_now, skips, steady
from tests.sample_reports import (
    POLICY,
    healthy,
    verdict_of,
    with_metric,
    with_row,
    without_node,
    wrong_sums,
)
from tests.tasks.kept_gates import gate_id, keep

UUIDS = {f"node-{node}": f"GPU-{node}a,GPU-{node}b" for node in range(9)}


def known(report: Report, driver: str = "570.1") -> Report:
    """The report of nodes with GPUs that are recognised."""
    nodes = tuple(
        replace(n, identity={**n.identity, "gpu_uuids": UUIDS[n.name], "driver": driver})
        for n in report.nodes
    )
    return replace(report, nodes=nodes)


def rows(
    report: Report, number: int = 0, when: str = "2026-11-21T09:00:00Z", cluster: str = "c"
) -> GateNodes:
    """What is kept of it."""
    made = replace(report, gate_id=gate_id(number))
    verdict = replace(
        of(verdict_of(made)), digests=replace(of(verdict_of(made)).digests, report=digest(dump(made)))
    )
    return rows_of(made, verdict, POLICY, gate_id(number), when, cluster)


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

    assert ("node-1", Standing.CANNOT_TELL, None, ()) == (
        row.node,
        row.standing,
        row.identity,
        made.checks[row.checks],
    )


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
    made = rows_of(report, of(verdict), history.policy, "now-2", "2026-11-21T09:00:00Z", "c")

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
    gap = KeptFinding(
        Level.WARN, Cause.EVIDENCE, "dcgm.policy", "node-0", "tool not installed on this node", "", True
    )

    assert is_accepted_gap(gap)
    assert not any(
        is_accepted_gap(replace(gap, level=level, cause=cause))
        for level, cause in itertools.product((Level.WARN, Level.FAIL), Cause)
        if (level, cause) != (Level.WARN, Cause.EVIDENCE)
    )


def test_a_clock_that_is_ahead_makes_no_proof_younger() -> None:
    """The time of the verdict is the latest that counts."""
    ahead = healthy()
    ahead = replace(
        ahead, nodes=tuple(replace(node, measured_at="2027-01-01T00:00:00Z") for node in ahead.nodes)
    )

    assert {1795251600.0} == {row.measured_at for row in rows(ahead, when="2026-11-21T09:00:00Z").nodes}


def test_ids_that_two_nodes_share_recognise_neither() -> None:
    """Two nodes of one host, as in a try-out."""
    shared = healthy()
    shared = replace(
        shared, nodes=tuple(replace(n, identity={**n.identity, "product_uuid": "same"}) for n in shared.nodes)
    )

    assert [()] * 2 == [row.identity and row.identity.keys for row in rows(shared).nodes]


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    """Equal, and refused where it is not whole or another gate's."""
    store, made = FolderStore(tmp_path), rows(wrong_sums(known(healthy(6, 2)), "node-1/rank-3"))
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


def month(store: FolderStore, gates: int = 9) -> None:
    """Nine days of six nodes: one is condemned once, one does not report twice, one gets another driver."""
    for number in range(gates):
        report = known(healthy(6, 2), "580.1" if number > 5 else "570.1")
        if number == 3:
            report = wrong_sums(report, "node-1/rank-3")
        if number in (4, 5):
            report = without_node(report, "node-5")
        report = replace(report, measured_at=f"2025-11-{21 + number:02}T08:00:00Z")
        keep(store, number, report)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """An index without rows."""
    return Index(tmp_path / FILE)


def test_an_index_says_of_the_nodes_what_the_store_says(index: Index, tmp_path: Path) -> None:
    """Filled gate by gate, rebuilt, or not there at all."""
    store = FolderStore(tmp_path / "store")
    month(store)
    gates = [found for number in range(9) if (found := node_rows.read(store, gate_id(number))) is not None]
    first = known_nodes(store, index, listed(store, index))
    rebuild(store, index)
    again = known_nodes(store, index, listed(store, index))
    broken = tmp_path / "broken.sqlite"
    broken.mkdir()
    without = known_nodes(store, Index(broken), listed(store, index))

    assert 9 == len(gates)
    assert (history_of(gates), ()) == (first.history, first.problems)
    assert first == again
    assert (first.history, ()) == (
        without.history,
        without.problems,
    ) and "unable to open database file" in without.index_problem


def test_of_many_gates_the_newest_and_the_first_are_read(index: Index, tmp_path: Path) -> None:
    """And the totals count all of them, whatever they say of a node; of other names and clusters nothing where one is named."""
    many = NEWEST + FIRST + 5
    proven, doubtful = known(healthy(2, 2)), known(wrong_sums(healthy(2, 2), "node-1/rank-3"))
    gates = [
        rows(
            doubtful if number % 3 else proven,
            number % 200,
            f"2026-{1 + number // 28:02}-{1 + number % 28:02}T09:00:00Z",
        )
        for number in range(many)
    ]
    gates = [replace(one, gate_id=f"g{number:03}", numbers=replace(one.numbers, gate_id=f"g{number:03}"))
             for number, one in enumerate(gates)]  # fmt: skip
    index.rebuild("d" * 32, (), iter(gates))
    found = index.nodes("d" * 32)

    assert history_of(gates) == found
    assert [*range(FIRST), *range(many - NEWEST, many)] == [int(gate.gate_id[1:]) for gate in found.gates]
    assert [("node-0", many), ("node-1", 22), ("node-1", many - 22)] == sorted(
        (total.key.node, total.count) for total in found.totals
    )
    newest = max(number for number in range(many) if number % 3)
    assert {f"g{newest:03}"} == {one.gate_id for one in found.findings}
    assert () == index.nodes("d" * 32, "other").totals
    assert () == index.nodes("d" * 32, node="node-7").gates
    assert {"node-1"} == {total.key.node for total in index.nodes("d" * 32, "c", "node-1").totals}
    index.rebuild("d" * 32, ())


def test_forgetting_and_other_stores(index: Index) -> None:
    """A gate that is removed leaves no row, and a store does not see another's."""
    index.write_nodes("e" * 32, [rows(wrong_sums(healthy()), 1), rows(healthy(), 2)])
    index.write_nodes("f" * 32, [rows(healthy(), 1)])
    index.write_nodes("e" * 32, [rows(wrong_sums(healthy()), 1)] * 2 + [rows(healthy(), 3)] * 2)
    index.forget("e" * 32, [gate_id(1)])

    assert {gate_id(2), gate_id(3)} == index.gates_with_nodes("e" * 32)
    assert () == index.nodes("e" * 32).findings
    assert {gate_id(1)} == index.gates_with_nodes("f" * 32)
    for name in ("e" * 32, "f" * 32):
        index.rebuild(name, ())


def test_a_gate_whose_nodes_were_not_kept_is_named(tmp_path: Path) -> None:
    """Nobody knows them, and none is invented."""
    store, index = FolderStore(tmp_path), Index(tmp_path / FILE)
    keep(store, 0, known(healthy()), nodes=False)
    found, done = known_nodes(store, index, listed(store, index)), rebuild(store, index)

    assert ((), found.problems, 0) == (found.history.totals, done.problems, done.with_nodes)
    assert "what it says of its nodes was not kept" in found.problems[0]


def test_many_gates_that_the_index_lacks_are_named_and_the_newest_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page does not read ten thousand files."""
    monkeypatch.setattr("tasks.store.history.UNINDEXED", 2)
    store, index = FolderStore(tmp_path), Index(tmp_path / FILE)
    month(store, 5)
    found = known_nodes(store, index, listed(store, index))

    assert (
        f"the nodes of 3 older gates are not in the index: prelaunch store index --rebuild {tmp_path}",
    ) == found.problems
    assert [gate_id(3), gate_id(4)] == [gate.gate_id for gate in found.history.gates]


def test_a_pass_that_was_used_again_measured_no_node(tmp_path: Path) -> None:
    """Its machines are as old as their measurement."""
    store, index = FolderStore(tmp_path), Index(tmp_path / FILE)
    keep(store, 0, healthy())
    keep(store, 1, healthy(), reused=gate_id(0))
    found = known_nodes(store, index, listed(store, index))

    assert ([gate_id(0)], ()) == ([gate.gate_id for gate in found.history.gates], found.problems)


def test_the_numbers_of_kept_gates_are_those_of_their_reports(tmp_path: Path) -> None:
    """A trend of what is kept is a trend of the reports."""
    store, index = FolderStore(tmp_path), Index(tmp_path / FILE)
    month(store)
    found = follow([gate.numbers for gate in known_nodes(store, index, listed(store, index)).history.gates])
    (changed,) = [one for one in found.machines if one.name == "node-3"]

    assert 9 == found.reports
    assert [("driver", "570.1", "580.1", gate_id(6))] == [
        (c.what, c.before, c.after, c.gate_id) for c in changed.changes
    ]


def test_changes_of_an_identity_are_only_what_both_could_read() -> None:
    """A driver that was unknown for a day has not changed."""
    one = NodeIdentity(("GPU a",), ("a",), {"driver": "570"})

    assert {} == one.changes_to(NodeIdentity(("GPU a",), (), {}))
    assert {"driver": ("570", "580")} == one.changes_to(
        NodeIdentity((), ("a",), {"driver": "580", "VBIOS": "1"})
    )
    assert {"GPUs": ("a", "a, b")} == one.changes_to(NodeIdentity((), ("a", "b"), {}))


@pytest.mark.parametrize(
    "harm",
    ["ALTER TABLE findings DROP COLUMN document", "UPDATE gates SET document = x'00'", "DELETE FROM shared"],
)
def test_of_a_damaged_index_nothing_is_believed(harm: str, tmp_path: Path) -> None:
    """The store says the same, more slowly, and the problem is named."""
    store, index = FolderStore(tmp_path), Index(tmp_path / FILE)
    month(store, 3)
    before = known_nodes(store, index, listed(store, index))
    with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        connection.execute(harm)
    found = known_nodes(store, index, listed(store, index))

    assert before.history == found.history and "remove the file if it is damaged" in found.index_problem
