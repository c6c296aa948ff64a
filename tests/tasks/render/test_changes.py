"""What changed between two gates: machines, software, what they were judged with; and nothing where nothing did."""

from __future__ import annotations

from dataclasses import replace

from checks.model import Digests, Report
from tasks.render.changes import Changes, changes
from tests.sample_reports import healthy

DIGESTS = Digests("r" * 64, "a" * 64, "b" * 64, None, "0.1.0")


def _identified(report: Report, *changed: tuple[str, str, str]) -> Report:
    """Each node with firmware's id, GPUs and driver; `changed` are (node, key, value)."""
    nodes = []
    for node in report.nodes:
        mine = {
            "product_uuid": f"uuid-{node.rank}", "gpu_uuids": f"GPU-{node.rank}-0,GPU-{node.rank}-1", "driver": "570.1",
            "boot_id": "one",
        }  # fmt: skip
        mine |= {key: value for name, key, value in changed if name == node.name}
        nodes.append(replace(node, identity=mine))
    return replace(report, nodes=tuple(nodes))


def _made(before: Report, after: Report, digests: Digests = DIGESTS) -> Changes:
    link = "../g/report.html"
    return changes((before, DIGESTS), (after, digests), "g", "2026-11-21T08:00:00Z", link)


def _rows(made: Changes) -> list[tuple[str, str, str, str]]:
    return [(row.what, row.where, row.before, row.after) for row in made.rows]


def test_two_equal_gates_have_no_change() -> None:
    """A reboot is none."""
    report = _identified(healthy())
    made = _made(report, _identified(healthy(), ("node-0", "boot_id", "two")))

    assert () == made.rows
    assert "nothing was replaced or set differently" == made.said


def test_a_driver_and_a_gpu_that_were_replaced_are_named_once() -> None:
    """All nodes with the same change share a row; of a list only what differs is shown."""
    before = _identified(healthy(4, 1))
    drivers = [(f"node-{place}", "driver", "580.2") for place in range(4)]
    after = _identified(healthy(4, 1), *drivers, ("node-2", "gpu_uuids", "GPU-2-0,GPU-9-9"))

    assert [
        ("GPUs", "node-2", "GPU-2-1", "GPU-9-9"),
        ("driver", "4 nodes: node-0 ... node-3", "570.1", "580.2"),
    ] == sorted(_rows(_made(before, after)))


def test_a_machine_that_was_replaced_under_its_name_is_another_one() -> None:
    """Known by the firmware's id and the GPUs."""
    after = _identified(healthy(), ("node-1", "product_uuid", "uuid-7"), ("node-1", "gpu_uuids", "GPU-7"))

    assert [
        ("machines", "node-1", "there", "not there"), ("machines", "node-1", "not there", "there"),
    ] == _rows(_made(_identified(healthy()), after))  # fmt: skip


def test_what_it_was_judged_with_comes_first() -> None:
    """Policy, facts, baseline, version, size."""
    after = replace(DIGESTS, policy="c" * 64, baseline="d" * 64, engine="0.2.0")
    made = _made(healthy(2, 2), healthy(3, 2), after)

    assert [
        ("policy", "verdict", "a" * 12, "c" * 12), ("baseline", "verdict", "none", "d" * 12),
        ("Prelaunch", "verdict", "0.1.0", "0.2.0"), ("number of nodes", "gate", "2", "3"),
        ("machines", "node-2", "not there", "there"),
    ] == _rows(made)[:5]  # fmt: skip


def test_hostile_identities_are_inert() -> None:
    """Keys and values are text that a node wrote."""
    attack = "\x1b[2J<b>\u202e" * 3000
    after = _identified(healthy(), ("node-0", attack, attack), ("node-0", "driver", attack))
    rows = [
        text
        for row in _made(_identified(healthy()), after).rows
        for text in (row.what, row.before, row.after)
    ]

    assert 6 == len(rows) and max(map(len, rows)) <= 160
    assert not any("\x1b" in text or "\u202e" in text for text in rows)
