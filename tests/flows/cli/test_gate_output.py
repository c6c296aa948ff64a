"""What a gate that was interrupted prints: that its jobs were ended only if they were."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path

import pytest

from flows.cli.gate import _show, warn_of_time
from flows.cli.gate_output import interrupted
from tasks.gate.context import open_gate_context
from tasks.gate.outcome import Ending, Outcome
from tasks.gate.progress import LiveProgress, Progress
from tasks.gate_file.request import Advanced, GateRequest
from tests.flows.gates import write_gate


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ("", "cancelled by SIGTERM; the jobs that it had started were ended"),
        (
            "job g-1-check-1 could not be ended; its own time limit will end it: slurmctld does not answer.",
            "cancelled by SIGTERM; job g-1-check-1 could not be ended; its own time limit will end it: slurmctld does not answer",
        ),
    ],
)
def test_an_end_says_what_was_ended_and_what_was_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left: str, said: str
) -> None:
    """Never that all jobs were ended, beside a notification that one was not."""
    setting = open_gate_context(GateRequest(gate_file=str(write_gate(tmp_path, fake=False))))
    shown = LiveProgress(None)
    if left:
        shown.progress(Progress("end", left, unended=True))
    arguments = argparse.Namespace(format="json", junit=None, summary=None, html=None)

    code = interrupted(arguments, "g-1", signal.SIGTERM, setting, shown)

    document = json.loads(capsys.readouterr().out)
    assert (143, f"CANCELLED test: {said}") == (code, document["first_line"])


def test_a_wrong_script_is_rejected_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As any other mistake of the gate file, on every channel, although it was found only by the preflight."""
    path = write_gate(tmp_path, fake=False)
    setting = open_gate_context(GateRequest(gate_file=str(path)))
    line = path.read_text().splitlines().index("[training]") + 2
    outcome = Outcome(
        "", Ending.REJECTED, None, None, None, "training script: it is not there", key="training.command"
    )
    arguments = argparse.Namespace(
        file=str(path), format="json", junit=tmp_path / "j.xml", summary=tmp_path / "s.md", html=None
    )

    assert 2 == _show(arguments, setting, outcome)
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (str(path), "training.command", line) == (error["file"], error["path"], error["line"])
    assert f"{path}, line {line}: training.command: training script: it is not there." in err
    assert f'file="{path}" line="{line}"' in (tmp_path / "j.xml").read_text()
    assert f"line {line}" in (tmp_path / "s.md").read_text()


@pytest.mark.parametrize(
    ("waits", "limit", "warned"), [(240, "90", True), (240, "240", True), (60, "90", False), (240, "", False), (0, "90", False)]
)  # fmt: skip
def test_a_pipeline_that_does_not_wait_for_machines_is_warned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], waits: int, limit: str, warned: bool
) -> None:
    """Its time would be up before the gate has waited as long as its file says."""
    overrides = (f"cluster.capacity_wait_minutes={waits}",)
    request = GateRequest(
        gate_file=str(write_gate(tmp_path, fake=False)), advanced=Advanced(overrides=overrides)
    )
    warn_of_time(open_gate_context(request), limit)

    assert ("capacity_wait_minutes is 240" in capsys.readouterr().err) is warned
