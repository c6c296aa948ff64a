"""The pages beside the metrics: made anew each time, and a store that cannot be read is said instead of an older page."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tasks.monitoring.fleet_pages import FleetPages
from tasks.store.base import StoreUnreachable
from tasks.store.folder import FolderStore
from tests.sample_reports import healthy, wrong_sums
from tests.tasks.kept_gates import DAY_S, FIRST_S, keep


def pages(folder: Path, seconds: float = 30.0) -> tuple[FolderStore, FleetPages]:
    """Of a store in a folder."""
    store = FolderStore(folder)
    return store, FleetPages(store, seconds)


def test_the_fleet_and_each_node_have_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a gate found since is on it; other paths have none."""
    monkeypatch.setattr("tasks.monitoring.fleet_pages.time.time", lambda: FIRST_S + 3 * DAY_S)
    store, served = pages(tmp_path)
    keep(store, 0, healthy())
    first = served("/") or ""
    keep(store, 1, wrong_sums(healthy()))
    second = served("/") or ""

    assert "0 of 2 nodes proven within 24 h; 2 unproven" in first
    assert "1 condemned" in second and "computes wrong sums" in second
    assert "computes wrong sums" in (served("/nodes/node-1") or "")
    assert [None] * 4 == [served(path) for path in ("/nodes/", "/nodes/other", "/x", "/nodes/../x")]


def test_a_store_that_does_not_answer_is_said(tmp_path: Path) -> None:
    """In a page that is no fleet."""
    store, served = pages(tmp_path)
    keep(store, 0, healthy())

    def gone(prefix: str) -> tuple[str, ...]:
        raise StoreUnreachable("<b>no answer</b>")

    store.list = gone  # type: ignore[method-assign]
    assert "CANNOT TELL: the store cannot be read: &lt;b&gt;no answer" in (served("/") or "")


def test_a_store_that_hangs_holds_no_browser(tmp_path: Path) -> None:
    """The page says so in time."""
    store, served = pages(tmp_path, 0.3)
    keep(store, 0, healthy())
    ends = threading.Event()
    store.list = lambda prefix: ("x",) if ends.wait() else ()  # type: ignore[method-assign]
    said = served("/") or ""
    ends.set()

    assert "it did not answer within 0.3 s" in said
