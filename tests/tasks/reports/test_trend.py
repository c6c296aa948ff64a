"""The trend of a cluster as a page shows it: its own last gates, bounded, and what could not be read is said."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from checks.documents.report import digest, dump
from checks.model import Answer, Digests, Report
from checks.policy import Policy
from tasks.render.context import NO_CONTEXT
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.reports import trend
from tasks.reports.trend import Ends, past_of
from tasks.store import records
from tasks.store.base import Store, StoreUnreachable
from tasks.store.layout import nodes_key, record_key
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric, wrong_sums
from tests.tasks.kept_gates import gate_id, keep


def _day(number: int, report: Report) -> Report:
    return replace(report, gate_id=gate_id(number), measured_at=f"2025-11-{21 + number:02}T08:00:00Z")


def _slower(number: int) -> Report:
    """A GEMM that falls by a tenth of its start a day."""
    return _day(number, with_metric(healthy(), "compute.gemm", "node-0/rank-0", "gflops", 40.0 - 4 * number))


MANY = 9 + 5


def _slow_node(number: int) -> Report:
    """Six nodes, of which one is slow after nine days."""
    value = 40.0 if number < 9 else 20.0
    made = with_metric(healthy(6, 2), "compute.gemm", "node-0/rank-0", "gflops", value)
    day = f"2025-{11 + number // 9}-{21 + number % 9:02}"
    return replace(made, gate_id=gate_id(number), measured_at=f"{day}T08:00:00Z")


def _this(number: int, report: Report) -> tuple[Report, Digests, Policy, str, Ends]:
    report = replace(report, gate_id=gate_id(number))
    return report, Digests(digest(dump(report)), "", "", None, ""), POLICY, "c", lambda store, gate_ids: {}


def test_the_clusters_gates_are_there_oldest_first(store: Store) -> None:
    """With what each said; another cluster's, and later ones, are not."""
    for number, report in enumerate([healthy(), wrong_sums(healthy()), healthy(), healthy()]):
        keep(store, number, _day(number, report))
    keep(store, 4, healthy(), cluster="other")
    past = past_of(store, *_this(2, _day(2, healthy())))

    assert [gate_id(i) for i in range(3)] == [gate.gate_id for gate in past.gates]
    assert [Answer.GO, Answer.NO_GO, Answer.GO] == [gate.answer for gate in past.gates]
    assert [False, False, True] == [gate.is_this for gate in past.gates]
    assert "computes wrong sums" in past.gates[1].finding
    assert "3 gates, 2 go, 1 no-go" == past.summary


def test_a_number_that_falls_is_named_first(store: Store) -> None:
    """Fourteen reports of the same machines; page and summary say it."""
    for number in range(MANY):
        keep(store, number, _slow_node(number))
    report = _slow_node(MANY - 1)
    past = past_of(store, *_this(MANY - 1, report))
    shown = replace(NO_CONTEXT, past=past)

    assert "compute.gemm" in past.worse[0]
    assert (MANY, ()) == (past.reports, past.problems)
    assert "gets worse" in html(report, verdict_of(report), "local", shown)
    assert "Gets worse: node-0: compute.gemm" in markdown(report, verdict_of(report), "local", shown)


def test_a_short_history_is_called_short(store: Store) -> None:
    """Two reports make no trend."""
    keep(store, 0, _slower(0))
    past = past_of(store, *_this(1, _slower(1)))

    assert () == past.worse
    assert ("2 reports could be compared: a trend needs 11 of the same machines.",) == past.problems


def test_trend_reports_what_it_could_not_read(store: Store) -> None:
    """Nodes that are not kept, a broken file of nodes, a record that is none: the others are shown."""
    for number in range(4):
        keep(store, number, _slower(number))
    store.delete(nodes_key(gate_id(0)))
    store.put(nodes_key(gate_id(1)), b"{")
    store.put(record_key(gate_id(2)), b"[]")
    past = past_of(store, *_this(3, _slower(3)))
    said = " ".join(past.problems)

    assert [gate_id(3)] == [gate.gate_id for gate in past.gates]
    assert f"{record_key(gate_id(2))}: " in said and "was not kept and 1 more" in said


def test_a_store_that_does_not_answer_is_on_the_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """No history is not a healthy history."""

    def gone(store: Store) -> tuple[str, ...]:
        raise StoreUnreachable("no answer")

    monkeypatch.setattr(records, "recorded", gone)
    past = past_of(store, *_this(0, healthy()))
    page = html(healthy(), verdict_of(healthy()), "local", replace(NO_CONTEXT, past=past))

    assert ("Earlier gates could not be read: no answer",) == past.problems
    assert "Earlier gates could not be read: no answer" in page


def test_trend_ends_at_its_time_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that hangs: no older report is shown, and that is said."""
    ends = threading.Event()
    monkeypatch.setattr(records, "recorded", lambda store: ("x",) if ends.wait() else ())
    monkeypatch.setattr(trend, "SECONDS", 0.1)
    past = past_of(store, *_this(2, _slower(2)))
    ends.set()

    assert (("Earlier gates could not be read within 0.1 s",), ()) == (past.problems, past.gates)


def test_trend_counts_a_reused_report_once(store: Store) -> None:
    """A gate that stood on an earlier one's PASS has no report of its own."""
    report = _day(0, healthy())
    keep(store, 0, report)
    keep(store, 1, report, reused=gate_id(0))
    past = past_of(store, *_this(0, report))

    assert 1 == past.reports


def test_trend_page_shows_changes_since_the_last_go(store: Store) -> None:
    """The driver of a machine and the policy; a refused gate in between is no GO."""
    for number, report in enumerate([healthy(), wrong_sums(healthy())]):
        keep(store, number, _day(number, report))
    nodes = [replace(node, identity={**node.identity, "driver": "580"}) for node in healthy().nodes]
    this = replace(_day(2, healthy()), nodes=tuple(nodes))
    digests = replace(keep(store, 2, this).digests, policy="f" * 64)
    past = past_of(store, this, digests, *_this(2, this)[2:])
    page = html(this, verdict_of(this), "local", replace(NO_CONTEXT, past=past))

    assert any(line.startswith("policy ") for line in past.changed)
    assert any("driver" in line and line.endswith("-> 580") for line in past.changed)
    assert "What changed since the last GO" in page


def test_the_page_links_to_the_gate_before(store: Store) -> None:
    """Whatever that one answered."""
    keep(store, 0, wrong_sums(healthy()))
    keep(store, 1, _slower(1))
    past = past_of(store, *_this(1, _slower(1)))
    page = html(_slower(1), verdict_of(_slower(1)), "local", replace(NO_CONTEXT, past=past))

    assert f'<a href="../{gate_id(0)}/report.html">Previous gate</a>: {gate_id(0)}, NO-GO' in page
