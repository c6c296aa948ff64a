"""`prelaunch store list` about gates that somebody cancelled, those whose training failed, and those that ended without a verdict."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from checks.documents.report import dump_plain
from tasks.store.folder import FolderStore
from tasks.store.layout import outcome_key
from tests.flows.cli.conftest import Run
from tests.flows.cli.test_store import document, store
from tests.sample_reports import healthy
from tests.tasks.kept_gates import gate_id, keep

__all__ = ["store"]


def cancelled(number: int, training: str | None = None, decision: str | None = None) -> bytes:
    """What a gate keeps that somebody cancelled, on cluster "c"."""
    trained = None if training is None else {"job_id": "j", "state": training, "detail": ""}
    why = "cancelled by SIGINT\x1b[31m"
    table = {
        "gate_id": gate_id(number),
        "ending": "cancelled",
        "decision": decision,
        "reason": why,
        "training": trained,
    }
    return json.dumps({**table, "cluster": "c"}).encode()


def test_list_says_which_gates_were_cancelled(run: Run, store: FolderStore) -> None:
    """With a verdict in its row; without one below, with when it began and why it ended, unless other gates are asked for."""
    store.put(outcome_key(gate_id(0)), cancelled(0, "cancelled", "launched"))
    store.put(outcome_key(gate_id(1)), cancelled(1))
    store.put(outcome_key(gate_id(7)), cancelled(7))
    _, text, _ = run("store", "list", store.root)
    found = document(run("store", "list", store.root, "--format", "json")[1])
    others = [
        run("store", "list", store.root, "--cluster", "other")[1],
        run("store", "list", store.root, "--since", "1m")[1],
    ]

    assert "launched, and cancelled; training cancelled" in text
    assert re.search(r"NO-GO \(FAIL\) +cancelled  ", text)
    assert re.search(rf"1 gate ended without a verdict:\n  \S+Z  {gate_id(7)}  cancelled by SIGINT", text)
    assert "\x1b" not in text
    assert [(gate_id(7), "cancelled", "c")] == [
        (row["gate_id"], row["ending"], row["cluster"]) for row in found["unjudged"]
    ]
    assert not any(gate_id(7) in one for one in others)


def test_a_training_that_failed_is_listed_at_its_node(run: Run, store: FolderStore) -> None:
    """The column of the first finding says why it failed, and so does the history of that node alone."""
    failed = {
        "decision": "launched", "ending": "job failed", "reason": "node-1, rank 3: KeyError: 'x'",
        "training": {"job_id": "j", "state": "failed", "detail": "", "node": "node-1"}, "approval": None,
    }  # fmt: skip
    store.put(outcome_key(gate_id(0)), dump_plain(failed))
    said = "TRAINING FAILED: node-1, rank 3: KeyError: 'x'"
    _, text, _ = run("store", "list", store.root)
    rows = document(run("store", "list", store.root, "--format", "json")[1])["verdicts"]
    histories = [run("fleet", store.root, "--node", node)[1] for node in ("node-1", "node-0")]

    assert re.search(
        rf"launched, by the policy; training failed on node-1  {re.escape(said)}$", text, re.MULTILINE
    )
    assert ["node-1"] == [row["training_node"] for row in rows if row["training"]]
    assert [True, False] == [said in history for history in histories]


def test_a_report_that_was_old_when_it_was_judged_is_said_so(run: Run, store: FolderStore) -> None:
    """Its gate is no news about its machines; one that was judged at once says nothing."""
    keep(store, 5, replace(healthy(), measured_at="2025-11-21T08:00:00Z"))
    keep(store, 6, replace(healthy(), measured_at="2025-11-27T07:00:00Z"))
    lines = run("store", "list", store.root)[1].splitlines()
    old, new = (next(line for line in lines if gate_id(number) in line) for number in (5, 6))

    assert old.endswith("(measured 5 days before, at 2025-11-21T08:00:00Z)") and "measured" not in new
