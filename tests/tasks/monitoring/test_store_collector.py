"""Metrics about the gates in a store: what they say, and that nothing is served that was not read just now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from checks.model import Report
from checks.watch.families import FAMILIES, Source
from tasks.monitoring.fleet_pages import FleetPages
from tasks.monitoring.store_collector import StoreCollector
from tasks.store import records
from tasks.store.base import StoreUnreachable
from tasks.store.folder import FolderStore
from tasks.store.layout import nodes_key, record_key
from tests.sample_reports import healthy, wrong_sums
from tests.tasks.kept_gates import DAY_S, FIRST_S, gate_id, keep, record_for
from tests.tasks.monitoring.expositions import samples
from tests.waiting import until

Series = dict[tuple[str, str], float]


@dataclass
class Scraped:
    """A store, its collector, and what it logs."""

    store: FolderStore
    collector: StoreCollector
    log: list[str]

    def series(self) -> Series:
        """One scrape, as Prometheus would read it: family and labels to value."""
        found = Series()
        for sample in samples(self.collector.text()):
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[sample.name, labels] = sample.value
        return found


def scraped(store: FolderStore, **named: Any) -> Scraped:
    """A collector over the store."""
    log: list[str] = []
    return Scraped(store, StoreCollector(store, log.append, **named), log)


@pytest.fixture
def kept(tmp_path: Path) -> Scraped:
    """A GO, a NO-GO of the same two nodes a day later, and a GO of another cluster."""
    store = FolderStore(tmp_path / "store")
    keep(store, 0, healthy())
    keep(store, 1, wrong_sums(healthy()))
    keep(store, 2, healthy(nodes=3), cluster="other")
    return scraped(store)


def test_a_cluster_has_its_last_gate_and_its_nodes(kept: Scraped) -> None:
    """Answers by number, the last answer, when it measured, what was condemned, which nodes were declared and proven."""
    found = kept.series()
    c = 'cluster="c"'

    assert 1.0 == found["prelaunch_store_readable", ""]
    go, no_go, ask = (f'answer="{answer}",{c}' for answer in ("go", "no_go", "ask"))
    assert [1, 1, 0] == [found["prelaunch_store_gates", one] for one in (go, no_go, ask)]
    assert [0, 1] == [found["prelaunch_gate_answer", one] for one in (go, no_go)]
    assert (1, 0) == tuple(found["prelaunch_nodes_condemned", one] for one in (c, 'cluster="other"'))
    declared = [where for name, where in found if name == "prelaunch_declared_node" and "other" in where]
    assert [f'cluster="other",node="node-{number}"' for number in range(3)] == declared
    assert FIRST_S == found["prelaunch_node_proven_timestamp_seconds", f'{c},node="node-0"']


def test_every_family_is_one_of_the_list_and_every_one_of_the_list_is_served(kept: Scraped) -> None:
    """The list is what dashboards and rules are checked against."""
    names = {family.name for family in FAMILIES if family.source is Source.STORE}
    assert names == {name for name, _ in kept.series()}


def test_the_last_gate_measured_no_later_than_it_judged(kept: Scraped) -> None:
    """A node's clock that is a year ahead would hide for a year that no gate runs."""
    late = replace(healthy(), measured_at="2027-01-01T00:00:00+00:00")
    records.keep(kept.store, record_for(5, late, keep(kept.store, 5, healthy())))

    assert FIRST_S + 5 * DAY_S == kept.series()["prelaunch_gate_end_timestamp_seconds", 'cluster="c"']


def test_stages_are_the_times_between_begin_measurement_and_judgement(kept: Scraped) -> None:
    """The gate's id says when it began."""
    measured = replace(healthy(), measured_at="2025-11-26T08:10:00+00:00")
    record = record_for(5, measured, keep(kept.store, 5, measured))
    records.keep(kept.store, replace(record, judged_at="2025-11-26T08:10:07Z"))
    found = kept.series()

    labels = [f'cluster="c",stage="{stage}"' for stage in ("measure", "judge")]
    assert [600.0, 7.0] == [found["prelaunch_gate_stage_duration_seconds", one] for one in labels]


def test_the_re_test_of_a_node_has_no_metrics(kept: Scraped) -> None:
    """Its cluster never has another gate, which would be missed for ever. A cluster of a similar name has its own."""
    keep(kept.store, 3, wrong_sums(healthy()), cluster="c-retest-1a2b3c4d")
    keep(kept.store, 4, healthy(), cluster="c-retest-rack")
    labels = {label for family, label in kept.series() if family == "prelaunch_gate_end_timestamp_seconds"}

    assert {'cluster="c"', 'cluster="other"', 'cluster="c-retest-rack"'} == labels


def test_each_gate_file_of_a_cluster_declares_nodes(kept: Scraped) -> None:
    """A gate of one node does not make the others undeclared; a later gate of the same file does, and so do 90 days without one."""
    counts = []
    for number, nodes, file in ((3, 3, "another-file"), (4, 1, "another-file"), (5, 4, "renamed")):
        report = healthy(nodes=nodes)
        record = record_for(number, report, keep(kept.store, number, report))
        judged_at = "2026-03-01T00:00:00Z" if file == "renamed" else record.judged_at
        records.keep(kept.store, replace(record, gate=file, judged_at=judged_at))
        found = [where for name, where in kept.series() if name == "prelaunch_declared_node"]
        counts.append(sum('="c"' in where for where in found))

    assert [3, 2, 4] == counts


def test_a_node_is_proven_by_the_last_go_that_measured_it(kept: Scraped) -> None:
    """A later NO-GO proves nothing, and a GO without the node leaves its time as it was."""
    record = record_for(6, healthy(nodes=1), keep(kept.store, 6, healthy(nodes=1)))
    records.keep(kept.store, replace(record, measured_at="2025-11-27T07:00:00Z"))
    found = kept.series()

    first, second = (f'cluster="c",node="node-{i}"' for i in (0, 1))
    assert FIRST_S + 6 * DAY_S - 3600 == found["prelaunch_node_proven_timestamp_seconds", first]
    assert FIRST_S == found["prelaunch_node_proven_timestamp_seconds", second]


def test_a_gate_that_judges_again_is_served_with_its_last_verdict(kept: Scraped) -> None:
    """The nodes of the verdict before are no longer declared, and no longer proven."""
    read_at = {("prelaunch_store_read_timestamp_seconds", ""): 0.0}
    for report in (healthy(nodes=1), healthy(), wrong_sums(healthy()), healthy(nodes=3)):
        keep(kept.store, 2, report, cluster="other")
        assert scraped(kept.store).series() | read_at == kept.series() | read_at


def test_each_scrape_says_when_it_read_the_store(kept: Scraped, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an exporter which serves an old answer is noticed."""
    read = []
    for now in (1000.0, 2000.0):
        monkeypatch.setattr("tasks.monitoring.store_collector.time.time", lambda now=now: now)
        read.append(kept.series()["prelaunch_store_read_timestamp_seconds", ""])

    assert [1000.0, 2000.0] == read


ONLY = {("prelaunch_store_readable", ""): 0.0}


def broken(store: FolderStore) -> None:
    """A new record that is no record."""
    store.put(record_key(gate_id(9)), b"{}")


def emptied(store: FolderStore) -> None:
    """As a mount that is gone leaves it."""
    for key in store.list(""):
        store.delete(key)


@pytest.mark.parametrize("fault", [broken, emptied])
def test_an_unreadable_store_has_one_sample(kept: Scraped, fault: Callable[[FolderStore], None]) -> None:
    """Nothing of the scrape before is served again; the reason is logged once, and so is its end."""
    before = kept.series().keys()
    fault(kept.store)

    assert [ONLY, ONLY] == [kept.series(), kept.series()]
    assert 1 == len(kept.log)
    kept.store.delete(record_key(gate_id(9)))
    for number, report in ((0, healthy()), (1, wrong_sums(healthy())), (2, healthy(nodes=3))):
        keep(kept.store, number, report, cluster="other" if number == 2 else "c")
    assert before == kept.series().keys()
    assert "the store can be read again" == kept.log[-1]


class Slow(FolderStore):
    """A store that answers when it is allowed to."""

    allowed = threading.Event()

    def list(self, prefix: str) -> tuple[str, ...]:
        self.allowed.wait()
        return super().list(prefix)


@pytest.fixture
def slow(kept: Scraped) -> Iterator[Scraped]:
    """The same store behind a file server that hangs."""
    store = Slow(kept.store.root)
    store.allowed.clear()
    yield scraped(store, seconds=1.0)
    store.allowed.set()


def test_a_store_that_hangs_holds_no_scrape(slow: Scraped) -> None:
    """Not the first, nor those that come while it still hangs; when it answers again, all is there."""
    assert [ONLY, ONLY, ONLY] == [slow.series() for _ in range(3)]
    Slow.allowed.set()
    until(lambda: 1.0 == slow.series()["prelaunch_store_readable", ""], "the store answers")


def test_nodes_that_are_not_kept_count_as_left_out(kept: Scraped) -> None:
    """They are no nodes that nobody declared."""
    kept.store.delete(nodes_key(gate_id(2)))
    found = kept.series()

    assert (1.0, 3.0) == (found["prelaunch_store_readable", ""], found["prelaunch_store_series_omitted", ""])
    assert 0.0 == found["prelaunch_nodes_condemned", 'cluster="other"']


def test_a_gate_that_was_cut_short_counts_as_left_out(kept: Scraped) -> None:
    """Between its verdict and its record, or for ever: the metrics of all other gates stay, and nobody takes them for whole."""
    before = kept.series()
    keep(kept.store, 8, wrong_sums(healthy()), record=False)
    changed = {key[0]: value for key, value in kept.series().items() if value != before[key]}
    changed.pop("prelaunch_store_read_timestamp_seconds")

    assert ({"prelaunch_store_series_omitted": 1.0}, []) == (changed, kept.log)
    broken(kept.store)
    assert ONLY == kept.series() and "1 records are unreadable, the first is " in kept.log[0]


def many(nodes: int) -> Report:
    """A report of many nodes."""
    return healthy(nodes=nodes, ranks_per_node=1, network=False)


def test_the_number_of_series_is_bounded_and_said(tmp_path: Path) -> None:
    """What every cluster has is kept before any node."""
    store = FolderStore(tmp_path / "store")
    keep(store, 0, many(300))
    keep(store, 1, healthy(), cluster="other")
    found = scraped(store, most_series=100).series()

    assert 103 == len(found)
    assert 'cluster="other"' in {labels for _, labels in found}
    assert found["prelaunch_store_series_omitted", ""] == len(scraped(store).series()) - 103


def test_hostile_names_are_escaped_and_cut(tmp_path: Path) -> None:
    """A record is written on the flow's machine, and may come from another one all the same."""
    store = FolderStore(tmp_path / "store")
    keep(store, 0, healthy(), cluster=('a"b\\c\nd{}\x1b[31m' + "x" * 1000))
    names = {sample.labels.get("cluster", "") for sample in samples(scraped(store).collector.text())}

    assert 2 == len(names)
    [name] = names - {""}
    assert name.startswith('a"b\\c d{}') and len(name) <= 128 and "\x1b" not in name


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
    store.list = Mock(side_effect=StoreUnreachable("<b>no answer</b>"))  # type: ignore[method-assign]
    assert "CANNOT TELL: the store cannot be read: &lt;b&gt;no answer" in (served("/") or "")


def test_a_store_that_hangs_holds_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says so in time, and not each request leaves a thread behind."""
    monkeypatch.setattr("tasks.store.call_timeout.MOST_HUNG", 1)
    store, served = pages(tmp_path, 0.6)
    keep(store, 0, healthy())
    ends, begun = threading.Event(), list[str]()

    def hangs(prefix: str) -> tuple[str, ...]:
        begun.append(prefix)
        return ("x",) if ends.wait() else ()

    store.list = hangs  # type: ignore[method-assign]
    texts = [served("/") or "" for _ in range(2)]
    ends.set()

    assert all("the store does not answer" in text for text in texts)
    assert 1 == len(begun)
