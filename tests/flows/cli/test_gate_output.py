"""What a gate that was interrupted prints: that its jobs were ended only if they were."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path

import pytest

from flows.cli.gate_output import interrupted
from tasks.gate.context import open_gate_context
from tasks.gate.progress import LiveProgress, Progress
from tasks.gate_file.request import GateRequest
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
