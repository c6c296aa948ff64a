"""The schedule: as one sentence, as bars, and what was left out with its reason."""

from __future__ import annotations

from dataclasses import replace

from checks.model import Observation, Outcome, Report
from tasks.render.html import html
from tasks.render.terminal import terminal
from tasks.render.views.nodes import check_lines
from tasks.render.views.timeline import BARS, left_out, schedule_text, timeline
from tests.sample_reports import healthy, verdict_of


def _with(*rows: tuple[str, str, float, float]) -> Report:
    made = (
        Observation(check, subject, Outcome.MEASURED, seconds, {}, started_s=start)
        for check, subject, start, seconds in rows
    )
    return replace(healthy(1), observations=tuple(made))


def test_the_sentence_names_the_slowest_node_and_how_long_its_checks_took() -> None:
    """Two checks side by side save the shorter one's time."""
    report = _with(("a.b", "node-0", 0.0, 4.0), ("c.d", "node-0", 1.0, 2.0), ("a.b", "node-1", 0.0, 1.0))

    assert schedule_text(report) == (
        "Duration: on the slowest node (node-0) the checks took 4.0 s; "
        "many ran at the same time, or it would have been 6.0 s"
    )


def test_bars_lie_where_the_checks_ran() -> None:
    """Percent of the node's time, in the order of their start; a rank check covers all its ranks."""
    report = _with(
        ("c.d", "node-0", 5.0, 5.0), ("a.b", "node-0/rank-0", 0.0, 1.0), ("a.b", "node-0/rank-1", 1.0, 4.0)
    )
    made = timeline(report)

    assert made is not None
    assert [(bar.check, bar.left, bar.width) for bar in made.bars] == [
        ("a.b", 0.0, 50.0),
        ("c.d", 50.0, 50.0),
    ]


def test_nothing_timed_is_no_chart() -> None:
    """A report without observations has no schedule, and the page still renders."""
    report = _with()

    assert (schedule_text(report), timeline(report)) == ("", None)
    assert "When what ran" not in html(report, verdict_of(report), "local")


def test_a_long_schedule_is_cut_and_says_so() -> None:
    """The page holds so many bars; the rest is counted."""
    made = timeline(_with(*((f"a.b{i}", "node-0", float(i), 1.0) for i in range(BARS + 3))))

    assert made is not None
    assert (len(made.bars), made.hidden) == (BARS, 3)


def test_what_does_not_apply_is_one_line_a_reason() -> None:
    """A table of fifty checks that a laptop cannot have would hide the ten that it has."""
    report = healthy(1, 1)
    verdict = verdict_of(report)
    grouped = dict(left_out(check_lines(report, verdict)))

    assert grouped["no GPU declared"] == ("gpu.inventory",)
    assert grouped["one node declared"] == ("network.reachability", "network.pairs")
    text = terminal(report, verdict, "local", 100)
    assert "not run, one node declared: network.reachability, network.pairs" in text
