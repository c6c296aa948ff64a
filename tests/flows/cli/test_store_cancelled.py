"""`prelaunch store list` about gates that somebody cancelled, and about those that ended without a verdict."""

from __future__ import annotations

import json
import re

from tasks.store.folder import FolderStore
from tasks.store.layout import outcome_key
from tests.flows.cli.test_store import Run, document, run, store
from tests.tasks.kept_gates import gate_id

__all__ = ["run", "store"]


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

    assert "launched, and cancelled; the training was cancelled" in text
    assert re.search(r"NO-GO \(FAIL\) +cancelled  ", text)
    assert re.search(rf"1 gate ended without a verdict:\n  \S+Z  {gate_id(7)}  cancelled by SIGINT", text)
    assert "\x1b" not in text
    assert [(gate_id(7), "cancelled", "c")] == [
        (row["gate_id"], row["ending"], row["cluster"]) for row in found["unjudged"]
    ]
    assert not any(gate_id(7) in one for one in others)
