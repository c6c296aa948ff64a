"""compute.memory_bandwidth and compute.transfer on sound, faulty and unmeasurable memory and links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from checks.model import Cause, Level, Observation, Value, rank_subject
from checks.probes.compute import bit_patterns, device, memory_bandwidth, transfer
from tests.corpus.case import Observe, Rows, Sort, observing
from tests.corpus.compute_machines import (
    GPUS,
    H100,
    LOST,
    OUT_OF_MEMORY,
    P5,
    PEER,
    World,
    alike,
    blind,
    case,
    eight,
    faulty,
    healthy,
    no_cuda,
    one,
    patched,
    without_place,
    world,
)
from tests.fakes import compute as fakes


def _flips_a_word() -> AbstractContextManager[object]:
    """Memory that does not hold what was written: one bit of one word is stuck at 1."""
    import torch

    healthy = torch.Tensor.bitwise_not_

    def bitwise_not_(self: Any) -> Any:
        healthy(self)
        self[76] |= 1
        return self

    return mock.patch.object(torch.Tensor, "bitwise_not_", bitwise_not_)


def _adds_wrongly() -> AbstractContextManager[object]:
    import torch

    healthy = torch.add

    def add(first: Any, second: Any, *, alpha: Any, out: Any) -> Any:
        healthy(first, second, alpha=alpha, out=out)
        out[5] += 1
        return out

    return mock.patch.object(torch, "add", add)


def _memory_p5(odd: Mapping[str, Value]) -> Observe:
    return eight(memory_bandwidth.memory_bandwidth, odd)


BANDWIDTH = memory_bandwidth.memory_bandwidth
FULL: Sequence[World] = [
    patched(device, "is_cuda", lambda name: True),
    patched(device, "require", lambda name: None),
    lambda tmp_path: mock.patch("torch.cuda.empty_cache", lambda: None),
    lambda tmp_path: mock.patch("torch.cuda.mem_get_info", lambda name: (1_000_000_000, 85_000_000_000)),
]
MEMORY = [
    healthy(BANDWIDTH, "this machine's memory", one(BANDWIDTH)),
    healthy(BANDWIDTH, "eight GPUs", _memory_p5({}), P5),
    faulty(BANDWIDTH, "nothing is written", one(BANDWIDTH, [patched(memory_bandwidth, "timed", lambda *of: 0.001)]), "wrong_words"),
    faulty(BANDWIDTH, "a word does not hold", one(BANDWIDTH, [world(_flips_a_word)]), "wrong_words"),
    faulty(BANDWIDTH, "one sum is wrong", one(BANDWIDTH, [world(_adds_wrongly)]),
        "reads back other data than it wrote to memory (2"),
    faulty(BANDWIDTH, "swapped", one(BANDWIDTH, [patched(memory_bandwidth, "timed", lambda run, name: run() or 0.1)]), "copy_gbps",
        cause=Cause.CONFIGURATION),
    faulty(BANDWIDTH, "one GPU's HBM 15 % slower", _memory_p5({"copy_gbps": 2465.0}),
        f"rank-5 copy_gbps copies 2,465 GB/s in memory, 85 % {PEER}", instance_type=P5),
    faulty(BANDWIDTH, "one GPU's triad 7 % slower", _memory_p5({"triad_gbps": 2790.0}), "rank-5", instance_type=P5,
        level=Level.WARN),
    faulty(BANDWIDTH, "one GPU's HBM at 0.7", _memory_p5({"triad_gbps": 1923.0}), "70 % of the expected value (2,747 GB/s)",
        instance_type=P5),
    faulty(BANDWIDTH, "one GPU's HBM at 0.85", _memory_p5({"triad_gbps": 2335.0}), "85 % of the expected value (2,747 GB/s)",
        instance_type=P5, level=Level.WARN),
    faulty(BANDWIDTH, "all GPUs' HBM at 0.7, which no peer tells", alike(BANDWIDTH, "triad_gbps", 0.7),
        "cluster triad_gbps all 8 are affected", instance_type=P5, cause=Cause.CONFIGURATION),
    faulty(BANDWIDTH, "faster than the HBM", alike(BANDWIDTH, "triad_gbps", 1.2), "the measurement is wrong", instance_type=P5,
        cause=Cause.EVIDENCE),
    blind(BANDWIDTH, "no expected values for the model", _memory_p5({}), instance_type="g7.48xlarge"),
    blind(BANDWIDTH, "out of memory", one(BANDWIDTH, [patched(bit_patterns, "make", OUT_OF_MEMORY)])),
    blind(BANDWIDTH, "too little is free", one(BANDWIDTH, FULL, fakes.GPU, P5), instance_type=P5),
    blind(BANDWIDTH, "a clock that stands still",
        one(BANDWIDTH, [patched(memory_bandwidth, "timed", lambda run, name: run() or 0.0)])),
    no_cuda(BANDWIDTH),
    without_place(BANDWIDTH),
]  # fmt: skip


def _sent(change: Callable[[Any], None], factor: float = 1.0) -> World:
    """A link over which every copy is changed, or slower."""
    real = transfer._timed

    def timed(source: Any, target: Any, own: str, other: str) -> float:
        spent = real(source, target, own, other)
        change(target)
        return spent * factor

    return patched(transfer, "_timed", timed)


def _flip(target: Any) -> None:
    target[target.numel() // 2] ^= 1 << 20


def links(*worlds: World) -> Observe:
    return one(transfer.transfer, [GPUS, *worlds], fakes.GPU, P5)


@observing
def one_link(tmp_path: Path, worst: float) -> Rows:
    """Eight ranks, the third of which reaches GPU 6 at another rate."""
    (row,) = links()(tmp_path)
    rows = []
    for rank in range(8):
        to = [1300.0 if index == rank else 390.0 for index in range(8)]
        to[6] = worst if rank == 2 else to[6]
        rows.append(_with_rates(row, "node-0", rank, to, [1] * 8))
    return rows


@observing
def all_links(tmp_path: Path, host_gbps: float, peer_gbps: float) -> Rows:
    """Eight ranks whose links are alike."""
    (row,) = links()(tmp_path)
    to = [[1300.0 if at == rank else peer_gbps for at in range(8)] for rank in range(8)]
    return [_with_rates(row, "node-0", rank, to[rank], [1] * 8, host_gbps=host_gbps) for rank in range(8)]


def _with_rates(
    row: Observation,
    node: str,
    rank: int,
    to: list[float],
    access: list[int],
    in_part: bool = False,
    host_gbps: float = 53.0,
) -> Observation:
    """The row of a rank that reaches each GPU of its node at these rates."""
    rates = transfer.between_gpus(to, access, rank % len(to), in_part)
    metrics: dict[str, Value] = {"p2p_gbps": tuple(rates.values()), "gpus": tuple(rates)}
    metrics |= {"h2d_gbps": host_gbps + 1, "d2h_gbps": host_gbps, "peer_access": tuple(access)}
    return replace(row, metrics={**row.metrics, **metrics}, subject=rank_subject(node, rank))


def two_pairs(tmp_path: Path) -> Sequence[Observation]:
    """Two nodes of two GPUs each, which are joined by PCIe alone."""
    (row,) = links()(tmp_path)
    rates = ([700.0, 25.0], [25.0, 700.0])
    return [_with_rates(row, f"node-{rank // 2}", rank, rates[rank % 2], [1, 1]) for rank in range(4)]


@observing
def cube_mesh(tmp_path: Path, worst: float) -> Rows:
    """The eight V100 of a p3.16xlarge: two NVLinks, one, or none between two of them; rank 2 reaches GPU 3 at `worst`."""
    twice = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
    once = {(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)}

    def rate(pair: tuple[int, int]) -> float:
        return 48.0 if pair in twice else 24.0 if pair in once else 9.0

    (row,) = links()(tmp_path)
    rows = []
    for rank in range(8):
        pairs = [(min(rank, at), max(rank, at)) for at in range(8)]
        to = [360.0 if at == rank else rate(pair) for at, pair in enumerate(pairs)]
        to[3] = worst if rank == 2 else to[3]
        access = [int(at == rank or rate(pair) > 9) for at, pair in enumerate(pairs)]
        rows.append(_with_rates(row, "node-0", rank, to, access, in_part=True, host_gbps=11.0))
    return rows


TRANSFER = [
    healthy(transfer.transfer, "every link", one(transfer.transfer, [GPUS], fakes.GPU, P5, H100["compute.transfer"]), P5),
    healthy(transfer.transfer, "eight ranks", one_link(385.0), P5),
    case(transfer.transfer, Sort.HEALTHY, "two nodes of two GPUs without NVLink", two_pairs, instance_type="g7e.12xlarge", nodes=2),
    healthy(transfer.transfer, "V100s, which are joined in part", cube_mesh(48.0), "p3.16xlarge"),
    faulty(transfer.transfer, "a slow NVLink of a V100", cube_mesh(10.0), "reached directly copies 10 GB/s to another GPU, 42 %",
        instance_type="p3.16xlarge"),
    faulty(transfer.transfer, "one bit of one word", links(_sent(_flip)), "wrong data (3 wrong words, host", instance_type=P5),
    faulty(transfer.transfer, "shifted by a word", links(_sent(lambda data: data.copy_(data.roll(1)))),
        "wrong data (786,432 wrong words", instance_type=P5),
    faulty(transfer.transfer, "nothing arrives", links(patched(transfer, "_timed", lambda *a: 0.001)), "GPU to host",
        instance_type=P5),
    faulty(transfer.transfer, "a link of two lanes", links(_sent(lambda data: None, 10_000.0)), "h2d_gbps copies ", instance_type=P5),
    faulty(transfer.transfer, "every GPU on half of its lanes", all_links(26.0, 390.0), "cluster h2d_gbps all 8 are affected",
        instance_type=P5, cause=Cause.CONFIGURATION),
    faulty(transfer.transfer, "NVLinks at 0.6, all of them", all_links(53.0, 240.0),
        "copies 240 GB/s to another GPU, 72 % of the low", instance_type=P5, cause=Cause.CONFIGURATION),
    faulty(transfer.transfer, "faster than PCIe", all_links(80.0, 390.0), "the measurement is wrong", instance_type=P5,
        cause=Cause.EVIDENCE),
    blind(transfer.transfer, "no expected values for the model", all_links(12.0, 20.0), instance_type="g6.48xlarge"),
    faulty(transfer.transfer, "one slow way to a neighbour", one_link(120.0), f"GPU 6 copies 120 GB/s to another GPU, 31 % {PEER}",
        instance_type=P5),
    blind(transfer.transfer, "seven of eight GPUs", one(transfer.transfer, [world(lambda: fakes.gpus(7))], fakes.GPU, P5),
        instance_type=P5),
    blind(transfer.transfer, "a rank on the CPU", one(transfer.transfer, [], fakes.CPU, P5), instance_type=P5),
    blind(transfer.transfer, "out of memory", links(patched(bit_patterns, "make", OUT_OF_MEMORY)), instance_type=P5),
    blind(transfer.transfer, "a clock that stands still", links(patched(transfer, "_timed", lambda *a: 0.0)), instance_type=P5),
    blind(transfer.transfer, "the device is lost", links(patched(transfer, "_timed", LOST)), instance_type=P5),
    no_cuda(transfer.transfer),
    blind(transfer.transfer, "outside of torchrun", one(transfer.transfer, [], None, P5), instance_type=P5),
]  # fmt: skip


CASES = [*MEMORY, *TRANSFER]
