"""collective.*: the formulas, the sweep, and worlds whose collectives lie."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks.check import RankPlace
from checks.probes.collectives import operations, sweep
from checks.probes.collectives.operations import busbw_gbps
from checks.probes.collectives.sweep import half_width, most_samples, sweep_sizes
from tests.checks.worlds import context
from tests.late import Late

Worlds = Mapping[str, list[Mapping[str, Any]]]


# Rows as nccl-tests printed them: superbenchmark's nccl_allreduce.log, nccl_allgather.log and nccl_reducescatter.log (8 A100), and
# two p5.48xlarge (16 H100): bytes, us, ranks, GB/s.
@pytest.mark.parametrize(
    ("kind", "size_bytes", "time_us", "ranks", "busbw"),
    [
        ("all_reduce", 67108864, 584.5, 8, 200.91),
        ("all_reduce", 8589934592, 63896, 8, 235.26),
        ("all_reduce", 17179869184, 66132, 16, 487.09),
        ("all_gather", 67108864, 379.7, 8, 154.65),
        ("all_gather", 8589934592, 33646, 8, 223.39),
        ("reduce_scatter", 8589934592, 32464, 8, 231.52),
    ],
)
def test_busbw_is_of_nccl_tests(kind: str, size_bytes: int, time_us: float, ranks: int, busbw: float) -> None:
    """The same size, time and ranks give the bandwidth that nccl-tests prints."""
    assert busbw_gbps(kind, size_bytes, time_us / 1e6, ranks) == pytest.approx(busbw, rel=1e-3)


def test_sizes_go_up_by_four_to_the_greatest() -> None:
    """Both ends are measured."""
    assert sweep_sizes(1024, 8 << 20, 1)[:3] == (1024, 4096, 16384)
    assert sweep_sizes(1024, 8 << 20, 1)[-2:] == (4 << 20, 8 << 20)


@pytest.mark.parametrize("ranks", [2, 3, 7, 1000, 1024])
def test_every_share_holds_a_whole_number_of_elements(ranks: int) -> None:
    """In a world of any size each rank gathers at least one element, and no size is measured twice."""
    sizes = sweep_sizes(1024, 8 << 20, ranks)

    assert all(size > 0 and size % (4 * ranks) == 0 for size in sizes)
    assert len(set(sizes)) == len(sizes)


def test_larger_worlds_run_fewer_samples() -> None:
    """A run costs more there, and at least one interval is left."""
    assert [most_samples(ranks) for ranks in (2, 4, 1024, 10**6)] == [100, 50, 10, 10]


def test_the_interval_narrows_with_equal_values_only() -> None:
    """Five equal times are tight, five scattered ones are not, and one says nothing."""
    assert half_width([2.0] * 5) == 0.0
    assert half_width([1.0, 1.0, 2.0, 3.0, 3.0]) == 0.5
    assert half_width([1.0]) == math.inf


@pytest.mark.parametrize("ranks", [2, 3, 127, 1021, 1500])
def test_the_sum_is_the_sum_of_what_is_sent(ranks: int) -> None:
    """Every element, also where the ranks outnumber the patterns' periods."""
    rows = operations.gathered(ranks, 3000, 5, "cpu").view(ranks, -1)

    assert rows.double().sum(dim=0).tolist() == operations.summed(ranks, 3000, 5, "cpu").tolist()


@pytest.mark.parametrize("start", [0, 1, 999, 5000])
def test_a_later_part_is_the_end_of_the_whole(start: int) -> None:
    """A share that begins anywhere is what the whole has there."""
    for made in (operations.sent, operations.summed):
        whole = made(3, start + 700, 2, "cpu")
        assert whole[start:].tolist() == made(3, 700, 2, "cpu", start).tolist()


@pytest.mark.parametrize("ranks", [2, 3, 4, 127, 1021])
def test_no_lie_satisfies_the_sum(ranks: int) -> None:
    """What a rank sent, twice that, an earlier sum and one without a rank all differ from the sum."""
    want = operations.summed(ranks, 2048, 1, "cpu")
    own = operations.sent(0, 2048, 1, "cpu")
    lies = [own, 2 * own, ranks * own, operations.summed(ranks, 2048, 0, "cpu"), want - own, want.roll(512)]

    assert all(bool((lie != want).any()) for lie in lies)
    assert bool((want - own != want).all())


def test_a_sum_that_would_round_is_refused() -> None:
    """Beyond 2^24 a right sum could look wrong, and a wrong one right."""
    assert operations.MOST_RANKS > 14_000
    with pytest.raises(ValueError, match="not exact"):
        operations.summed(operations.MOST_RANKS + 1, 8, 0, "cpu")


def test_collective_ranks_report_the_same_times(world: Worlds) -> None:
    """What was decided together is the same everywhere: sizes, iterations and bandwidths."""
    first, second = world["all_reduce/healthy"]

    assert {key: first[key] for key in first} == {**second, "wrong_elements": first["wrong_elements"]}


dist = Late("torch.distributed")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[operations.World]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield operations.World(0, 1, "cpu")
    dist.destroy_process_group()


def test_the_time_that_nccl_takes_to_begin_is_no_part_of_the_budget(
    alone: operations.World, monkeypatch: pytest.MonkeyPatch
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
    made = sweep.measure_in(alone, context(options=options, place=RankPlace(0, 0, 1, "cpu")), late)

    assert 0 == made.metrics["sizes_left_out"]
    assert 4 == len(made.metrics["sizes_bytes"])  # type: ignore[arg-type]
