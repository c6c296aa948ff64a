"""A world of two real ranks (gloo over loopback) whose clock is simulated: what NVIDIA's GPUs would take.

The data really travels, and results are really compared; only the time of a run is that of a link of `gbps`. The ranks are those of
tests/checks/worlds.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

RANKS = 2
# The function of torch.distributed that each collective calls.
CHECKS = {
    "nccl.all_reduce": "all_reduce",
    "nccl.intra_node": "all_reduce",
    "nccl.inter_node": "all_reduce",
    "nccl.all_gather": "all_gather",
    "nccl.reduce_scatter": "reduce_scatter_single",
    "nccl.alltoall": "all_to_all_single",
    "nccl.sendrecv": "batch_isend_irecv",
    "collective.all_reduce": "all_reduce",
    "collective.all_gather": "all_gather",
}
SABOTAGES = ("healthy", "slow", "doubled", "one_element", "swapped", "nothing", "nan", "raises", "two_groups")


def observed(rank: int) -> dict[str, Any]:
    """What this rank's checks observed in each world, as a report holds it."""
    return {
        f"{name}/{sabotage}": _observed(name, sabotage, rank) for name in CHECKS for sabotage in SABOTAGES
    }


def _observed(name: str, sabotage: str, rank: int) -> Any:
    from checks.catalog import CATALOG
    from checks.documents.report import plain
    from checks.process.observe import probe

    check = next(check for check in CATALOG if check.name == name)
    nodes = RANKS if name == "nccl.inter_node" else 1
    node = rank if nodes > 1 else 0
    with _clock(0.01 if sabotage == "slow" else 60.0), _sabotaged(CHECKS[name], sabotage, rank):
        row = probe(check, _context(check, rank, nodes, sabotage), f"node-{node}/rank-{rank}")
    return plain(row)


def _context(check: Any, rank: int, nodes: int, sabotage: str) -> Any:
    from checks.check import RankPlace
    from checks.facts.builtin import builtin
    from checks.model import Declared
    from tests.checks.worlds import context

    options = {"min_bytes": 16384.0, "max_bytes": 65536.0, "budget_s": 2.0}
    place = RankPlace(rank, rank, 2 * RANKS if sabotage == "two_groups" else RANKS, "cpu")
    return replace(
        context(Path("/nonexistent"), options, place),
        declared=Declared("p5.48xlarge", nodes, RANKS // nodes, RANKS // nodes),
        node=f"node-{rank}",
        node_rank=rank,
        timeout_s=check.timeout_s,
        instance=builtin().instances["p5.48xlarge"],
    )


@contextmanager
def _clock(gbps: float) -> Iterator[None]:
    """Each run takes what a link of `gbps` (10^9 bytes/s) takes; the run itself is real."""
    from checks.probes.collectives import sweep

    real = sweep._time_once

    def simulated(kind: Any, own: Any, result: Any, world: Any) -> float:
        real(kind, own, result, world)
        return float(2e-7 + 4 * max(own.numel(), result.numel()) / gbps / 1e9)

    with mock.patch.object(sweep, "_time_once", simulated):
        yield


@contextmanager
def _sabotaged(called: str, sabotage: str, rank: int) -> Iterator[None]:
    import torch.distributed as dist

    change = CHANGES.get(sabotage)
    real = getattr(dist, called)

    def changed(first: Any, *args: Any, **kwargs: Any) -> Any:
        if sabotage == "raises":
            raise RuntimeError("NCCL error: remote process exited or there was a network error")
        before = _received(first)
        kept = before.clone()
        done = real(first, *args, **kwargs)
        for request in done or ():
            request.wait()  # gloo's can be waited for once
        if sabotage == "nothing":
            before.copy_(kept)
        elif change is not None and (rank == 1 or sabotage != "one_element"):
            change(before)
        return []

    with mock.patch.object(dist, called, changed):
        yield


def _received(first: Any) -> Any:
    """Where the result arrives: of all_gather a list of rows of one tensor, of sendrecv the second operation's."""
    if not isinstance(first, list):
        return first
    return first[1].tensor if hasattr(first[1], "tensor") else first[1]


def _add_one(result: Any) -> None:
    result.view(-1)[-1] += 1


def _double(result: Any) -> None:
    result *= 2


def _nan(result: Any) -> None:
    result.view(-1)[0] = float("nan")


CHANGES: dict[str, Callable[[Any], None]] = {
    "doubled": _double,
    "one_element": _add_one,
    "swapped": lambda result: result.copy_(result.roll(1)),
    "nan": _nan,
}
