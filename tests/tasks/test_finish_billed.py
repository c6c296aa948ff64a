"""Machines that may still be billed at the end of a gate are named where its caller reads."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from flows.cli.gate_output import show
from flows.cli.output import add_output_arguments
from tasks import finish, judge
from tasks.gate.outcome import Decision, Ending, GateOutcome, Training
from tasks.gate.progress import LISTENER, LiveProgress
from tasks.gate_file.cost_terms import CostTerms
from tasks.launchers.base import JobState, LaunchError
from tests.tasks.sessions import CHECK_JOB, TRAIN_JOB, FakeEngine, session
from tests.tasks.test_finish import GO, NO_GO, nobody_is_told

COMMAND = "aws sagemaker update-training-job --training-job-name g-1-check-1"
FAILED = GateOutcome(
    "g-1", Ending.JOB_FAILED, Decision.LAUNCHED, GO, Training(TRAIN_JOB, JobState.FAILED), "node-1 exited 1"
)


class KeepingEngine(FakeEngine):
    """Its pool cannot be released, and it says what to type."""

    def release(self, name: str) -> str:
        """Never."""
        raise LaunchError(f"not allowed. By hand: {COMMAND}")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "ended",
    [
        FAILED,
        replace(FAILED, decision=Decision.NOT_LAUNCHED, training=None),
        GateOutcome("g-1", Ending.VERDICT, Decision.REFUSED, NO_GO, None, "no-go"),
        GateOutcome(
            "g-1", Ending.VERDICT, Decision.LAUNCHED, GO, Training(TRAIN_JOB, JobState.RUNNING), "go"
        ),
        GateOutcome("g-1", Ending.NO_CAPACITY, None, None, None, "no machines"),
    ],
    ids=["the training failed", "it was refused", "no-go", "go", "no capacity"],
)
@pytest.mark.parametrize("kept", [True, False])
def test_a_pool_that_is_kept_is_on_stdout_with_its_price_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    form: str, ended: GateOutcome, kept: bool,
) -> None:  # fmt: skip
    """However the gate ended. A pool that was released is not in it."""
    nobody_is_told(monkeypatch)
    monkeypatch.setattr(judge, "void_pass", lambda session: None)
    one = session(tmp_path, KeepingEngine() if kept else FakeEngine())
    cast(Any, one.context).terms = CostTerms(usd_per_node_hour=50.0)
    one.ended(CHECK_JOB)
    shown = LiveProgress(None)
    token = LISTENER.set(shown)
    asyncio.run(finish.finish_gate(one, ended))
    LISTENER.reset(token)
    parser = argparse.ArgumentParser()
    add_output_arguments(parser)
    assert shown.outcome is not None
    capsys.readouterr()
    show(parser.parse_args(["--format", form]), "gate", shown.outcome)
    out = capsys.readouterr().out
    said = " ".join(out.split())

    for part in ("The machines of g-1-check-1 may still be kept", COMMAND, "2 nodes cost 100 USD an hour"):
        # JSON has the reason twice: in the first line, where that shows it, and by itself.
        assert kept is (part in said) and (form == "json" or said.count(part) < 2), said
    assert form == "text" or json.loads(out)["gate_id"] == "g-1"
