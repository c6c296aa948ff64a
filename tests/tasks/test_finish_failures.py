"""What fails while a gate ends: machines that may still be billed are named, and a Prefect server that fails is a service error."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from checks.exit_codes import Exit
from checks.judge.cost.cost import CostTerms
from flows.cli.gate_output import show
from flows.cli.output import add_output_arguments
from tasks import finish, judge
from tasks.finish import defect_outcome, failed_outcome
from tasks.gate.lease.lease import LeaseError
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport, Training
from tasks.gate.progress import LiveProgress
from tasks.launchers.base import JobState, LaunchError
from tasks.store.base import StoreError
from tasks.store.layout import lease_key, outcome_key, request_key
from tests.tasks.orchestration.server.test_http_client import status_error
from tests.tasks.sessions import CHECK_JOB, TRAIN_JOB, FakeEngine, listening, session
from tests.tasks.test_finish import ASK, GO, NO_GO, PUBLISHED, nobody_is_told

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
    with listening(shown):
        asyncio.run(finish.finish_gate(one, ended))
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


@pytest.mark.parametrize(
    "error", [status_error(503), httpx.ReadTimeout("slow"), httpx.ConnectError("refused")]
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_busy_prefect_server_is_a_failed_service(tmp_path: Path, error: Exception, wrapped: bool) -> None:
    """Not an error in prelaunch itself; the code is the documented 5."""
    if wrapped:
        error, error.__cause__ = RuntimeError("Failed to reach API"), error
        outcome = defect_outcome(session(tmp_path), error)
    else:
        outcome = failed_outcome(session(tmp_path), error, None)

    assert (Ending.NO_CAPACITY, Exit.NO_CAPACITY) == (outcome.ending, outcome.code)
    assert outcome.reason.startswith("the Prefect server at "), outcome.reason


def test_a_request_that_the_prefect_server_calls_wrong_is_an_error_of_ours(tmp_path: Path) -> None:
    """Waiting does not help."""
    assert "an error in prelaunch itself" in failed_outcome(session(tmp_path), status_error(422), None).reason


@pytest.mark.parametrize(
    ("error", "verdict", "adopted", "digest", "decision"),
    [
        (LeaseError("lost"), NO_GO, False, "", Decision.REFUSED),
        (LeaseError("lost"), ASK, False, "", Decision.CANNOT_TELL),
        (LeaseError("lost"), NO_GO, True, "", Decision.CANNOT_TELL),
        (StoreError("full"), NO_GO, False, "of an earlier report", Decision.REFUSED),
    ],
)
def test_a_refusal_stands_only_where_this_process_knows_all_of_it(
    tmp_path: Path, error: Exception, verdict: JudgedReport, adopted: bool, digest: str, decision: Decision
) -> None:
    """Who has adopted a gate may not know that a person let it train; a page of an earlier round is no page of this one."""
    owner = session(tmp_path)
    owner.judged = verdict
    owner.renewal.change(adopted=adopted)
    outcome = failed_outcome(owner, error, replace(PUBLISHED, digest=digest))

    assert (decision, bool(digest)) == (outcome.decision, outcome.html is None)
    assert bool(digest) is ("the report could not be stored" in outcome.reason)


def test_gate_that_another_run_took_over_keeps_neither_its_machines_nor_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run trains on the machines, and says how the gate ended."""
    nobody_is_told(monkeypatch)
    engine = FakeEngine()
    one = session(tmp_path, engine)
    store, theirs = one.context.store, b'{"decision":"launched"}'
    one.ended(CHECK_JOB)
    store.put(lease_key("c"), b"{}")
    store.put(request_key("g-1"), b'{"flow_run":"heir"}')
    store.put(outcome_key("g-1"), theirs)
    assert not one.renewal.ours()
    asyncio.run(finish.finish_gate(one, failed_outcome(one, LeaseError(one.renewal.loss), None)))

    assert ([], theirs) == (engine.calls, store.get(outcome_key("g-1")))
