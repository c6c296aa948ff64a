"""What `run start` and `run follow` print of a run that has no verdict: its reason, in words that a person can use."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock
from uuid import UUID

import httpx
import pytest

from checks.exit_codes import Exit
from flows.cli import gate_output, trigger
from flows.cli.prefect_server import fault_text
from flows.cli.watch import no_verdict, show
from tasks.gate.outcome import outcome_json, unjudged_json
from tasks.orchestration import follow
from tasks.orchestration.follow import FollowedRun
from tasks.orchestration.status import RunStatus
from tasks.store.folder import FolderStore
from tasks.store.layout import log_key, logs_folder
from tests.flows.cli.conftest import Captured
from tests.flows.cli.test_gate_output import failed_training, typed_words
from tests.sample_reports import healthy, verdict_of

CANNOT_START = "Flow run could not start: Permission denied: '/opt/prelaunch/.venv/bin/python'"


def _arguments(folder: Path) -> argparse.Namespace:
    return typed_words(format="text", summary=folder / "out.md")


def test_a_run_that_never_began_says_what_prefect_says(tmp_path: Path, capsys: Captured) -> None:
    """Whoever reads a pipeline's log has no other place to learn why."""
    ended = FollowedRun("id", "Crashed", CANNOT_START, True, None, "the run published no status")

    code = show(_arguments(tmp_path), ended)

    printed = capsys.readouterr()
    assert (code, CANNOT_START in printed.out, printed.err) == (3, True, "")  # once


def test_a_cancelled_run_says_where_its_verdict_would_be(tmp_path: Path) -> None:
    """This machine does not know whether there was one."""
    ended = FollowedRun("id", "Cancelled", "", True, None, "no result", cancelled=True)
    show(_arguments(tmp_path), ended)
    page = (tmp_path / "out.md").read_text()

    assert page.startswith("# CANCELLED gate\n") and "before there was a verdict" not in page


def test_a_request_that_was_rejected_has_a_name(tmp_path: Path, capsys: Captured) -> None:
    """No gate was read yet: no empty name stands in its place."""
    reason = "the store cannot be written"
    document = unjudged_json(reason, f"REJECTED gate: {reason}")
    said = RunStatus("", "", "", "", 2, document, None, (), 0)

    code = show(_arguments(tmp_path), FollowedRun("id", "Rejected", "", True, said, ""))

    assert (code, capsys.readouterr().out) == (2, "REJECTED gate: the store cannot be written\n")
    assert "# REJECTED gate\n" in (tmp_path / "out.md").read_text()


def test_a_server_that_is_down_is_told_once_in_the_same_sentence_by_every_command(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no lack of machines, and nothing was judged; what to do is in it. The code is the documented 5."""
    monkeypatch.setenv("PREFECT_API_URL", "http://user:word@127.0.0.1:9/api")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "user:word")
    down = httpx.ConnectError("All connection attempts failed")
    error = RuntimeError("Failed to reach API at http://127.0.0.1:9/api/")
    error.__cause__ = down
    fault = fault_text(error)

    here = gate_output.nothing_judged(_arguments(tmp_path), "alpha", "", fault)
    there = no_verdict(_arguments(tmp_path), fault, Exit.NO_CAPACITY)

    said = (
        "the Prefect server at http://[removed]@127.0.0.1:9/api does not answer: All connection attempts failed. "
        "Start it, or correct PREFECT_API_URL; `prelaunch doctor` looks at it."
    )
    printed = capsys.readouterr()
    assert (5, 5, "") == (here, there, printed.err)
    assert f"SERVICE ERROR alpha: {said}\nSERVICE ERROR gate: {said}\n" == printed.out
    assert "" == fault_text(ValueError("ours"))


def failed_run(store: FolderStore) -> FollowedRun:
    """A run whose training failed, and what its gate kept."""
    outcome = replace(failed_training("node-1 exited 1"), html="/kept/report.html")
    document, verdict = outcome_json(outcome, "test"), verdict_of(healthy())
    said = RunStatus("g-1", "test", "c", str(store.root), 4, document, verdict, (), 0)
    return FollowedRun("id", "Failed", "", True, said, "")


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_training_that_failed_elsewhere_leads_to_its_logs_and_report(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """As of a gate that ran here: where the store has the logs, and the file of their ends if one was asked for and made."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    store = FolderStore(tmp_path / "store")
    store.put(log_key("g-1", "g-1-train-1", "node-1"), b"KeyError: 'x'\n")
    arguments = typed_words(format=form, logs=tmp_path / "logs.txt")
    code = show(arguments, failed_run(store))
    out, err = capsys.readouterr()
    note = "The ends of its logs are in logs.txt, beside the summary."

    assert 4 == code and "KeyError: 'x'" in (tmp_path / "logs.txt").read_text()
    assert (1, True) == (out.count(note), note in err)
    if form == "text":
        place = store.location(logs_folder("g-1", "g-1-train-1"))
        training = f"Training: g-1-train-1 failed (logs: {place})"
        assert out.splitlines()[-2:] == [training, "Report:   /kept/report.html"]


def test_no_file_of_logs_is_named_that_was_not_made(tmp_path: Path, capsys: Captured) -> None:
    """This machine may not reach the store of the run; where the logs are there is said all the same."""
    arguments = typed_words(format="text", logs=tmp_path / "logs.txt")
    show(arguments, failed_run(FolderStore(tmp_path / "nowhere")))
    out = capsys.readouterr().out

    assert "logs.txt" not in out and "/nowhere/gates/g-1/logs/g-1-train-1)" in out
    assert not (tmp_path / "logs.txt").exists()


def test_a_training_that_runs_has_no_logs_to_read(tmp_path: Path, capsys: Captured) -> None:
    """Only those of a training that failed are named."""
    run = failed_run(FolderStore(tmp_path))
    assert run.announced is not None and run.announced.document is not None
    document = {**run.announced.document, "training": {"job_id": "j", "state": "running"}}
    announced = replace(run.announced, document=document, code=0)
    show(typed_words(format="text"), replace(run, announced=announced))

    assert "Training: j running\n" in capsys.readouterr().out


def test_overrides_of_a_command_come_after_those_of_the_deployment() -> None:
    """Both count, and the later line wins; any other value replaces that of the deployment."""
    own = {"wait": "started", "advanced": {"ask_minutes": 0, "overrides": ["a=1"]}}
    request = {"wait": "verdict", "advanced": {"overrides": ["b=2"]}}
    merged = {"wait": "verdict", "advanced": {"ask_minutes": 0, "overrides": ["a=1", "b=2"]}}

    assert (merged, request) == (follow._merged(own, request), follow._merged({}, request))


@pytest.mark.parametrize(
    ("run", "end"), [(UUID(int=7), "it has been cancelled"), (None, "no run is known to have been started")]
)
def test_a_run_whose_start_was_not_confirmed_is_looked_for_and_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, run: UUID | None, end: str
) -> None:
    """The server may have started it before it fell silent, and the run would launch the training."""
    monkeypatch.setattr(follow, "start", AsyncMock(side_effect=follow.Unreachable("ReadTimeout.")))
    monkeypatch.setattr(follow, "find_started", AsyncMock(return_value=run))
    monkeypatch.setattr(follow, "cancel", AsyncMock(return_value="it has been cancelled"))
    monkeypatch.setattr(trigger, "obstacle", lambda arguments: "")
    request: dict[str, object] = {
        "gate": None,
        "wait": None,
        "check_only": False,
        "overrides": [],
        "once": "",
    }

    assert Exit.NO_CAPACITY == trigger.run(typed_words(deployment="gate/p5", format="text", **request))
    assert f"SERVICE ERROR gate: ReadTimeout; {end}\n" == capsys.readouterr().out
