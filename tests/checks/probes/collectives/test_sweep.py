"""The sweep's clock: what happens before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks.check import RankPlace
from checks.probes.collectives import operations, sweep
from tests.checks.worlds import context
from tests.late import Late

dist = Late("torch.distributed")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[operations.World]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield operations.World(0, 1, "cpu")
    dist.destroy_process_group()


def test_the_time_that_nccl_takes_to_begin_is_no_part_of_the_budget(
    world: operations.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would leave none for the sizes: they would be left out, on every healthy cluster."""
    now = 0.0
    clock = SimpleNamespace(monotonic=lambda: now, perf_counter=lambda: now)
    monkeypatch.setattr(sweep, "time", clock)

    def run(own: Any, result: Any, of: operations.World) -> None:
        nonlocal now
        now += 0.0001 if now else 0.5

    late = replace(operations.ALL_REDUCE, run=run)
    options = {"min_bytes": 1024.0, "max_bytes": 65536.0, "budget_s": 0.05}
    made = sweep.measure_in(world, context(options=options, place=RankPlace(0, 0, 1, "cpu")), late)

    assert 0 == made.metrics["sizes_left_out"]
    assert 4 == len(made.metrics["sizes_bytes"])  # type: ignore[arg-type]
