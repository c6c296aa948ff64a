"""Reads the report of another tool, brunopistone/sagemaker-training-jobs-cluster-health-check, into a Report. Pure.

Everything is derived again from raw output, if there is any. The tool's own results never improve a verdict: they are shown beside
Prelaunch's. The report is compared with the operator's declaration, or with its own cluster_info if there is none. Each observation
of a node's table is measured, or has the reason why not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from checks.documents.report import clip
from checks.facts.instances import Facts, Instance
from checks.facts.provenance import Kind, Provenance
from checks.model import CLUSTER, Declared, Node, Observation, Outcome, Profile, Report, rank_subject
from checks.seed_report import gpus, nccl
from checks.seed_report.detect import TABLES, TOOL
from checks.seed_report.node import DeclaredCluster, Extracted, NodeTable, Unread
from checks.seed_report.plan import DECLARATION, OWN_CLUSTER, RANKS, SECTIONS, plan
from checks.seed_report.shape import ClusterInfo, NodeInfo, Summary, Unknown, table, taken
from checks.value_types import DecodeError

SELF_DECLARED = "self-declared"
_PROVENANCE = Provenance(
    "the report's own cluster_info", "as SageMaker's variables told the job", "2026-11", Kind.DOCUMENTED
)


@dataclass(frozen=True)
class DeclarationUsed:
    """The declaration that is used, whether all of it comes from the operator, and the facts with a row for it."""

    asked: DeclaredCluster
    whole: bool
    facts: Facts


def declaration_used(
    info: ClusterInfo | None, tables: Sequence[NodeTable], facts: Facts, kind: str | None, nodes: int | None
) -> DeclarationUsed:
    """The declaration. If no type is given, a row is made for it that has the number of GPUs and nothing else.

    Without a type only the report could say whether there should be EFA: the row has no EFA, so that it is left out.
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
    return DeclarationUsed(DeclaredCluster(declared, row), bool(kind and nodes), facts)


def cluster_info(
    value: object, unknown: Unknown, collection: list[str], *, needed: bool
) -> ClusterInfo | None:
    """cluster_info, with its errors in `collection`. Raises DecodeError if there is no other declaration."""
    try:
        info = taken(ClusterInfo, value, "cluster_info", unknown)
    except DecodeError as error:
        if needed:
            raise
        collection.append(str(error))
        return None
    if info.data_completeness != "complete":
        collection.append(f"the report describes its own data as {info.data_completeness!r:.40}")
    return info


def _has_efa(node: NodeTable) -> bool:
    network = node.value.get("network")
    return isinstance(network, Mapping) and network.get("efa_provider_count") not in (None, 0)


def observed(node: NodeTable, asked: DeclaredCluster, wanted: frozenset[str]) -> Iterator[Observation]:
    """One observation per check that is wanted. The ranks of the node share what its first rank wrote."""
    for section in SECTIONS:
        names = [name for name in section.checks if name in wanted]
        if names:
            found = attempted(names, lambda read=section.read: read(node, asked))  # type: ignore[misc]
            yield from (row(name, node.name, found[name]) for name in names)
    if RANKS in wanted:
        found = attempted((RANKS,), lambda: {RANKS: nccl.processes(node, asked)})
        first = node.rank * asked.declared.ranks_per_node
        for rank in range(first, first + asked.declared.ranks_per_node):
            yield row(RANKS, rank_subject(node.name, rank), found[RANKS])


def attempted(
    names: Sequence[str], read: Callable[[], Mapping[str, Extracted | Unread]]
) -> Mapping[str, Extracted | Unread]:
    """What the reader of a section returns. If it raises an exception, only this section of this node is lost."""
    try:
        return read()
    except (DecodeError, Unread) as error:
        return dict.fromkeys(names, Unread(str(error), getattr(error, "evidence", "")))
    except Exception as error:  # noqa: BLE001 - a hostile section costs its own observations, said as not measured
        return dict.fromkeys(names, Unread(f"the reader failed: {type(error).__name__}: {error}"))


def row(check: str, subject: str, found: Extracted | Unread) -> Observation:
    """What was found, as an observation."""
    evidence, cut = clip(found.evidence)
    if isinstance(found, Extracted):
        return Observation(
            check, subject, Outcome.MEASURED, 0.0, found.metrics, evidence=evidence, evidence_truncated=cut
        )
    outcome = Outcome.SKIPPED if found.skip else Outcome.ERRORED
    return Observation(
        check, subject, outcome, 0.0, skip=found.skip, reason=clip(str(found))[0], evidence=evidence
    )


NOBODY = {"", "unknown"}  # what the tool writes if SageMaker's variables are not set
# This many undeclared or malformed tables are read or named one by one; the others are only counted.
MOST_STRANGERS = 64
_NODE = re.compile(r"node_(0|[1-9]\d{0,4})")
_NODE_KEYS = ("timestamp", "node_info", "summary", "gpu", "system", "network", "nccl", "dcgm")


@dataclass(frozen=True)
class OwnVerdict:
    """The tool's own status of the cluster and of each node; "" if it has none."""

    overall: str
    nodes: Mapping[str, str]


@dataclass(frozen=True)
class ImportedReport:
    """The report in Prelaunch's form, and the facts to judge it by. `not_judged` are keys that are not known here."""

    report: Report
    facts: Facts
    own: OwnVerdict
    not_judged: tuple[str, ...]


def read(
    value: object, facts: Facts, instance_type: str | None = None, nodes: int | None = None
) -> ImportedReport:
    """The report, compared with the declared type and number of nodes, or with its own cluster_info if one is missing.

    Raises DecodeError if neither declares them, and if the report does not have the tool's shape.
    """
    top = table(value, "")
    unknown: Unknown = [(key, item) for key, item in top.items() if key not in ("timestamp", *TABLES)]
    collection: list[str] = []
    needed = not (instance_type and nodes)
    info = cluster_info(top.get("cluster_info"), unknown, collection, needed=needed)
    tables = tuple(_tables(table(top.get("nodes"), "nodes"), collection))
    held = declaration_used(info, tables, facts, instance_type, nodes)
    tables = _bounded(tables, held, collection)
    report = _report(top, tables, held, collection, unknown)
    own = OwnVerdict(
        _word(top.get("cluster_summary")), {each.name: _word(each.value.get("summary")) for each in tables}
    )
    return ImportedReport(report, held.facts, own, _named(unknown))


def _report(
    top: Mapping[str, object],
    tables: Sequence[NodeTable],
    held: DeclarationUsed,
    collection: list[str],
    unknown: Unknown,
) -> Report:
    declared = held.asked.declared
    planned = plan(declared, held.asked.instance)
    wanted = frozenset(each.check for each in planned if each.skip is None)
    rows = [_declaration(held), _own_cluster(top.get("cluster_summary"), unknown)]
    for each in tables:
        rows += observed(each, held.asked, wanted)
    nodes = tuple(_node(each, collection) for each in tables)
    collection += _about_hosts(nodes)
    unknown += [pair for each in tables for pair in each.unknown]
    collection += [
        f"{path[:200]} reports a failure, but this key is unknown" for path, item in unknown if _cries(item)
    ]
    if declared.gpus_per_node == 0:
        collection.append(
            "0 GPUs per node are declared: the tool treats nodes that lost their GPUs as CPU-only nodes, and passes them"
        )
    return Report(
        gate_id=TOOL,
        attempt=TOOL,
        measured_at=_stamp(top),
        profile=Profile.STANDARD,
        declared=declared,
        catalogue=TOOL,
        plan=planned,
        nodes=nodes,
        observations=tuple(rows),
        collection=tuple(dict.fromkeys(collection)),
    )


def _tables(nodes: Mapping[str, object], collection: list[str]) -> Iterator[NodeTable]:
    """The nodes by number. What is not the table of a node is reported."""
    found, odd = {}, list[str]()
    for key, item in nodes.items():
        named = _NODE.fullmatch(key)
        if named is None or not isinstance(item, Mapping):
            odd.append(f"nodes.{key[:60]} is not the table of a node")
        else:
            extra = [
                (f"nodes.{key}.{other}", each) for other, each in item.items() if other not in _NODE_KEYS
            ]
            found[int(named[1])] = NodeTable(key, int(named[1]), item, extra)
    collection += odd[:MOST_STRANGERS]
    if len(odd) > MOST_STRANGERS:
        collection.append(f"{len(odd) - MOST_STRANGERS} more are not tables of nodes")
    return (found[number] for number in sorted(found))


def _bounded(
    tables: tuple[NodeTable, ...], held: DeclarationUsed, collection: list[str]
) -> tuple[NodeTable, ...]:
    """The tables of the declared nodes and some of the others, so that a million of them do not take hours."""
    most = held.asked.declared.nodes + MOST_STRANGERS
    if len(tables) > most:
        collection.append(
            f"{len(tables) - most} more nodes have tables but are not declared, so they were not read"
        )
    return tables[:most]


def _declaration(held: DeclarationUsed) -> Observation:
    declared = held.asked.declared
    said = f"{declared.nodes} nodes of {declared.gpus_per_node} GPUs ({declared.instance_type})"
    return row(DECLARATION, CLUSTER, Extracted({"counts": "declared" if held.whole else SELF_DECLARED}, said))


def _own_cluster(value: object, unknown: Unknown) -> Observation:
    found = attempted(
        (OWN_CLUSTER,),
        lambda: {OWN_CLUSTER: gpus.status_of(taken(Summary, value, "cluster_summary", unknown))},
    )
    return row(OWN_CLUSTER, CLUSTER, found[OWN_CLUSTER])


def _node(node: NodeTable, collection: list[str]) -> Node:
    """The node under its own name. A node whose own number differs from its key is reported."""
    identity: dict[str, str] = {"own word": _word(node.value.get("summary"))}
    try:
        info = taken(NodeInfo, node.value.get("node_info"), f"nodes.{node.name}.node_info", node.unknown)
    except DecodeError as error:
        collection.append(str(error))
        return Node(node.name, node.rank, TOOL, TOOL, True, identity, _stamp(node.value))
    if info.host_rank != node.rank:
        collection.append(f"{node.name} calls itself node {info.host_rank}: one of them occurs twice")
    identity |= {"host": info.hostname[:253], "algo": info.current_host[:253]}
    return Node(node.name, node.rank, TOOL, TOOL, True, identity, _stamp(node.value))


def _about_hosts(nodes: Sequence[Node]) -> Iterator[str]:
    """Two tables of one host are one node, and the other node is missing."""
    for node in nodes:
        if len(nodes) > 1 and {node.identity.get("host", ""), node.identity.get("algo", "")} <= NOBODY:
            yield f"{node.name} does not say which machine it is, so it may be the table of another machine"
    for key in ("host", "algo"):
        seen: dict[str, str] = {}
        for node in nodes:
            name = node.identity.get(key, "")
            if name in seen and name not in NOBODY:
                yield f"{seen[name]} and {node.name} are one machine ({name[:80]})"
            seen.setdefault(name, node.name)


def _stamp(value: Mapping[str, object]) -> str:
    stamp = value.get("timestamp")
    return stamp[:64] if isinstance(stamp, str) else ""


def _word(summary: object) -> str:
    word = summary.get("overall_status") if isinstance(summary, Mapping) else None
    return word[:40] if isinstance(word, str) else ""


def _cries(value: object) -> bool:
    """Whether a key that is not known here reports a failure."""
    if isinstance(value, Mapping):
        word = str(value.get("overall_status", value.get("status", ""))).upper()
        return value.get("success") is False or word.startswith("FAIL") or any(map(_cries, value.values()))
    return isinstance(value, list) and any(map(_cries, value))


def _named(unknown: Unknown) -> tuple[str, ...]:
    """The paths, once for all nodes and GPUs."""
    paths = (re.sub(r"\b(node|gpu)_\d+\b", r"\1_*", path[:200]) for path, _ in unknown)
    return tuple(dict.fromkeys(paths))[:200]
