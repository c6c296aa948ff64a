"""What `trigger` and `watch` print of a run that has no verdict: its reason, in words that a person can use."""

from __future__ import annotations

import argparse
from pathlib import Path

import httpx
import pytest

from checks.exit_codes import Exit
from flows.cli import gate, gate_output
from flows.cli.remote import no_verdict, show
from tasks.gate.outcome import ending_json
from tasks.orchestration.follow import FollowedRun
from tasks.orchestration.status_document import RunStatus

CANNOT_START = "Flow run could not start: Permission denied: '/opt/prelaunch/.venv/bin/python'"


def _arguments(folder: Path) -> argparse.Namespace:
    return argparse.Namespace(format="text", junit=None, summary=folder / "out.md", html=None)


def test_a_run_that_never_began_says_what_prefect_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_request_that_was_rejected_has_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No gate was read yet: no empty name stands in its place."""
    reason = "the store cannot be written"
    document = ending_json(None, None, None, None, None, "", reason, f"REJECTED gate: {reason}")
    said = RunStatus("", "", "", "", 2, document, None, (), 0)

    code = show(_arguments(tmp_path), FollowedRun("id", "Rejected", "", True, said, ""))

    assert (code, capsys.readouterr().out) == (2, "REJECTED gate: the store cannot be written\n")
    assert "# REJECTED gate\n" in (tmp_path / "out.md").read_text()


def test_a_server_that_is_down_is_told_once_in_the_same_sentence_by_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no lack of machines, and nothing was judged; what to do is in it. The code is the documented 5."""
    monkeypatch.setenv("PREFECT_API_URL", "http://user:word@127.0.0.1:9/api")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "user:word")
    down = httpx.ConnectError("All connection attempts failed")
    error = RuntimeError("Failed to reach API at http://127.0.0.1:9/api/")
    error.__cause__ = down
    fault = gate._service_fault(error, None)

    here = gate_output.nothing_judged(_arguments(tmp_path), "alpha", "", fault)
    there = no_verdict(_arguments(tmp_path), fault, Exit.NO_CAPACITY)

    said = (
        "the Prefect server at http://[removed]@127.0.0.1:9/api does not answer: All connection attempts failed. "
        "Start it, or correct PREFECT_API_URL; `prelaunch doctor` looks at it."
    )
    printed = capsys.readouterr()
    assert (5, 5, "") == (here, there, printed.err)
    assert f"SERVICE ERROR alpha: {said}\nSERVICE ERROR gate: {said}\n" == printed.out
    assert "" == gate._service_fault(ValueError("ours"), None)
