"""The checks that such a report can contain, to which declarations each applies, and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from checks.facts.instances import Instance, lacks
from checks.model import Declared, Part, Planned, Scope, Skip
from checks.seed_report import dcgm, efa, gpus, nccl
from checks.seed_report.node import DeclaredCluster, NodeTable, Readings

Reader = Callable[[NodeTable, DeclaredCluster], Readings]
DECLARATION, OWN_CLUSTER = "declaration", "own.cluster"
RANKS = "nccl.ranks"


@dataclass(frozen=True)
class Section:
    """The checks that are read from one section of a node's table."""

    checks: Mapping[str, tuple[str, ...]]
    read: Reader


@dataclass(frozen=True)
class Applies:
    """To which declarations a check applies, as the policy's entry for it says."""

    part: Part = Part.ANY
    min_nodes: int = 1
    min_ranks: int = 1


SECTIONS = (
    Section(gpus.CHECKS, gpus.read),
    Section(gpus.RESOURCES, gpus.resources),
    Section(efa.CHECKS, efa.read),
    Section(nccl.CHECKS, nccl.read),
    Section(dcgm.CHECKS, dcgm.read),
    Section(gpus.OWN, gpus.own_status),
)
APPLIES: Mapping[str, Applies] = {
    **dict.fromkeys(gpus.CHECKS, Applies(Part.GPU)),
    **dict.fromkeys(dcgm.CHECKS, Applies(Part.GPU)),
    "efa.devices": Applies(Part.EFA, min_nodes=2),
    "efa.plugin": Applies(Part.EFA, min_nodes=2),
    "efa.pingpong": Applies(Part.EFA, min_nodes=2),
    "nccl.all_reduce": Applies(Part.GPU, min_ranks=2),
    "nccl.inter_node": Applies(Part.GPU, min_nodes=2),
    RANKS: Applies(Part.GPU),
}


def plan(declared: Declared, instance: Instance | None) -> tuple[Planned, ...]:
    """Every check, with the reason in the declaration for those that do not apply."""
    made = [
        Planned(DECLARATION, Scope.CLUSTER, ("counts",)),
        Planned(OWN_CLUSTER, Scope.CLUSTER, gpus.OWN["own.word"]),
    ]
    scoped = [(name, Scope.NODE, metrics) for each in SECTIONS for name, metrics in each.checks.items()]
    scoped += [(name, Scope.RANK, metrics) for name, metrics in nccl.RANKS.items()]
    for name, scope, metrics in scoped:
        made.append(Planned(name, scope, metrics, _skip(APPLIES.get(name, Applies()), declared, instance)))
    return tuple(made)


def _skip(applies: Applies, declared: Declared, instance: Instance | None) -> Skip | None:
    lacking = lacks(applies.part, declared, instance)
    if lacking is not None:
        return lacking
    if declared.nodes < applies.min_nodes:
        return Skip.ONE_NODE_DECLARED
    return Skip.ONE_RANK_DECLARED if declared.ranks < applies.min_ranks else None
