"""The lists of verdicts, and the merged history of nodes, which can always be made again from the rows of the gates."""

from __future__ import annotations

import threading
from dataclasses import replace
from unittest.mock import Mock

import pytest

from checks.documents.report import dump_plain
from checks.judge.trend.trend import follow
from checks.model import Report
from tasks.reports.fleet.states import fleet_of
from tasks.store import history
from tasks.store.base import StoreUnwritable
from tasks.store.folder import FolderStore
from tasks.store.history import known_nodes, listed, newest_records, rebuild, rebuild_command
from tasks.store.layout import history_key, nodes_key, policy_key, record_key, report_key
from tasks.store.node_history import FIRST, NEWEST, ClusterHistory, merged_history
from tests.sample_reports import POLICY, healthy, without_node, wrong_sums
from tests.tasks.kept_gates import DAY_S, FIRST_S, gate_id, keep, known_of
from tests.tasks.store.test_node_rows import known, rows

NOW = FIRST_S + 10 * DAY_S


def day(number: int) -> Report:
    """Six nodes: one is condemned once, one does not report twice, all get another driver."""
    report = known(healthy(6, 2), "580.1" if number > 5 else "570.1")
    report = wrong_sums(report, "node-1/rank-3") if number == 3 else report
    report = without_node(report, "node-5") if number in (4, 5) else report
    return replace(report, measured_at=f"2025-11-{21 + number:02}T08:00:00Z")


def month(store: FolderStore, gates: int = 9) -> None:
    """So many days."""
    for number in range(gates):
        keep(store, number, day(number))


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"schema_version":9}', b"a copy"])
def test_a_record_that_cannot_be_read_is_named(store: FolderStore, data: bytes) -> None:
    """The list is not taken for whole. A copied file is no verdict."""
    keep(store, 0, healthy())
    copied = store.get(record_key(gate_id(0))) or b""
    store.put(record_key("other"), copied if data == b"a copy" else data)
    found = listed(store)

    assert ([gate_id(0)], 1) == ([one.gate_id for one in found.records], len(found.problems))
    assert "records/other.json" in found.problems[0]


def test_a_verdict_without_a_record_is_named_and_a_gate_without_one_is_fine(store: FolderStore) -> None:
    """The first was killed in between, and nobody makes a record up; the second had no capacity."""
    keep(store, 0, healthy(), record=False)
    store.put(f"gates/{gate_id(1)}/outcome.json", b"{}")
    found, done = listed(store), rebuild(store)

    assert ((gate_id(1),), found.problems, 0) == (found.unjudged, done.problems, done.rows)
    assert found.problems == known_nodes(store).problems
    assert [f"{gate_id(0)}: it has a verdict, and no record: it was cut short"] == [*found.problems]


def test_rebuilding_names_a_report_that_is_gone(store: FolderStore) -> None:
    """Its verdict stays in the list."""
    keep(store, 0, healthy())
    store.delete(report_key(gate_id(0)))
    done = rebuild(store)

    assert (1, 1) == (done.rows, done.with_nodes) and "its report is gone" in done.problems[0]


def test_gates_come_by_time(store: FolderStore) -> None:
    """Whatever their names are; those without a time first. The newest ones are read first, and no others."""
    for name in ("z-20261121-080000-0000", "a-20261122-080000-0000", "b"):
        store.put(f"gates/{name}/x", b"")
    for number in range(3):
        keep(store, number, healthy())

    others = [name for name in history.kept_gates(store) if not name.startswith("sample")]
    assert ["b", "z-20261121-080000-0000", "a-20261122-080000-0000"] == others
    assert [gate_id(2), gate_id(1), gate_id(0)] == [one.gate_id for one in newest_records(store, [])]


def test_the_history_is_the_same_in_whichever_way_it_was_made(store: FolderStore) -> None:
    """Gate by gate, all at once, newest first, or again from a document that somebody damaged."""
    for number in range(9):
        keep(store, number, day(number))
        known_nodes(store)
    first = known_nodes(store)
    gates = first.gates
    pure = known_of(gates), known_of(gates[::-1])
    damaged = []
    for data in (b"{", b"{}", dump_plain(ClusterHistory(cluster="other"))):
        store.put(history_key("c"), data)
        damaged.append(known_nodes(store))
    rebuild(store)
    ways = (*pure, *damaged, known_nodes(store))

    assert 9 == len(gates) == first.count and () == first.problems
    assert all(fleet_of(first, NOW, 1e9).nodes == fleet_of(way, NOW, 1e9).nodes for way in ways)


def test_history_keeps_the_newest_the_first_and_the_last_proof_of_many_gates() -> None:
    """All are counted, whatever they say of a node. The newest finding of a kind is kept, in whichever order they come."""
    many = NEWEST + FIRST + 9
    proven, doubtful = rows(known(healthy(2, 2))), rows(known(wrong_sums(healthy(2, 2), "node-1/rank-3")))
    bases = [proven if number in (0, FIRST + 3) else doubtful for number in range(many)]
    days = [f"2026-{1 + number // 28:02}-{1 + number % 28:02}T09:00:00Z" for number in range(many)]
    pairs = enumerate(zip(bases, days, strict=True))
    gates = [replace(base, gate_id=f"g{number:03}", judged_at=day) for number, (base, day) in pairs]
    judged = {one.gate_id: one.judged_at for one in gates}
    found, other = (merged_history(ClusterHistory(), judged, some) for some in (gates, gates[::-1]))
    healthy_node, bad_node = found.nodes

    assert (many, many) == (healthy_node.count, bad_node.count)
    assert (f"g{many - 1:03}", f"g{FIRST + 3:03}") == (healthy_node.proven, bad_node.proven)
    assert [*range(FIRST), FIRST + 3, *range(many - NEWEST, many)] == [int(one[1:]) for one in bad_node.gates]
    assert {f"g{many - 1:03}"} == {one.gate_id for one in bad_node.findings}
    for one, same in zip(found.nodes, other.nodes, strict=True):
        assert (one.key, one.gates, one.findings) == (same.key, same.gates, same.findings)


def test_rows_that_a_gate_could_not_keep_are_made_again_of_its_report(store: FolderStore) -> None:
    """Its readers name it until then. None are invented where the report is gone too, or of a PASS that was used again."""
    keep(store, 0, known(healthy()), cluster="c-retest-0a1b2c3d", nodes=False)
    keep(store, 1, healthy(), nodes=False)
    keep(store, 2, healthy(), reused=gate_id(1))
    for number in (0, 1):
        store.put(policy_key(gate_id(number)), dump_plain(POLICY))
    store.delete(report_key(gate_id(1)))
    before, done, after = known_nodes(store), rebuild(store), known_nodes(store)
    made_again = store.get(nodes_key(gate_id(0)))
    keep(store, 0, known(healthy()))

    assert ((), frozenset((gate_id(0), gate_id(1))), 2) == (before.gates, before.unread, len(before.problems))
    assert all("what it says of its nodes was not kept" in problem for problem in before.problems)
    assert ([gate_id(0)], frozenset((gate_id(1),))) == ([gate.gate_id for gate in after.gates], after.unread)
    assert (1, made_again) == (done.with_nodes, store.get(nodes_key(gate_id(0))))


def test_many_gates_that_the_history_lacks_are_named_and_the_newest_are_read(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page does not read ten thousand files. The next one reads the next ones."""
    monkeypatch.setattr("tasks.store.history.MOST_LACKING", 2)
    month(store, 5)
    found, later = known_nodes(store), [known_nodes(store) for _ in range(3)][-1]

    assert (f"3 older gates are not in the history of the nodes: {rebuild_command(store)}",) == found.problems
    assert [gate_id(3), gate_id(4)] == [gate.gate_id for gate in found.gates]
    assert (5, ()) == (later.count, later.problems)


def test_history_shows_no_gates_whose_records_are_gone(store: FolderStore) -> None:
    """Their places in the history stay; who removed the records of all gates of a machine knows of none."""
    month(store, 3)
    known_nodes(store)
    for number in range(3):
        store.delete(record_key(gate_id(number)))
    found = known_nodes(store, whole=False)

    assert ((), 0, ()) == (found.gates, found.count, fleet_of(found, NOW, 1e9).nodes)


def test_another_start_of_the_newest_gate_has_its_verdict(store: FolderStore) -> None:
    """It replaces what the first one said of the nodes, which may be on other machines now."""
    month(store, 3)
    keep(store, 3, known(wrong_sums(healthy(6, 2), "node-1/rank-3")))
    first = fleet_of(known_nodes(store), NOW, 1e9)
    keep(store, 3, known(healthy(6, 2), "580.1"))
    again = fleet_of(known_nodes(store), NOW, 1e9)

    states = [{node.state.value for node in one.nodes} for one in (first, again)]
    assert [{"condemned", "proven"}, {"proven"}] == states
    assert not any(node.open for node in again.nodes)


def test_history_is_read_for_one_cluster_or_one_node(store: FolderStore) -> None:
    """And the trend of what is kept is that of the reports."""
    month(store)
    keep(store, 9, known(healthy(2, 2)), cluster="other")
    one, mine = known_nodes(store, "c", "node-3"), known_nodes(store, "c")
    machines = follow([gate.numbers for gate in mine.gates]).machines
    (changed,) = (machine for machine in machines if machine.name == "node-3")

    assert ({"node-3"}, 9) == ({row.node for gate in one.gates for row in gate.nodes}, one.count)
    assert 10 == known_nodes(store).count and 6 == len(mine.gates[0].nodes)
    (change,) = changed.changes
    assert ("driver", "570.1", "580.1") == (change.what, change.before, change.after)
    assert gate_id(6) == change.gate_id


def test_history_is_readable_without_permission_to_write(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An auditor sees the verdicts and nodes all the same; rows that are damaged afterwards are named."""
    month(store, 2)
    monkeypatch.setattr(store, "put", Mock(side_effect=StoreUnwritable("it cannot be written")))
    assert (2, ()) == (known_nodes(store).count, known_nodes(store).problems)
    monkeypatch.undo()
    known_nodes(store)
    store.put(nodes_key(gate_id(1)), b"{")
    store.delete(nodes_key(gate_id(0)))
    assert "what it says of its nodes was not kept" in " ".join(known_nodes(store).problems)
    month(store, 1)
    found = known_nodes(store)

    assert f"nodes/{gate_id(1)}.json: " in found.problems[0]
    assert [gate_id(0)] == [one.gate_id for one in found.gates]


def test_gates_that_end_at_once_lose_nothing(store: FolderStore) -> None:
    """Four write their verdicts, and each replaces the history that the others made."""

    def write(first: int) -> None:
        for number in range(first, first + 3):
            keep(store, number, healthy())
            known_nodes(store)

    writers = [threading.Thread(target=write, args=(3 * number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert [gate_id(number) for number in range(12)] == [one.gate_id for one in known_nodes(store).gates]
    assert () == known_nodes(store).problems
