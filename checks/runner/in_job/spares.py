"""Which nodes of a job train that has more nodes than its training needs. Pure.

Leaving a node out explains only what was found on that node, or on a link of it: a fault of the image, the policy, a switch or the
network stays a refusal. Whatever failed, the nodes that are left are measured again without the others.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from checks.culprit.topology import switches_of
from checks.model import CLUSTER, LINK, Cause, Declared, Finding, Level, NodeName, Report, Verdict, node_of


@dataclass(frozen=True)
class Choice:
    """The nodes that continue, in the order of their ranks, and the start of the job under whose token they do."""

    attempt: str
    nodes: tuple[NodeName, ...]


def choose(report: Report, verdict: Verdict) -> tuple[str, ...]:
    """The nodes for the training, in the order of their ranks; () where the job has no spares, or too few to leave out what failed, or
    as many as the training has nodes: two halves that lost sight of each other would each be a choice.

    Nodes without a whole report and nodes that failed are left out, or where there are none those with missing evidence; of a bad link
    the end that explains most. Then those with the most warnings, and then those without which the fewest switches are used.
    """
    declared, names = report.declared, [node.name for node in report.nodes if node.complete]
    wanted, is_safe = without_spares(declared).nodes, declared.nodes > 2 * declared.spares
    failures = [item for item in verdict.findings if item.level is Level.FAIL and not item.follows]
    nodes_and_cluster = {CLUSTER, *declared.node_names, *(node.name for node in report.nodes)}
    elsewhere = any(not nodes_and_cluster.issuperset(_ends(item)) for item in failures)  # a rail, or a switch
    if not declared.spares or not is_safe or verdict.suspect_policy or elsewhere or len(names) < wanted:
        return ()
    is_whole = len(names) == declared.nodes
    faults = [item for item in failures if item.cause is not Cause.EVIDENCE]
    if not faults and is_whole:  # where a node is gone, evidence of others may be missing because of it
        faults = failures
    bad = [ends for ends in map(_ends, faults) if ends.issubset(names)]
    left_out = _fewest(bad, len(names) - wanted)
    if left_out is None or (failures and not left_out and is_whole):
        return ()
    # What is left of the findings without these: a failure counts more than all warnings.
    rest = [item for item in verdict.findings if _ends(item).isdisjoint(left_out) and not item.follows]
    doubts = Counter[str]()
    for item in rest:
        doubts.update(dict.fromkeys(_ends(item), {Level.WARN: 1, Level.FAIL: len(rest)}.get(item.level, 0)))
    leaves = {node: switches[:1] for node, switches in switches_of(report).items()}
    chosen = [name for name in names if name not in left_out]
    while len(chosen) > wanted:
        chosen.remove(_next_spare(chosen, len(chosen) - wanted, doubts, leaves))
    return tuple(chosen)


def without_spares(declared: Declared) -> Declared:
    """The nodes that are left when as many as there are spares are left out; their names are not known before."""
    return replace(declared, nodes=declared.nodes - declared.spares, spares=0, node_names=())


def next_attempt(attempt: str) -> str:
    """The token of the start in which the chosen nodes are measured without those that this start left out."""
    return hashlib.sha256(f"{attempt} without spares".encode()).hexdigest()[:32]


def _ends(finding: Finding) -> frozenset[str]:
    """The node that a finding is about, both nodes of a link, or the cluster."""
    return frozenset(map(node_of, finding.subject.split(LINK)))


def _fewest(bad: Sequence[frozenset[str]], most: int) -> Set[str] | None:
    """The fewest nodes without which none of these findings is left; None if these are more than `most`."""
    if most < 0 or not bad:
        return None if most < 0 else frozenset()
    counts = Counter(end for ends in bad for end in ends)
    worst = max(sorted(counts, reverse=True), key=lambda end: (frozenset({end}) in bad, counts[end]))
    others = frozenset().union(*(ends for ends in bad if worst in ends)) - {worst}
    # Of a link that shares no end with another one, one end is as good as the other.
    is_certain = frozenset({worst}) in bad or counts[worst] == 1
    covers = []
    for nodes in ({worst},) if is_certain else ({worst}, others):
        rest = _fewest([ends for ends in bad if ends.isdisjoint(nodes)], most - len(nodes))
        covers += [] if rest is None else [rest | nodes]
    return min(covers, key=len, default=None)


def _next_spare(
    chosen: Sequence[str], room: int, doubts: Mapping[str, int], leaves: Mapping[str, tuple[str, ...]]
) -> str:
    """The node that is needed least, where `room` nodes may go: a leaf switch is left out as a whole, or the largest gives one."""
    sizes = Counter(leaves[name] for name in chosen)

    def need(index: int) -> tuple[int, ...]:
        size = sizes[leaves[chosen[index]]]
        by_leaf = (0, size) if size <= room else (1, -size)
        return (-doubts[chosen[index]], *by_leaf, -index)

    return chosen[min(range(len(chosen)), key=need)]
