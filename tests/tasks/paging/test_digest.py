"""The digest of a fleet: the answer and the worst nodes for the owner, also where nothing is wrong, and never an incident."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tasks.gate_file.model import Gate
from tasks.gate_file.people import Notify, PagerDutyTable
from tasks.notifiers.base import Audience, NotifyError, PageKind, Severity
from tasks.notifiers.deliver import means_of
from tasks.notifiers.pagerduty import PagerDutyNotifier
from tasks.paging.digest import NODES, digest_of, send_digest
from tasks.reports.fleet.states import HOUR_S
from tasks.store.folder import FolderStore
from tasks.store.layout import PAGES
from tasks.store.node_rows import Standing
from tests.tasks.reports.fleet.test_states import GEMM, fleet, gate, node

GATE = cast(Gate, SimpleNamespace(name="prod", cluster=SimpleNamespace(name="c"), notify=Notify()))


def test_the_owner_reads_the_answer_and_the_worst_nodes(tmp_path: Path) -> None:
    """With the command that says more; the rest is counted."""
    store = FolderStore(tmp_path)
    bad = [
        node(f"n{place}", Standing.CONDEMNED, [replace(GEMM, subject=f"n{place}/rank-0")])
        for place in range(NODES + 2)
    ]
    page = digest_of(GATE, store, fleet(gate(HOUR_S, node("well"), *bad)))

    assert page.title.startswith("Fleet c: 1 of 13 nodes proven within 24 h; 12 condemned")
    assert (PageKind.DIGEST, Audience.OWNER, Severity.WARNING) == (page.kind, page.audience, page.severity)
    assert (NODES, 2) == (len(page.items), page.more_items)
    assert "n0 is condemned" in page.text and "computes wrong sums" in page.text
    assert "prelaunch fleet STORE --node n0" in page.text and "well is" not in page.text


def test_a_healthy_fleet_is_told_as_well_and_once_per_week(tmp_path: Path) -> None:
    """A digest that does not come is news; one of the same week is the same."""
    store = FolderStore(tmp_path)
    done = [send_digest(GATE, store, fleet(gate(HOUR_S, node("a")))) for _ in range(2)]

    assert [(), ()] == [one.failed for one in done]
    (key,) = store.list(PAGES)
    assert b"Fleet c: 1 of 1 node proven within 24 h" in (store.get(key) or b"")
    assert Severity.INFO is digest_of(GATE, store, fleet(gate(HOUR_S, node("a")))).severity


def test_a_fleet_of_which_nothing_is_known_is_a_warning(tmp_path: Path) -> None:
    """An empty list is not good news."""
    assert Severity.WARNING is digest_of(GATE, FolderStore(tmp_path), fleet()).severity


def test_no_incident_is_opened_for_a_digest(tmp_path: Path) -> None:
    """The next notifier is used instead."""
    store = FolderStore(tmp_path)
    notifier = PagerDutyNotifier(PagerDutyTable(), means_of(store))

    with pytest.raises(NotifyError, match="a digest is no incident"):
        notifier.send(digest_of(GATE, store, fleet()))
