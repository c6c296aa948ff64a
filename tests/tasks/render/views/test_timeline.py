"""The schedule as one sentence, and what was left out with its reason."""

from __future__ import annotations

from dataclasses import replace

from checks.model import Observation, Outcome, Report
from tasks.render.terminal import terminal
from tasks.render.views.nodes import check_lines, left_out, schedule_text
from tests.sample_reports import healthy, verdict_of


def _with(*rows: tuple[str, str, float, float]) -> Report:
    made = (
        Observation(check, subject, Outcome.MEASURED, seconds, {}, started_s=start)
        for check, subject, start, seconds in rows
    )
    return replace(healthy(1), observations=tuple(made))


def test_the_sentence_names_the_slowest_node_and_how_long_its_checks_took() -> None:
    """Nothing timed is nothing reported."""
    report = _with(("a.b", "node-0", 0.0, 4.0), ("c.d", "node-0", 1.0, 2.0), ("a.b", "node-1", 0.0, 1.0))

    assert schedule_text(report) == "Duration: on the slowest node (node-0) the checks took 4.0 s"
    assert "" == schedule_text(_with())


def test_what_does_not_apply_is_one_line_a_reason() -> None:
    """A table of fifty checks that a laptop cannot have would hide the ten that it has."""
    report = healthy(1, 1)
    verdict = verdict_of(report)
    grouped = dict(left_out(check_lines(report, verdict)))

    assert grouped["no GPU declared"] == ("gpu.inventory",)
    assert grouped["one node declared"] == ("network.reachability", "network.pairs")
    text = terminal(report, verdict, "local", 100)
    assert "not run, one node declared: network.reachability, network.pairs" in text
