"""The report of another tool, brunopistone/sagemaker-training-jobs-cluster-health-check -> our Report (pure).

Everything is derived again from raw output, where there is any. The tool's own words decide nothing in anybody's
favour: they are kept beside ours.

What such a report is held to: what the operator declared, or else its own cluster_info (pure).

The observations of a node's table: measured, or not and why (pure).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from checks.documents.decode import DecodeError
from checks.documents.report import clip
from checks.facts.instances import Facts, Instance
from checks.facts.provenance import Kind, Provenance
from checks.model import CLUSTER, Declared, Node, Observation, Outcome, Profile, Report, rank_subject
from checks.seed_report import gpus, nccl
from checks.seed_report.detect import TABLES, TOOL
from checks.seed_report.node import Asked, NodeTable, Shown, Unread
from checks.seed_report.plan import DECLARATION, OWN_CLUSTER, RANKS, SECTIONS, plan
from checks.seed_report.shape import ClusterInfo, NodeInfo, Summary, Unknown, table, taken

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


def observed(node: NodeTable, asked: Asked, wanted: frozenset[str]) -> Iterator[Observation]:
    """One of every wanted check; the ranks of the node share what its first rank wrote."""
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
    names: Sequence[str], read: Callable[[], Mapping[str, Shown | Unread]]
) -> Mapping[str, Shown | Unread]:
    """What the reader makes of its section; whatever it raises costs this section of this node alone."""
    try:
        return read()
    except (DecodeError, Unread) as error:
        return dict.fromkeys(names, Unread(str(error), getattr(error, "evidence", "")))
    except Exception as error:  # noqa: BLE001 - a hostile section costs its own observations, said as not measured
        return dict.fromkeys(names, Unread(f"the reader failed: {type(error).__name__}: {error}"))


def row(check: str, subject: str, found: Shown | Unread) -> Observation:
    """What was found, as an observation."""
    evidence, cut = clip(found.evidence)
    if isinstance(found, Shown):
        return Observation(
            check, subject, Outcome.MEASURED, 0.0, found.metrics, evidence=evidence, evidence_truncated=cut
        )
    outcome = Outcome.SKIPPED if found.skip else Outcome.ERRORED
    return Observation(
        check, subject, outcome, 0.0, skip=found.skip, reason=clip(str(found))[0], evidence=evidence
    )


NOBODY = {"", "unknown"}  # what the tool writes where SageMaker's variables are not set
# So many tables that nobody declared, or that are none, are read or named one by one; of the others their number is said.
MOST_STRANGERS = 64
_NODE = re.compile(r"node_(0|[1-9]\d{0,4})")
_NODE_KEYS = ("timestamp", "node_info", "summary", "gpu", "system", "network", "nccl", "dcgm")


@dataclass(frozen=True)
class OwnVerdict:
    """What the tool said itself: of the cluster, and of each node; "" where it said nothing."""

    overall: str
    nodes: Mapping[str, str]


@dataclass(frozen=True)
class Opinion:
    """The report as ours, and the facts to judge it by. `not_judged` are keys that nobody here knows."""

    report: Report
    facts: Facts
    own: OwnVerdict
    not_judged: tuple[str, ...]


def read(value: object, facts: Facts, instance_type: str | None = None, nodes: int | None = None) -> Opinion:
    """The report, held to the declared type and number of nodes; to its own cluster_info where one is missing.

    Raises DecodeError where nothing declares them, and for what has not the shape.
    """
    top = table(value, "")
    unknown: Unknown = [(key, item) for key, item in top.items() if key not in ("timestamp", *TABLES)]
    collection: list[str] = []
    needed = not (instance_type and nodes)
    info = cluster_info(top.get("cluster_info"), unknown, collection, needed=needed)
    tables = tuple(_tables(table(top.get("nodes"), "nodes"), collection))
    held = held_to(info, tables, facts, instance_type, nodes)
    tables = _bounded(tables, held, collection)
    report = _report(top, tables, held, collection, unknown)
    own = OwnVerdict(
        _word(top.get("cluster_summary")), {each.name: _word(each.value.get("summary")) for each in tables}
    )
    return Opinion(report, held.facts, own, _named(unknown))


def _report(
    top: Mapping[str, object],
    tables: Sequence[NodeTable],
    held: Held,
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
        f"{path[:200]} says that something failed, and is not known here"
        for path, item in unknown
        if _cries(item)
    ]
    if declared.gpus_per_node == 0:
        collection.append(
            "0 GPUs a node are declared: the tool calls nodes whose GPUs are gone CPU-only, and passes them"
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
    """The nodes by number; what is none is said."""
    found, odd = {}, list[str]()
    for key, item in nodes.items():
        named = _NODE.fullmatch(key)
        if named is None or not isinstance(item, Mapping):
            odd.append(f"nodes.{key[:60]} is no node's table")
        else:
            extra = [
                (f"nodes.{key}.{other}", each) for other, each in item.items() if other not in _NODE_KEYS
            ]
            found[int(named[1])] = NodeTable(key, int(named[1]), item, extra)
    collection += odd[:MOST_STRANGERS]
    if len(odd) > MOST_STRANGERS:
        collection.append(f"{len(odd) - MOST_STRANGERS} more are no node's table")
    return (found[number] for number in sorted(found))


def _bounded(tables: tuple[NodeTable, ...], held: Held, collection: list[str]) -> tuple[NodeTable, ...]:
    """The declared nodes' tables and some of the others; a million strangers cost nobody hours."""
    most = held.asked.declared.nodes + MOST_STRANGERS
    if len(tables) > most:
        collection.append(f"{len(tables) - most} more nodes have tables, but were not declared: not read")
    return tables[:most]


def _declaration(held: Held) -> Observation:
    declared = held.asked.declared
    said = f"{declared.nodes} nodes of {declared.gpus_per_node} GPUs ({declared.instance_type})"
    return row(DECLARATION, CLUSTER, Shown({"counts": "declared" if held.whole else SELF_DECLARED}, said))


def _own_cluster(value: object, unknown: Unknown) -> Observation:
    found = attempted(
        (OWN_CLUSTER,),
        lambda: {OWN_CLUSTER: gpus.word_of(taken(Summary, value, "cluster_summary", unknown))},
    )
    return row(OWN_CLUSTER, CLUSTER, found[OWN_CLUSTER])


def _node(node: NodeTable, collection: list[str]) -> Node:
    """The node as it calls itself; one that calls itself another than its key says is said."""
    identity: dict[str, str] = {"own word": _word(node.value.get("summary"))}
    try:
        info = taken(NodeInfo, node.value.get("node_info"), f"nodes.{node.name}.node_info", node.unknown)
    except DecodeError as error:
        collection.append(str(error))
        return Node(node.name, node.rank, TOOL, TOOL, True, identity, _stamp(node.value))
    if info.host_rank != node.rank:
        collection.append(f"{node.name} calls itself node {info.host_rank}: one of them is there twice")
    identity |= {"host": info.hostname[:253], "algo": info.current_host[:253]}
    return Node(node.name, node.rank, TOOL, TOOL, True, identity, _stamp(node.value))


def _about_hosts(nodes: Sequence[Node]) -> Iterator[str]:
    """Two tables of one host are one node: what it hides is the other."""
    for node in nodes:
        if len(nodes) > 1 and {node.identity.get("host", ""), node.identity.get("algo", "")} <= NOBODY:
            yield f"{node.name} does not say which machine it is: it may be another one's table"
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
    """Whether something that is not known here says that it failed."""
    if isinstance(value, Mapping):
        word = str(value.get("overall_status", value.get("status", ""))).upper()
        return value.get("success") is False or word.startswith("FAIL") or any(map(_cries, value.values()))
    return isinstance(value, list) and any(map(_cries, value))


def _named(unknown: Unknown) -> tuple[str, ...]:
    """The paths, once for all nodes and GPUs."""
    paths = (re.sub(r"\b(node|gpu)_\d+\b", r"\1_*", path[:200]) for path, _ in unknown)
    return tuple(dict.fromkeys(paths))[:200]
