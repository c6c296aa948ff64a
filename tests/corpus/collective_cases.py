"""nccl.* and collective.*: worlds whose collectives lie, crawl or break.

The collectives are real, over gloo, with a simulated clock (tests/fakes/nccl_world.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

from checks import catalog
from checks.check import Check, RankPlace
from checks.documents.decode import decode
from checks.model import Cause, Declared, Level, Observation, Value
from checks.probes.collectives import collectives
from tests.checks.worlds import world_of_session
from tests.corpus.case import Case, Observe, Rows, Sort, cases_of, context, observed, observing
from tests.fakes import nccl_world

INTER, INTRA = "nccl.inter_node", "nccl.intra_node"
# What eight H100 of a p5.48xlarge reach, at 256 MiB and 1 GiB (10^9 bytes/s): all_reduce by AWS's nccl-tests README, its
# share of the network from two nodes' there; the others are made up after 8 x A100 (SuperBench's logs).
LARGE = (256 << 20, 1 << 30)
P5 = {
    "nccl.all_reduce": (415.0, 440.0),
    INTRA: (415.0, 440.0),
    INTER: (30.0, 33.0),
    "nccl.all_gather": (300.0, 328.0),
    "nccl.reduce_scatter": (310.0, 336.0),
    "nccl.alltoall": (320.0, 345.0),
    "nccl.sendrecv": (330.0, 350.0),
}


def found(name: str) -> Check:
    """The catalogue's line."""
    return next(check for check in catalog.CATALOG if check.name == name)


@observing
def world(tmp_path: Path, name: str, sabotage: str, change: Mapping[str, object] | None = None) -> Rows:
    """The two ranks' observations of a collective; `change` replaces metrics."""
    rows = [decode(Observation, row) for row in world_of_session(tmp_path)[f"{name}/{sabotage}"]]
    return [replace(row, metrics={**row.metrics, **(change or {})}) for row in rows]  # type: ignore[dict-item]


@observing
def alone(tmp_path: Path, name: str) -> Rows:
    """The check outside of torchrun."""
    made = context(found(name), tmp_path, place=RankPlace(0, 0, 16, "cpu"), nodes=2)
    return observed(found(name), made, "node-0/rank-0")


def spread(
    name: str, nodes: int, per: int, metrics: Callable[[Observation, int], Mapping[str, Value]]
) -> Observe:
    """The two ranks' observations on so many nodes of so many ranks each; `metrics`: what a row has there instead."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        rows = world(name, "healthy")(tmp_path)
        places = [(rows[rank % 2], rank // per, rank) for rank in range(nodes * per)]
        return [
            replace(row, subject=f"node-{node}/rank-{rank}", metrics={**row.metrics, **metrics(row, node)})
            for row, node, rank in places
        ]

    return observe


def four_nodes(name: str, slow: int, part: float = 0.45) -> Observe:
    """The two ranks' observations on four nodes, of which one reaches this part of the others' speed."""

    def at_part(row: Observation, node: int) -> dict[str, Value]:
        peak = row.metrics["busbw_peak_gbps"]
        assert isinstance(peak, float)
        return {"busbw_peak_gbps": peak * (part if node == slow else 1)}

    return spread(name, 4, 2, at_part)


def machines(name: str, *parts: float) -> Observe:
    """Nodes of eight ranks with the two ranks' observations, and a sound p5's rates times each node's part of them."""
    return spread(name, len(parts), 8, lambda row, node: _with_large(row, name, parts[node]))


def _with_large(row: Observation, name: str, part: float) -> dict[str, Value]:
    rates = [rate * part for rate in P5[name]]
    more: dict[str, Sequence[float]] = {"sizes_bytes": LARGE, "busbw_gbps": rates, "algbw_gbps": rates}
    made: dict[str, Value] = {"busbw_peak_gbps": max(rates)}
    for metric, values in {**more, "iterations": (5, 5)}.items():
        had = row.metrics[metric]
        assert isinstance(had, tuple)
        made[metric] = (*had, *values)
    return made


def of_expected(name: str) -> Iterator[Case]:
    """What is held to what such machines reached."""
    nodes = 2 if name == INTER else 1
    alike = {"cause": Cause.CONFIGURATION, "names": "are affected"}

    case = cases_of(name, nodes=nodes)

    def all_at(part: float) -> Observe:
        return machines(name, *(part,) * nodes)

    yield case(Sort.HEALTHY, "whole machines", all_at(1.0))
    yield case(Sort.UNMEASURABLE, "small messages alone", world(name, "healthy"))
    # nobody published a measurement: the links alone tell
    if name in ("nccl.alltoall", "nccl.sendrecv"):
        yield case(Sort.FAULTY, "all at a fiftieth", all_at(0.02), **alike)
        yield case(Sort.UNMEASURABLE, "unknown links", all_at(0.01), instance_type="g7.48xlarge")
        return
    yield case(Sort.FAULTY, "all at 0.7", all_at(0.6), **alike)
    derived = name in ("nccl.all_gather", "nccl.reduce_scatter")  # their line is drawn from a low end
    slow = all_at(0.73 if derived else 0.85)
    yield case(Sort.FAULTY, "all a little slow", slow, **{**alike, "level": Level.WARN})
    above = {"cause": Cause.EVIDENCE, "names": "the measurement is wrong"}
    yield case(Sort.FAULTY, "faster than the links", all_at(14.0), **above)
    yield case(Sort.UNMEASURABLE, "no baseline", all_at(1.0), instance_type="p6-b200.48xlarge")


def of_collective(name: str) -> Iterator[Case]:
    """What every collective must show of every world."""
    nodes = 2 if name == INTER else 1
    kind = "p5.48xlarge" if name.startswith("nccl.") else "cpu"

    case = cases_of(name, instance_type=kind, nodes=nodes)
    if name in P5:
        yield from of_expected(name)
    else:
        yield case(Sort.HEALTHY, "sound", world(name, "healthy"))
    for lie in ("doubled", "swapped", "nothing", "nan", "one_element"):
        yield case(Sort.FAULTY, lie, world(name, lie), names="rank-1")
    rate = "gbit_s" if nodes > 1 else "busbw"
    yield case(Sort.FAULTY, "slow", world(name, "slow"), cause=Cause.CONFIGURATION, names=rate)
    yield case(Sort.UNMEASURABLE, "peer_lost", world(name, "raises"))
    yield case(Sort.UNMEASURABLE, "another_group", world(name, "two_groups"))
    yield case(Sort.UNMEASURABLE, "no_group", alone(name))
    yield case(Sort.UNMEASURABLE, "sizes_left_out", world(name, "healthy", {"sizes_left_out": 2}))


def of_parts() -> Iterator[Case]:
    """Within nodes and between them."""
    slow = {"level": Level.WARN, "names": "node-2"}
    yield Case(INTRA, Sort.FAULTY, "one_node_slow", four_nodes(INTRA, 2), nodes=4, **slow)  # type: ignore[arg-type]
    yield Case(INTER, Sort.FAULTY, "one_rail_slow", four_nodes(INTER, 2), nodes=4, **slow)  # type: ignore[arg-type]
    crawls = {"level": Level.FAIL, "names": "node-2"}
    yield Case(INTRA, Sort.FAULTY, "one_node_crawls", four_nodes(INTRA, 2, 0.3), nodes=4, **crawls)  # type: ignore[arg-type]
    yield Case(INTER, Sort.FAULTY, "one_rail_crawls", four_nodes(INTER, 2, 0.2), nodes=4, **crawls)  # type: ignore[arg-type]
    yield Case(INTRA, Sort.FAULTY, "one_of_two_nodes_below_what_is_known", machines(INTRA, 1.0, 0.7), nodes=2,
        names="node-1 busbw_gbps all 8 are affected")  # fmt: skip
    yield Case(INTRA, Sort.UNMEASURABLE, "one_gpu_a_node", one_gpu_a_node, "p5.4xlarge", nodes=2)
    # The instance table has no network rate for this type: nothing to hold it to is no health.
    yield Case(INTER, Sort.UNMEASURABLE, "no_rate_in_table", world(INTER, "healthy"), "g5.2xlarge", nodes=2)


def one_gpu_a_node(tmp_path: Path) -> Sequence[Observation]:
    """The body before it calls for a group: it needs none to see that it has no neighbour."""
    check = collectives.intra_node
    made = replace(context(check, tmp_path, "p5.4xlarge", 2), declared=Declared("p5.4xlarge", 2, 1, 1))
    with mock.patch.object(collectives, "whole_world"):
        return [*observed(check, made, "node-0/rank-0"), *observed(check, made, "node-1/rank-1")]


CASES: list[Case] = [*(case for name in nccl_world.CHECKS for case in of_collective(name)), *of_parts()]
