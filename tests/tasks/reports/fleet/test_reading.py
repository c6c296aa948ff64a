"""What a pruning must leave: the last proof, the newest gate and every open finding of each machine, and what nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.model import Report
from tasks.reports.fleet.reading import UNKNOWN, needed_gates, read_fleet
from tasks.store.folder import FolderStore
from tasks.store.history import rebuild, rebuild_command
from tasks.store.prune import planned, remove
from tests.sample_reports import POLICY, healthy, without_node, wrong_sums
from tests.tasks.kept_gates import DAY_S, FIRST_S, gate_id, keep

NOW = FIRST_S + 300 * DAY_S


def dated(number: int, report: Report) -> Report:
    """The report of that day."""
    return replace(report, measured_at=f"2025-11-{21 + number:02}T08:00:00Z")


def test_the_last_proof_and_the_open_finding_of_each_machine_stay(store: FolderStore) -> None:
    """Whatever their age; what is older than both may go."""
    for number in range(6):
        report = healthy(3, 2)
        report = wrong_sums(report, "node-1/rank-3") if number == 3 else report
        keep(store, number, dated(number, without_node(report, "node-1") if number > 3 else report))
    needed = needed_gates(store, NOW)

    assert {
        gate_id(2): "it is the last proof of node-1",
        gate_id(3): "a finding about node-1 is open since then",
        gate_id(4): "a finding about node-1 is open since then",  # it sends no report since then
        gate_id(5): "it is the last proof of node-2",
    } == {key: why.replace("node-0", "node-2") for key, why in needed.items()}


def test_pruning_makes_no_machine_look_better(store: FolderStore) -> None:
    """The same answer about every machine before and after all that may go has gone, and after the history is merged anew."""
    for number in range(8):
        report = healthy(3, 2)
        report = wrong_sums(report, "node-1/rank-3") if number in (2, 4) else report
        keep(store, number, dated(number, without_node(report, "node-2") if number > 5 else report))

    def told() -> list[tuple[object, ...]]:
        found = read_fleet(store, NOW)
        assert () == found.problems
        return [(one.name, one.state, one.last_proof, one.open, one.gates[-1].gate_id) for one in found.nodes]

    before = told()
    plan = planned(store, 1, False, NOW, needed_gates(store, NOW))
    remove(store, plan.old)

    assert plan.old and before == told()
    rebuild(store)
    assert before == told()


def with_gpus(report: Report, machine: str, driver: str = "570.1") -> Report:
    """The report with GPUs of their own in each node."""
    own = {n.name: {"gpu_uuids": f"GPU-{machine}-{n.name}", "driver": driver} for n in report.nodes}
    nodes = tuple(replace(n, identity={**n.identity, **own[n.name]}) for n in report.nodes)
    return replace(report, nodes=nodes)


@pytest.mark.parametrize("driver", ["570.1", "580.1"])
def test_pruning_makes_no_machine_look_worse(store: FolderStore, driver: str) -> None:
    """What measured a failure away stays beside the gate that refused for it, although later proofs did not measure its check, its
    repair changed the driver, and nodes of another cluster have the same names.
    """
    checks = {one: line for one, line in POLICY.checks.items() if one != "collective.all_reduce"}
    few = replace(POLICY, checks=checks)
    for number in range(4):
        report = dated(number, wrong_sums(healthy(3, 2), "node-1/rank-3") if number == 0 else healthy(3, 2))
        if number > 1:
            rows = tuple(row for row in report.observations if row.check in checks)
            plan = tuple(row for row in report.plan if row.check in checks)
            report = replace(report, observations=rows, plan=plan)
        own = with_gpus(report, "c", driver if number else "570.1")
        keep(store, number, own, few if number > 1 else POLICY)
    keep(store, 4, with_gpus(dated(4, healthy(3, 2)), "d"), cluster="d")
    before = [(one.name, one.state, one.open) for one in read_fleet(store, NOW).nodes]
    pruning = planned(store, 1, True, NOW, needed_gates(store, NOW))
    remove(store, pruning.old)
    rebuild(store)

    assert [gate_id(2)] == [one.gate_id for one in pruning.old]
    assert before == [(one.name, one.state, one.open) for one in read_fleet(store, NOW).nodes]


def test_a_report_whose_nodes_nobody_knows_stays(store: FolderStore) -> None:
    """It may have a last proof."""
    for number in range(2):
        keep(store, number, dated(number, healthy()), nodes=False)

    said = f"{UNKNOWN}: {rebuild_command(store)}"
    assert {gate_id(0): said, gate_id(1): said} == needed_gates(store, NOW)


def test_a_machine_that_was_replaced_needs_nothing(store: FolderStore) -> None:
    """Else the gates of machines that are rented for a day would stay for ever."""
    for number in range(3):
        keep(store, number, with_gpus(dated(number, healthy()), str(number)))

    assert {gate_id(2)} == needed_gates(store, NOW).keys()
