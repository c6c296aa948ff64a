"""A rank stage that cannot be run costs neither the closing checks nor the report's end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checks.check import Check
from checks.model import Observation, Outcome, Profile, Scope
from checks.runner import node_run, rank_stage
from checks.runner.deadline import NEVER
from checks.runner.watchers import Watchers
from tests.sample_reports import toy_check
from tests.survival.world import LOCAL


def test_closing_checks_run_after_a_rank_stage_that_could_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory for torchrun, say: what the closing checks see is worth the more."""
    closing = replace(toy_check("toy.closing"), scope=Scope.NODE, closing=True)
    ranks = replace(toy_check("toy.rank"), scope=Scope.RANK)
    node_context: Any = SimpleNamespace(
        node="node-0",
        node_rank=0,
        planned=lambda: [closing, ranks],
        timeout_s=lambda check: 1.0,
        roster=SimpleNamespace(rendezvous_port=1, members=(SimpleNamespace(name="node-0"),)),
        bundle=SimpleNamespace(
            declared=SimpleNamespace(nodes=1, ranks_per_node=2, gpus_per_node=0),
            gate_id="g",
            network_s=1.0,
            policy=LOCAL,
            profile=Profile.QUICK,
        ),
        deadline=NEVER,
        access=SimpleNamespace(node="node-0"),
    )
    kept: dict[tuple[str, str], Observation] = {}

    class Kept:
        opened, rows = 0.0, kept

        def __call__(self, rows: Any) -> None:
            kept.update({(row.check, row.subject): row for row in rows})

    def isolated(
        node_context: Any, processes: object, opened: float, check: Check, closing: bool = False
    ) -> Observation:
        return Observation(check.name, "node-0", Outcome.MEASURED, 0.0, {"value": 1})

    def stage(*given: object) -> str:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(node_run, "_isolated", isolated)
    responder: Any = SimpleNamespace(close=lambda port: None)
    monkeypatch.setattr(rank_stage, "run_stage", stage)
    node_run._run_stages(
        node_context, cast("Any", None), cast("Any", Kept()), responder, Watchers(node_context)
    )

    assert Outcome.MEASURED is kept["toy.closing", "node-0"].outcome
    assert "Cannot allocate memory" in kept["toy.rank", "node-0/rank-1"].reason
