"""What is read of a pod's log, in the form in which a kubelet sends it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from container.agent.files.log_lines import lines_of
from tasks.launchers.base import JobState
from tasks.launchers.kubernetes.api import Api
from tasks.launchers.kubernetes.job_states import PodView
from tasks.launchers.kubernetes.output import PodOutput
from tests.fakes.kubernetes.api_server import log_text
from tests.tasks.launchers.kubernetes.planned import options

TOKEN = "a" * 32


class LogApi(Api):
    """Answers with the rows of one log, and counts the lines that it sent."""

    def __init__(self, rows: list[tuple[str, str]]) -> None:
        self.rows, self.sent = rows, 0

    def log(self, pod: str, query: Mapping[str, str]) -> str:
        text = log_text(self.rows, query)
        self.sent += text.count("\n")
        return text


@pytest.mark.parametrize("hours", [0.0, 2.0, -8.0, 5.5])
def test_a_log_is_read_on_in_every_time_zone(tmp_path: Path, hours: float) -> None:
    """Each line is read once, except those of the last second, and a file is as old as its last line. What a training prints
    behind a carriage return is no line of the log, and its time is none.
    """
    begin = datetime(2026, 8, 6, 8, 38, 13, 300000, timezone(timedelta(hours=hours)))
    api = LogApi([])
    output = PodOutput(api, "job", tmp_path, options())
    written = []
    for second in range(3):
        path = f"{TOKEN}/evidence/{second}.txt"
        at = begin + timedelta(seconds=second)
        for line in ("10 %\r9999-12-31T23:59:59Z 20 %", *lines_of("gate", TOKEN, "node-0", b"text", path)):
            api.rows.append((at.isoformat(timespec="microseconds"), line))
        output.bring((PodView("pod", "node-0", "", JobState.RUNNING),))
        written.append((output.folder / path).stat().st_mtime)
    output.bring((PodView("pod", "node-0", "", JobState.SUCCEEDED),))
    output.bring((PodView("pod", "node-0", "", JobState.SUCCEEDED),))

    first = begin.replace(microsecond=0).timestamp()
    assert written == [first, first + 1, first + 2]
    assert api.sent == 2 + 4 + 4 + 2
