"""One line a check as it ends; a mark is never better than what was seen."""

from __future__ import annotations

import pytest

from checks.facts.builtin import builtin
from checks.model import Declared, Observation, Outcome, Planned, Scope, Skip
from checks.policy import CheckPolicy, OnWarn, Policy, Rule
from tasks.reports.local_check import ProgressPrinter

WRONG = CheckPolicy(rules=(Rule("wrong", "s", equals=0),), accept_skips=(Skip.TOOL_MISSING,))
POLICY = Policy("p", ("cpu",), OnWarn.GO, 0.25, {"node.a": WRONG, "rank.b": WRONG})
PLAN = (
    Planned("node.a", Scope.NODE, ("wrong",)),
    Planned("rank.b", Scope.RANK, ("wrong",)),
    Planned("left.out", Scope.NODE, (), Skip.NO_GPU_DECLARED),
)


def row(check: str, outcome: Outcome, wrong: int = 0, skip: Skip | None = None) -> Observation:
    metrics = {"wrong": wrong} if outcome is Outcome.MEASURED else {}
    return Observation(check, "n", outcome, 1.25, metrics, skip, "" if metrics else "the reason")


def ticked(*rows: Observation, finish: bool = False, colour: bool = False) -> list[str]:
    said: list[str] = []
    ticks = ProgressPrinter(PLAN, Declared("cpu", 1, 0, 2), POLICY, builtin(), said.append, colour)
    for one in rows:
        ticks(one)
    if finish:
        ticks.finish()
    return said


@pytest.mark.parametrize(
    ("seen", "mark", "why"),
    [
        (row("node.a", Outcome.MEASURED), "✓", ""),
        (row("node.a", Outcome.MEASURED, 3), "✕", "wrong is 3, it must be 0"),
        (row("node.a", Outcome.ERRORED), "?", "not measured: the reason"),
        (row("node.a", Outcome.SKIPPED, 0, Skip.NOT_PERMITTED), "?", "not permitted on this node: the reason"),
        (row("node.a", Outcome.SKIPPED, 0, Skip.TOOL_MISSING), "!", "tool not installed on this node"),
    ],
)  # fmt: skip
def test_the_mark_is_what_the_policy_says(seen: Observation, mark: str, why: str) -> None:
    """With the check's name, its seconds and the reason."""
    (line,) = ticked(seen)

    assert line.startswith(f"{mark}  1/2 node.a") and "1.2 s" in line and why in line


def test_a_check_on_ranks_ticks_when_the_last_has_reported() -> None:
    """Once, with the worst of them."""
    good, bad = row("rank.b", Outcome.MEASURED), row("rank.b", Outcome.MEASURED, 1)

    assert [] == ticked(bad)
    (line,) = ticked(bad, good)
    assert line.startswith("✕") and "(2 ranks)" in line


def test_a_rank_that_never_reported_is_said_at_the_end() -> None:
    """A check that half of the ranks finished has no tick."""
    lines = ticked(row("node.a", Outcome.MEASURED), row("rank.b", Outcome.MEASURED), finish=True)

    assert lines[1].startswith("?  2/2 rank.b") and lines[1].endswith("1 of 2 reported")


def test_colour_is_asked_for() -> None:
    """And there is none otherwise."""
    seen = row("node.a", Outcome.MEASURED)

    assert ticked(seen, colour=True)[0].startswith("\x1b[32m✓\x1b[0m")
    assert "\x1b" not in ticked(seen)[0]
