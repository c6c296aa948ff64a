"""What a gate shows while it runs: on a terminal the stage and its nodes with the time, in CI a few lines, and never silence."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tasks.gate.outcome import Ending, GateOutcome
from tasks.gate.progress import SHOWN_NODES, LiveProgress, Progress, measured_text, node_lines
from tasks.reports.node_reports import NodeProgress


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_ci_progress_prints_a_line_at_begin_end_and_every_10_s(capsys: pytest.CaptureFixture[str]) -> None:
    """And one every 10 s, with the newest state; what comes in between is not printed."""
    clock = Clock()
    shown = LiveProgress(None, clock)
    for second in range(26):
        clock.now = 100.0 + second
        shown.progress(Progress("checks", f"{second} of 27 observations\x1b"))
        shown.tick()
    shown.progress(Progress("verdict", "GO local"))
    clock.now += 3.0
    shown.ended(GateOutcome("g-1", Ending.VERDICT, None, None, None, ""))

    assert capsys.readouterr().err.splitlines() == [
        r"checks: 0 of 27 observations\x1b (0 s)",
        r"checks: 10 of 27 observations\x1b (10 s)",
        r"checks: 20 of 27 observations\x1b (20 s)",
        r"checks: ended after 25 s: 25 of 27 observations\x1b",
        "verdict: GO local (0 s)",
        "verdict: ended after 3 s",
    ]


def test_progress_prints_a_line_during_long_silence(capsys: pytest.CaptureFixture[str]) -> None:
    """Also before the first stage, and where a stage reports nothing new for minutes."""
    clock = Clock()
    shown = LiveProgress(None, clock)
    for second in range(600):
        clock.now = 100.0 + second
        if second == 31:
            shown.progress(Progress("training", "running"))
        shown.tick()
    lines = capsys.readouterr().err.splitlines()

    assert lines[:3] == [f"start: Prefect begins the run ({second} s)" for second in (10, 20, 30)]
    assert len(lines) == 3 + 1 + 56 and lines[-1] == "training: running (9 min)"


def test_a_wait_for_a_person_is_repeated_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    """After the first minute; what is new comes within 10 s, and what runs is never so silent."""
    clock = Clock()
    shown = LiveProgress(None, clock)
    for second in range(301):
        clock.now = 100.0 + second
        shown.progress(
            Progress("question", "ASK local" if second < 245 else "ASK local: no heartbeat", waits=True)
        )
        shown.tick()
    lines = capsys.readouterr().err.splitlines()

    first = [f"question: ASK local ({second} s)" for second in (0, 10, 20, 30, 40, 50)]
    then = [f"question: ASK local ({after})" for after in ("110 s", "3 min", "4 min")]
    assert [*first, *then, "question: ASK local: no heartbeat (4 min)"] == lines


def test_a_long_sentence_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """After that its beginning and the time are enough."""
    clock = Clock()
    shown = LiveProgress(None, clock)
    shown.progress(Progress("verdict", "GO " + "x" * 280))
    for second in (11, 22):
        clock.now = 100.0 + second
        shown.tick()
    first, *again = capsys.readouterr().err.splitlines()

    assert "x" * 280 in first
    assert [f" ({second} s)" for second in (11, 22)] == [line[-7:] for line in again]
    assert all(line.startswith("verdict: GO xx") and len(line) < 90 for line in again)


def test_progress_keeps_unended_jobs_for_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And is no stage."""
    shown = LiveProgress(None, Clock())
    shown.progress(Progress("end", "job g-check-1 could not be ended", unended=True))

    assert (["job g-check-1 could not be ended"], "") == (shown.unended, capsys.readouterr().err)


def test_lasting_progress_line_is_printed_once_without_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a time, because it is no state."""
    shown = LiveProgress(None, Clock())
    for _ in range(2):
        shown.progress(Progress("adopt", "this gate continues job x", lasting=True))

    assert capsys.readouterr().err == "adopt: this gate continues job x\n"


def test_a_terminal_shows_what_runs_on_which_node() -> None:
    """Each drawing has the present time; a node that is done has no line, and hostile names are text."""
    clock, console = Clock(), Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    with console.status("starting") as status:
        shown = LiveProgress(status, clock)
        nodes = (
            NodeProgress("n0", 27, 27, ""),
            NodeProgress("n1", 20, 27, "compute.gemm"),
            NodeProgress("[red]\x1b[31m\u202en2", 3, 27, "[bold]x"),
        )
        shown.progress(Progress("checks", "50 of 81 observations", 50, 81, nodes=nodes))
        clock.now += 34.0
        drawn = shown.__rich__().plain.splitlines()

    assert drawn[0] == "checks: 50 of 81 observations (34 s)"
    assert drawn[1].endswith("3 of 27, now [bold]x") and "\x1b" not in drawn[1] and "\u202e" not in drawn[1]
    assert drawn[2].split() == ["n1", "20", "of", "27,", "now", "compute.gemm"] and len(drawn) == 3


def test_many_nodes_are_counted() -> None:
    """Those with most to do are shown."""
    nodes = [NodeProgress(f"n{index:03d}", index, 200, "x") for index in range(100)]
    lines = node_lines(nodes)

    assert len(lines) == SHOWN_NODES + 1 and lines[0].startswith("  n000 ")
    assert lines[-1] == f"  and {100 - SHOWN_NODES} more nodes"


def test_progress_keeps_the_last_count_of_observations() -> None:
    """By the last progress that counted observations; a later stage without a count does not hide it."""
    shown = LiveProgress(None, Clock())
    before = measured_text(shown.measured)
    nodes = (NodeProgress("node-0", 10, 33, "compute.gemm"), NodeProgress("node-1", 2, 33, "system.clock"))
    shown.progress(Progress("checks", "running", 12, 66, nodes=nodes))
    shown.progress(Progress("stopped", "ending the jobs"))

    assert "Nothing had been measured by then." == before
    assert "By then 12 of 66 observations had been made." == measured_text(shown.measured)
