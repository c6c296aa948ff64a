"""What a gate keeps of a verdict that another verdict of the same gate replaces: no server, no job."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.documents.report import digest, dump, dump_plain, load
from checks.judge.verdict import decide
from checks.model import Answer, Report
from tasks.gate.outcome import Ending, GateOutcome, with_ending
from tasks.gate.question import ApprovalAnswer
from tasks.gate.record.end import kept_end
from tasks.gate_file.model import Mode
from tasks.judge import report_verdict, reuse_pass
from tasks.launchers.base import JobState, JobStatus
from tasks.publish import store_report
from tasks.remedy import cases_of_gate, last_refused
from tasks.render.findings import verdict_json
from tasks.render.markdown import markdown
from tasks.reports.fleet.fleet import NodeState
from tasks.reports.fleet.reading import read_fleet
from tasks.store import records
from tasks.store.base import Store, StoreUnreachable
from tasks.store.history import listed, newest_records, rebuild
from tasks.store.layout import html_key, log_key, report_key, verdict_key
from tasks.store.records import Record
from tests.sample_reports import FACTS, POLICY, healthy, without_node, wrong_sums
from tests.tasks.sessions import CHECK_JOB, TRAIN_JOB, FakeEngine, answer, session

GATE = "local-20261123-083000-1f3a"
BAD, WELL = wrong_sums(healthy()), healthy(nodes=1)
OVERRIDE = answer()


@pytest.fixture
def publishing(tmp_path: Path) -> Any:
    """The session of a gate."""
    made: Any = session(tmp_path)
    made.gate_id = GATE
    return made


def publish(session: Any, *reports: Report) -> None:
    """The verdicts of a gate on these reports, one after the other."""
    for report in reports:
        store_report(session, report_verdict(session, replace(report, gate_id=session.gate_id)))


def test_a_page_says_what_comes_next(publishing: Any) -> None:
    """The training, while the gate has not ended; and of a silent node, where its log is."""
    well = report_verdict(publishing, healthy())
    lost = report_verdict(publishing, without_node(healthy(), "node-1"))
    ended: Any = with_ending(GateOutcome(GATE, Ending.CANCELLED, None, well, None, "x"), "local")
    first, *others = (
        markdown(each.report, each.verdict, "local", each.context) for each in (well, lost, ended.judged)
    )

    assert "The training may start now." in first and "may start now" not in "".join(others)
    path = publishing.context.store.location(log_key(GATE, CHECK_JOB, "node-1"))
    assert f"The log of node-1: {path}." in others[0]


@pytest.mark.parametrize(
    ("mode", "given", "refused"),
    [(Mode.ENFORCE, None, True), (Mode.ENFORCE, OVERRIDE, False), (Mode.OBSERVE, None, False)],
)
def test_a_node_that_a_later_verdict_of_the_gate_does_not_have_stays_condemned(
    publishing: Any, mode: Mode, given: ApprovalAnswer | None, refused: bool
) -> None:
    """The earlier verdict is a gate of its own, in every list, and whatever is lacking is made once. Only a refusal is repaired."""
    publishing.context.gate.policy.mode, publishing.answer = mode, given
    context, store = publishing.context, publishing.context.store
    publish(publishing, BAD, WELL, WELL)
    rebuild(store)

    first, last = listed(store).records
    states = {node.name: node.state for node in read_fleet(store, time.time(), cluster="c").nodes}
    assert [(Answer.NO_GO, ("node-1",)), (Answer.GO, ())] == [(r.answer, r.condemned) for r in (first, last)]
    assert (GATE, GATE) == (last.gate_id, next(newest_records(store, [])).gate_id)
    assert (NodeState.CONDEMNED, True) == (states["node-1"], store.get(html_key(first.gate_id)) is not None)
    assert refused is (kept_end(store, first.gate_id) is not None)
    if refused:
        cases = cases_of_gate(context, last_refused(context))
        assert [("node-1", first.gate_id)] == [(case.node, case.gate_id) for case in cases]


@pytest.mark.parametrize("boot", ["b-1", "another"])
def test_a_refusal_stays_only_of_machines_that_do_not_pass_now(publishing: Any, boot: str) -> None:
    """Somebody mended a cable and had them checked again: their training runs, and nothing may repair them."""
    well = healthy()
    nodes = (well.nodes[0], replace(well.nodes[1], identity={**well.nodes[1].identity, "boot_id": boot}))
    again = replace(BAD, measured_at="2026-11-23T09:00:00+00:00")
    publish(publishing, BAD, again, replace(well, nodes=nodes))
    answers = [record.answer for record in listed(publishing.context.store).records]

    assert answers == ([Answer.NO_GO] if boot == "another" else []) + [Answer.GO]
    assert bool(publishing.replaced) is (boot == "another")


def test_a_verdict_is_replaced_where_it_condemned_nobody_or_is_on_the_same_report(publishing: Any) -> None:
    """The gate has one record, and after a refusal again its first report and verdict."""
    publish(publishing, WELL, BAD, BAD)
    store, report = publishing.context.store, replace(BAD, gate_id=GATE)
    verdict = decide(report, POLICY, FACTS, None, report_digest=digest(dump(report)))

    assert [GATE] == [record.gate_id for record in listed(store).records]
    assert dump(report) == store.get(report_key(GATE))
    assert dump_plain(verdict_json(verdict)) == store.get(verdict_key(GATE))


def test_a_first_refusal_keeps_its_report_where_the_second_one_has_no_record(
    publishing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate's process died: the first was kept as a gate of its own, which the report of the second must not replace."""
    keep = records.keep

    def killed(store: Store, record: Record) -> None:
        if record.gate_id == GATE:
            raise StoreUnreachable("killed")
        keep(store, record)

    publish(publishing, BAD)
    with monkeypatch.context() as patch, pytest.raises(StoreUnreachable):
        patch.setattr(records, "keep", killed)
        later = replace(healthy(3), measured_at="2026-11-23T09:00:00+00:00")
        publish(publishing, wrong_sums(later, "node-2/rank-4"))
    publish(publishing, WELL)
    store = publishing.context.store
    first = next(record for record in listed(store).records if record.gate_id != GATE)

    assert (("node-1",), 2) == (first.condemned, len(load(store.get(first.report)).nodes))


def test_what_a_re_test_says_of_a_node_counts_for_the_cluster_that_condemned_it(publishing: Any) -> None:
    """Its record stays one of its own cluster, so that it is no gate of that cluster."""
    publishing.context.gate.cluster.name, publishing.context.nodes_cluster = "c-retest-0a1b2c3d", "c"
    publish(publishing, BAD)
    store = publishing.context.store
    states = {node.name: node.state for node in read_fleet(store, time.time(), cluster="c").nodes}

    assert NodeState.CONDEMNED is states["node-1"]
    assert ["c-retest-0a1b2c3d"] == [record.cluster for record in listed(store).records]


@pytest.mark.parametrize(
    ("state", "measured_by", "reused"),
    [(JobState.SUCCEEDED, "g-1", ""), (JobState.UNKNOWN, "g-1", ""), (JobState.UNKNOWN, "g-0", "g-0")],
)
def test_gate_that_takes_over_a_training_keeps_the_report_of_its_launch(
    tmp_path: Path, state: JobState, measured_by: str, reused: str
) -> None:
    """The files of its checks may be gone by then, and a report of its own is no PASS of another gate."""
    checks = JobStatus(state, "", "", {}, absent=state is JobState.UNKNOWN)
    training = JobStatus(JobState.RUNNING, "", "abcdef12", {})
    engine = FakeEngine(states={CHECK_JOB: checks, TRAIN_JOB: training})
    adopting = session(tmp_path, engine, adopted=True)
    adopting.context.store.put(report_key("g-1"), dump(replace(healthy(), gate_id=measured_by)))
    judged = asyncio.run(reuse_pass(adopting))

    assert judged is not None and (measured_by, reused) == (judged.report.gate_id, judged.reused)
    assert (adopting.kept_s(CHECK_JOB) is None) is checks.absent  # its machines are let go with the gate
    del engine.states[TRAIN_JOB]
    assert checks.absent or asyncio.run(reuse_pass(adopting)) is None, (
        "without a training the checks are read"
    )
