"""What is kept of a gate that somebody cancelled."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks import cancel
from tasks.cancel import end_cancelled_gate, note_interruption
from tasks.gate.outcome import Decision, Ending, Outcome
from tasks.store.layout import outcome_key, report_key, summary_key
from tests.sample_reports import healthy, wrong_sums
from tests.tasks.sessions import TRAIN_JOB, judged, session

GO = judged(healthy(2, 1))
NO_GO = judged(wrong_sums(healthy(2, 1), "node-1/rank-1"))


@pytest.mark.parametrize(
    ("judged_as", "trains", "decision", "end"),
    [
        (None, False, None, "in Prefect; the jobs that it had started were ended"),
        (GO, False, None, "in Prefect after the verdict GO; no training was started"),
        (NO_GO, False, None, "in Prefect after the verdict NO-GO; no training was started"),
        (GO, True, "launched", "in Prefect after the verdict GO; the training that it had started was ended"),
    ],
)
def test_a_cancelled_run_keeps_how_it_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    judged_as: Any,
    trains: bool,
    decision: str | None,
    end: str,
) -> None:
    """With the verdict where there was one; the job of the training is ended before its log is kept."""
    monkeypatch.setattr(cancel, "emit_cancelled", lambda session, why: None)
    one = session(tmp_path)
    one.judged, one.training = judged_as, TRAIN_JOB if trains else ""
    one.setting.store.put(report_key(one.gate_id), b"{}")
    state = asyncio.run(end_cancelled_gate(one))
    kept = json.loads(one.setting.store.get(outcome_key(one.gate_id)) or b"")
    summary = one.setting.store.get(summary_key(one.gate_id))

    assert state.is_cancelled() and state.message is not None and state.message.endswith(f"cancelled {end}")
    assert ("cancelled", decision, 130) == (kept["ending"], kept["decision"], kept["exit_code"])
    assert (None if judged_as is None else state.message) == (
        summary.decode().splitlines()[0].removeprefix("# ") if summary else None
    )
    assert (("cancel", TRAIN_JOB) in one.setting.launcher.calls) is trains  # type: ignore[attr-defined]


def test_a_gate_that_had_ended_is_kept_as_it_ended(tmp_path: Path) -> None:
    """Only its last messages were interrupted; what was kept before them stays."""
    one = session(tmp_path)
    refused = Outcome(one.gate_id, Ending.VERDICT, Decision.REFUSED, NO_GO, None, "why")
    note_interruption(one, refused)
    first = json.loads(one.setting.store.get(outcome_key(one.gate_id)) or b"")
    note_interruption(one, replace(refused, reason="another"))

    assert ("verdict", "refused", 1, "why") == tuple(
        first[key] for key in ("ending", "decision", "exit_code", "reason")
    )
    assert first == json.loads(one.setting.store.get(outcome_key(one.gate_id)) or b"")
