"""Which nodes of several reports are one machine (pure): by the firmware's id and the GPUs' UUIDs, else by name.

Boots, addresses and ranks change; host names are given away again. A GPU that is gone does not make another machine.

Clocks that disagree: the times at which the nodes of one attempt say that they ended (pure).

Nodes end together: each waits for the others at the barriers, and what comes after the ranks takes a node seconds.

Arrays of sound rows that leave something out: shorter than their labels, or without a declared GPU (pure).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import chain
from statistics import median

from checks.documents.columns import Rows
from checks.model import (
    CLUSTER,
    Cause,
    Count,
    Coverage,
    Declared,
    Finding,
    FindingKind,
    Level,
    Node,
    Planned,
    Report,
    Scope,
    node_of,
    rank_subject,
)
from checks.policy import RELATIVE, CheckPolicy

Place = tuple[int, str]


@dataclass(frozen=True)
class Seen:
    """One machine: (index of the report, the node as it was then), in the reports' order, and what tells it from others."""

    known_by: str
    nodes: tuple[tuple[int, Node], ...]

    @property
    def name(self) -> str:
        """Its newest name."""
        return self.nodes[-1][1].name


def machines(reports: Sequence[Report]) -> list[Seen]:
    """All machines, in the order in which they were first seen."""
    root: dict[Place, Place] = {}
    of_key: dict[str, Place] = {}
    nodes: dict[Place, Node] = {}
    for index, report in enumerate(reports):
        shared = Counter(key for node in report.nodes for key in set(_keys(node)))
        names = Counter(node.name for node in report.nodes)
        for node in report.nodes:
            if names[node.name] > 1:  # nobody knows which of the two a row is of
                continue
            place = (index, node.name)
            nodes[place], root[place] = node, place
            for key in _keys(node) or (f"name {node.name}",):
                if shared[key] <= 1:
                    _join(root, of_key.setdefault(key, place), place)
    groups: dict[Place, list[Place]] = {}
    for place in nodes:
        groups.setdefault(_top(root, place), []).append(place)
    return [seen for places in groups.values() for seen in _split(places, nodes)]


def twins(nodes: Sequence[Node]) -> Iterator[tuple[str, str, str]]:
    """(a node, an earlier one, what they share) for nodes of one report that are one machine: two names, one measurement."""
    first: dict[str, str] = {}
    for node in nodes:
        boot = node.identity.get("boot_id", "")
        for key in (*((f"boot_id {boot}",) if boot else ()), *_keys(node)):
            other = first.setdefault(key, node.name)
            if other != node.name:
                yield node.name, other, key
                break


def gpu_uuids(node: Node) -> frozenset[str]:
    """The node's GPUs; empty where they could not be read."""
    return frozenset(filter(None, node.identity.get("gpu_uuids", "").split(",")))


def _keys(node: Node) -> tuple[str, ...]:
    uuid = node.identity.get("product_uuid", "")
    found = (f"product_uuid {uuid}",) if uuid else ()
    return (*found, *(f"GPU {one}" for one in sorted(gpu_uuids(node))))


def _split(places: list[Place], nodes: dict[Place, Node]) -> Iterator[Seen]:
    """One machine cannot be two nodes of one report (a GPU was moved): then names tell them apart."""
    indices = [index for index, _ in places]
    if len(set(indices)) == len(indices):
        known = any(_keys(nodes[place]) for place in places)
        yield Seen("its own ids" if known else "its name alone", tuple((i, nodes[i, n]) for i, n in places))
        return
    for name in dict.fromkeys(name for _, name in places):
        mine = tuple((i, nodes[i, n]) for i, n in places if n == name)
        yield Seen("its name alone: its ids are those of another machine as well", mine)


def _top(root: dict[Place, Place], place: Place) -> Place:
    while root[place] != place:
        root[place] = root[root[place]]
        place = root[place]
    return place


def _join(root: dict[Place, Place], one: Place, other: Place) -> None:
    root[_top(root, other)] = _top(root, one)


# Five minutes is what Kerberos bears (MIT krb5: clockskew = 300; RFC 4120, 1.6), and AWS when it checks a signature
# (Signature Version 4: requests older than five minutes are refused).
WARN_S = 300.0
# A time zone taken for another is off by an hour and more; no closing check runs that long.
FAIL_S = 3600.0
CLOCK_REMEDY = (
    "Check this node's clock (timedatectl, chronyc tracking) and correct it. "
    "If it is right, find out why its report ended at another time."
)


def judge_clocks(nodes: Sequence[Node]) -> Iterator[Finding]:
    """A finding for each finished node whose clock is far from the middle one's, or that says no time."""
    whole = [node for node in nodes if node.complete]
    if len(nodes) < 2:
        return
    times = {node.name: seconds_of(node.measured_at) for node in whole}
    mute = [name for name, time in times.items() if time is None]
    if mute:
        said = f"{len(mute)} of {len(nodes)} reports have no timestamp, so their clocks were not compared: {mute[0]}"
        yield Finding(
            Level.WARN,
            Cause.EVIDENCE,
            "report",
            CLUSTER,
            said,
            "",
            "Use one version of Prelaunch on every node.",
        )
    known = {name: time for name, time in times.items() if time is not None}
    middle = median(known.values()) if known else 0.0
    far = {name for name, time in known.items() if abs(time - middle) > WARN_S}
    spread = max(known.values(), default=0.0) - min(known.values(), default=0.0)
    if spread > WARN_S and not far:  # two halves, each as far from the middle: nobody knows which is right
        said = f"the clocks of the nodes differ by {spread:.0f} s (threshold {WARN_S:.0f} s)"
        yield Finding(_level(spread), Cause.EVIDENCE, "report", CLUSTER, said, "", CLOCK_REMEDY)
    for name, time in known.items():
        if name in far:
            apart = abs(time - middle)
            side = "ahead of" if time > middle else "behind"
            said = f"this node's clock is {apart:.0f} s {side} the median of all nodes (threshold {WARN_S:.0f} s)"
            yield Finding(_level(apart), Cause.EVIDENCE, "report", name, said, "", CLOCK_REMEDY)


def _level(apart_s: float) -> Level:
    return Level.FAIL if apart_s > FAIL_S else Level.WARN


def seconds_of(iso: str) -> float | None:
    """Unix seconds of a UTC time in ISO 8601; None for what is none."""
    try:
        made = datetime.fromisoformat(iso.replace("Z", "+00:00"))
        return made.timestamp() if made.tzinfo else made.replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None


GPUS = "gpus"  # the array that labels what a check says of each GPU
FAMILIES = ("gpu.", "dcgm.")
LIST_REMEDY = "Run the gate again. If the finding returns, read this node's log."


def judge_lists(planned: Planned, rows: Rows, declared: Declared, line: CheckPolicy) -> Iterator[Finding]:
    """A finding, cause EVIDENCE, for each row of which something was not measured."""
    return chain(_about_lengths(rows, line), _about_gpus(planned, rows, declared, line))


def _about_lengths(rows: Rows, line: CheckPolicy) -> Iterator[Finding]:
    """Arrays that are not as long as the one that says what their elements are: something was not measured."""
    level = Level.FAIL if line.required else Level.WARN
    for metric, names in _labelled(line):
        columns = rows.column(metric), rows.column(names)
        whole = all(set(map(type, column)) == {tuple} for column in columns)
        if whole and [*map(len, columns[0])] == [*map(len, columns[1])]:  # type: ignore[arg-type]
            continue
        for place, (values, labels) in enumerate(zip(*columns, strict=True)):
            if type(values) is tuple and type(labels) is tuple and len(values) != len(labels):
                said = f"not measured: {metric} has {len(values)} values for {len(labels)} {names}"
                yield _missing(rows, place, said, level)


def _labelled(line: CheckPolicy) -> list[tuple[str, str]]:
    """Metric and labels. What is compared place by place has no labels of its own: those of the check are its, if one."""
    found = {(rule.metric, name) for rule in line.rules for name in (rule.each, rule.at) if name}
    labels = {name for _, name in found}
    if len(labels) == 1:
        bare = (rule for rule in line.rules if rule.over in RELATIVE and not (rule.each or rule.at))
        found |= {(rule.metric, label) for rule in bare for label in labels}
    return sorted(found)


def _about_gpus(planned: Planned, rows: Rows, declared: Declared, line: CheckPolicy) -> Iterator[Finding]:
    """Lists of a node's GPUs that leave declared ones out, and are shorter throughout: these were not looked at."""
    listed = planned.check.startswith(FAMILIES) and any(rule.each == GPUS for rule in line.rules)
    if planned.scope is not Scope.NODE or not listed:
        return
    level, wanted = Level.FAIL if line.required else Level.WARN, declared.gpus_per_node
    counted: dict[object, int] = {}
    for place, labels in enumerate(rows.column(GPUS)):
        if labels not in counted:  # thousands of nodes list alike
            names = map(str, labels if isinstance(labels, tuple) else ())
            counted[labels] = len({name for name in names if name.startswith("GPU ")})
        if counted[labels] < wanted:
            yield _missing(
                rows, place, f"not measured: the check lists {counted[labels]} of {wanted} GPUs", level
            )


def _missing(rows: Rows, place: int, said: str, level: Level) -> Finding:
    subject, kind = rows.columns.subjects[place], FindingKind.NOT_MEASURED
    return Finding(level, Cause.EVIDENCE, rows.check, subject, said, "", LIST_REMEDY, kind=kind)


def coverage(report: Report, sound: Mapping[str, Rows], checks: Count) -> Coverage:
    """How many nodes, GPUs, ranks and checks were observed soundly, of how many."""
    declared = report.declared
    subjects = set().union(*(rows.columns.subjects for rows in sound.values()))
    nodes = {node_of(subject) for subject in subjects} - {CLUSTER}
    counted = sound["gpu.inventory"].column("gpus_found") if "gpu.inventory" in sound else ()
    gpus = sum(min(found, declared.gpus_per_node) for found in counted if type(found) is int)
    return Coverage(
        nodes=Count(len(nodes), declared.nodes),
        gpus=Count(gpus, declared.nodes * declared.gpus_per_node),
        ranks=Count(sum("/" in subject for subject in subjects), declared.ranks),
        checks=checks,
    )


def subjects_of(scope: Scope, report: Report) -> frozenset[str]:
    """The subjects that a check of this scope observes: the cluster, its nodes, or the ranks of the nodes that reported."""
    if scope is Scope.CLUSTER:
        return frozenset([CLUSTER])
    if scope is Scope.NODE:
        return frozenset(node.name for node in report.nodes)
    per_node = report.declared.ranks_per_node
    return frozenset(
        rank_subject(node.name, node.rank * per_node + local)
        for node in report.nodes
        for local in range(per_node)
    )


def declared_count(scope: Scope, declared: Declared) -> int:
    """How many subjects of this scope the gate file declares."""
    return {Scope.NODE: declared.nodes, Scope.RANK: declared.ranks, Scope.CLUSTER: 1}[scope]
