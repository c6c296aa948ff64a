"""What such a report is held to: what the operator declared, or else its own cluster_info (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from checks.decode import DecodeError
from checks.facts.provenance import Kind, Provenance
from checks.facts.table import Facts, Instance
from checks.model import Declared
from checks.secondopinion.node import Asked, NodeTable
from checks.secondopinion.shape import ClusterInfo, Unknown, taken

SELF_DECLARED = "self-declared"
_PROVENANCE = Provenance(
    "the report's own cluster_info", "as SageMaker's variables told the job", "2026-11", Kind.DOCUMENTED
)


@dataclass(frozen=True)
class Held:
    """The declaration, whether the operator made all of it, and the facts with a row for it."""

    asked: Asked
    whole: bool
    facts: Facts


def held_to(
    info: ClusterInfo | None, tables: Sequence[NodeTable], facts: Facts, kind: str | None, nodes: int | None
) -> Held:
    """The declaration. A type that nobody named is a row of its own, which knows the GPUs' number and nothing else.

    Without a type only the report can say whether there should be EFA: no node has any, and it is left out.
    """
    count = nodes or (info.cluster_topology.total_nodes if info else len(tables))
    if kind is None:
        gpus = info.cluster_topology.gpus_per_node if info else 0
        own = Instance(gpus, "", _PROVENANCE, efa_devices=None if any(map(_has_efa, tables)) else 0)
        facts = replace(facts, instances={**facts.instances, SELF_DECLARED: own})
    name = kind or SELF_DECLARED
    row = facts.instances.get(name)
    gpus = row.gpus if row else 0
    names = tuple(f"node_{rank}" for rank in range(count))
    declared = Declared(name, count, gpus, max(gpus, 1), names)
    return Held(Asked(declared, row), bool(kind and nodes), facts)


def cluster_info(
    value: object, unknown: Unknown, collection: list[str], *, needed: bool
) -> ClusterInfo | None:
    """cluster_info, with what is wrong with it in `collection`. Raises DecodeError where nothing else declares."""
    try:
        info = taken(ClusterInfo, value, "cluster_info", unknown)
    except DecodeError as error:
        if needed:
            raise
        collection.append(str(error))
        return None
    if info.data_completeness != "complete":
        collection.append(f"the report calls its own data {info.data_completeness!r:.40}")
    return info


def _has_efa(node: NodeTable) -> bool:
    network = node.value.get("network")
    return isinstance(network, Mapping) and network.get("efa_provider_count") not in (None, 0)
