"""The log of a run names each stage of its gate with its time, and what is no stage once."""

from __future__ import annotations

import pytest

from tasks.gate.progress import Progress
from tasks.orchestration.stage_log import StageLog


def test_each_stage_has_a_line_as_it_begins_and_as_it_ends() -> None:
    """What changes within a stage is not logged each time; its last state is."""
    now, said = [0.0], list[str]()
    stages = StageLog(said.append, lambda: now[0])
    for at, progress in (
        (0, Progress("start", "job g-check-1 is being submitted (engine local)")),
        (2, Progress("checks", "pending")),
        (3, Progress("checks", "20 of 66 observations")),
        (4, Progress("adopt", "this gate continues a job", lasting=True)),
        (12, Progress("checks", "66 of 66 observations")),
        (14, Progress("verdict", "GO local: \x1b[31mall is well")),
        (15, Progress("end", "job x could not be ended", unended=True)),
    ):
        now[0] = float(at)
        stages.progress(progress)
    now[0] = 15.0
    stages.end()
    stages.end()

    assert said == [
        "start: job g-check-1 is being submitted (engine local)",
        "start: ended after 2 s: job g-check-1 is being submitted (engine local)",
        "checks: pending",
        "adopt: this gate continues a job",
        "checks: ended after 12 s: 66 of 66 observations",
        "verdict: GO local: \\x1b[31mall is well",
        "verdict: ended after 1 s: GO local: \\x1b[31mall is well",
    ]


def test_no_secret_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may repeat one in its error."""
    monkeypatch.setenv("MY_TOKEN", "hunter22-of-the-test")
    said = list[str]()
    StageLog(said.append).progress(Progress("start", "refused: hunter22-of-the-test"))

    assert ["start: refused: [removed]"] == said
