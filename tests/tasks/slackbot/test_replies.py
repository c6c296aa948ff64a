"""What /prelaunch answers beside a verdict or a fleet: how old the measurement is, and why nodes are doubtful."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from checks.model import Declared
from tasks.reports.fleet.states import HOUR_S
from tasks.slackbot import replies
from tasks.slackbot.history import PastVerdict
from tasks.store.node_rows import Standing
from tasks.store.records import record_of
from tests.fakes.slack.blockkit import faults
from tests.sample_reports import healthy, verdict_of, wrong_sums
from tests.tasks.reports.fleet.test_states import CLOCK, fleet, gate, node

# 2026-11-23 10:12 UTC
JUDGED_S = 1_795_428_720.0
SAID = "The nodes were measured 3 days before this verdict, 2026-11-20 10:12 UTC."


def past(measured_at: str) -> PastVerdict:
    """A refusal of before."""
    report = replace(wrong_sums(healthy()), measured_at=measured_at)
    verdict, declared = verdict_of(report), Declared("cpu", 2, 0, 2)
    cluster = SimpleNamespace(launcher="local", options={}, declared=SimpleNamespace(instance_type="cpu"))
    own: Any = SimpleNamespace(name="p5", cluster=cluster, declared=lambda names: declared)
    store: Any = SimpleNamespace(location=lambda key: f"/srv/{key}")
    record = record_of("p5-1", report, verdict, "key", JUDGED_S, "p5", "c")
    return PastVerdict(own, store, record, verdict)


def test_reply_to_why_states_the_age_of_an_old_measurement() -> None:
    """Of a verdict that was made at once, nothing."""
    old, fresh = (replies.why(past(at)) for at in ("2026-11-20T10:12:00Z", "2026-11-23T10:11:00Z"))

    assert SAID in str(old.blocks) and "before this verdict" not in str(fresh.blocks)
    assert [] == faults(list(old.blocks))


def test_fleet_says_why_nodes_are_doubtful() -> None:
    """Where a finding about the configuration is the reason."""
    doubtful = fleet(gate(HOUR_S, node("a", Standing.DOUBTFUL, [CLOCK]), node("b")))
    said, well = (replies.fleet((("c", one),)) for one in (doubtful, fleet(gate(HOUR_S, node("a")))))

    assert "doubtful (cause CONFIGURATION): set right what the finding names" in str(said.blocks)
    assert "CONFIGURATION" not in str(well.blocks) and [] == faults(list(said.blocks))
