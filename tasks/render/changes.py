"""What changed between two gates of a cluster: machines, their software, what they were judged with, and values that moved (pure).

A machine is the same if the firmware's id or its GPUs say so. Values are compared per machine, the median of its ranks, and only
those whose unit says which side is worse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from checks.documents.columns import by_check
from checks.judge.baseline.samples import Runs, Series, Side, gather
from checks.judge.machine_identity import machines
from checks.judge.rules.wording import figure
from checks.model import CLUSTER, Digests, Node, Outcome, Report, node_of
from checks.policy import Policy
from checks.value_types import natural
from tasks.render.views.finding_table import ranged
from tasks.text.inert import one_line
from tasks.text.tables import counted

ROWS = 40
# Judgement: below it, two runs of one healthy machine differ as well.
LEAST = 0.05
WITHIN = ". Single values vary from gate to gate; all of these are within their thresholds"
# What a reboot or a new address changes says nothing of the machine.
PASSING = ("boot_id", "host", "address", "addresses")
LISTS = {"gpu_uuids": "GPUs"}
# A metric of a check that names the firmware of each GPU, and no number.
FIRMWARE = (("gpu.inventory", "vbios", "VBIOS"),)
Numbers = Mapping[tuple[str, str, str], Series]
# A report and what it was judged with.
Judged = tuple[Report, Digests]
# Checks with their nodes, or with CLUSTER.
Found = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Change:
    """One row, as text; `by` is empty if it has no size. `is_worse`: a finding is about this check on this machine, and the value
    moved for the worse; a value within its thresholds is never worse, however much it moved.
    """

    what: str
    where: str
    before: str
    after: str
    by: str = ""
    is_worse: bool = False


@dataclass(frozen=True)
class Changes:
    """Since the gate `gate_id`; `link` leads to its page, "" if there is none. `hidden` rows are the smallest."""

    gate_id: str
    when: str
    link: str
    rows: tuple[Change, ...]
    hidden: int
    least: float = LEAST

    @property
    def said(self) -> str:
        """Such as "2 things were replaced or set differently, 3 values moved (1 for the worse)"."""
        whole = len(self.rows) + self.hidden
        if not whole:
            return "nothing was replaced or set differently, and no value moved"
        moved = sum(bool(row.by) for row in self.rows) + self.hidden
        worse = sum(row.is_worse for row in self.rows)
        single = "" if worse or not moved else WITHIN
        were = "was" if whole - moved == 1 else "were"
        things = f"{counted(whole - moved, 'thing')} {were} replaced or set differently"
        return (
            f"{things}, {counted(moved, 'value')} moved{f' ({worse} for the worse)' if worse else ''}{single}"
        )


def changes(
    before: Judged,
    after: Judged,
    policy: Policy,
    gate_id: str,
    when: str,
    link: str,
    found: Found = frozenset(),
) -> Changes:
    """Everything that differs, what was replaced first. `found` are the checks and nodes (or "cluster") that a finding is about: only
    there a value is called worse.
    """
    fixed = [*_inputs(before, after), *_machines(before[0], after[0])]
    moved = sorted(
        _values(before[0], after[0], policy, found), key=lambda pair: (not pair[1].is_worse, -pair[0])
    )
    rows = [*fixed, *(row for _, row in moved)]
    return Changes(gate_id, when, link, tuple(rows[:ROWS]), max(0, len(rows) - ROWS))


def _inputs(before: Judged, after: Judged) -> Iterator[Change]:
    (was, then), (report, now) = before, after
    digests = [
        ("policy", then.policy, now.policy),
        ("facts", then.facts, now.facts),
        ("baseline", then.baseline or "", now.baseline or ""),
        ("Prelaunch", then.engine, now.engine),
    ]
    yield from (Change(what, "verdict", _digest(a), _digest(b)) for what, a, b in digests if a != b)
    old, new = was.declared, report.declared
    pairs = [
        ("instance type", old.instance_type, new.instance_type),
        ("number of nodes", str(old.nodes), str(new.nodes)),
        ("profile", was.profile.value, report.profile.value),
        ("catalogue of checks", _digest(was.catalogue), _digest(report.catalogue)),
    ]
    yield from (Change(what, "gate", one_line(a, 80), one_line(b, 80)) for what, a, b in pairs if a != b)


def _digest(text: str) -> str:
    return one_line(text[:12], 12) if text else "none"


def _machines(before: Report, after: Report) -> Iterator[Change]:
    known = machines((before, after))
    both = [(one.nodes[0][1], one.nodes[-1][1]) for one in known if {at for at, _ in one.nodes} == {0, 1}]
    gone = [one.name for one in known if {at for at, _ in one.nodes} == {0}]
    new = [one.name for one in known if {at for at, _ in one.nodes} == {1}]
    if gone:
        yield Change("machines", ranged(gone), "there", "not there")
    if new:
        yield Change("machines", ranged(new), "not there", "there")
    renamed = [(then, now) for then, now in both if then.name != now.name]
    for (then_name, now_name), names in _alike((t.name, n.name, n.name) for t, n in renamed):
        yield Change("name of a machine", ranged(names), one_line(then_name, 80), one_line(now_name, 80))
    keys = dict.fromkeys(key for pair in both for node in pair for key in node.identity)
    for key in keys:
        if key in PASSING:
            continue
        yield from _identity(key, both)
    for check, metric, title in FIRMWARE:
        old, fresh = _texts(before, check, metric), _texts(after, check, metric)
        found = ((old[t.name], fresh[n.name], n.name) for t, n in both if t.name in old and n.name in fresh)
        for (then, now), names in _alike(found):
            yield Change(title, ranged(names), one_line(then, 80), one_line(now, 80))


def _identity(key: str, both: Sequence[tuple[Node, Node]]) -> Iterator[Change]:
    found = ((then.identity.get(key, ""), now.identity.get(key, ""), now.name) for then, now in both)
    title = LISTS.get(key, one_line(key, 60))
    for (old, new), names in _alike(found):
        if key in LISTS:
            old, new = _only(old, new), _only(new, old)
        yield Change(title, ranged(names), one_line(old, 120) or "none", one_line(new, 120) or "none")


def _only(mine: str, other: str) -> str:
    """What one list has and the other has not."""
    theirs = set(other.split(","))
    return ", ".join(item for item in mine.split(",") if item not in theirs)


def _alike(found: Iterator[tuple[str, str, str]]) -> list[tuple[tuple[str, str], list[str]]]:
    """(before, after) that differ -> the machines of which both are true."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for old, new, name in found:
        if old != new:
            groups[old, new].append(name)
    return list(groups.items())


def _texts(report: Report, check: str, metric: str) -> dict[str, str]:
    """Node -> the values of a metric that is text, each once."""
    found: dict[str, str] = {}
    for row in by_check(report.observations).get(check, ()):
        value = row.metrics.get(metric)
        if row.outcome is Outcome.MEASURED and isinstance(value, (str, tuple)):
            texts = (value,) if isinstance(value, str) else tuple(map(str, value))
            found[node_of(row.subject)] = ", ".join(dict.fromkeys(texts))
    return found


def _values(before: Report, after: Report, policy: Policy, found: Found) -> Iterator[tuple[float, Change]]:
    """The machine whose value moved most, for each metric: (by how much, the row)."""
    old, new = _numbers(before, policy), _numbers(after, policy)
    names = {
        one.nodes[-1][1].name: one.nodes[0][1].name
        for one in machines((before, after))
        if {at for at, _ in one.nodes} == {0, 1}
    }
    nodes = Runs(node_of)
    for key in _telling(new):
        if key not in old:
            continue
        then, now = _medians(old[key], nodes), _medians(new[key], nodes)
        moved = {
            name: now[name] / then[names[name]] - 1
            for name in now
            if name in names and then.get(names[name], 0) > 0
        }
        share = {name: value for name, value in moved.items() if abs(value) >= LEAST}
        if share:
            first = min(share, key=lambda name: (-abs(share[name]), natural(name)))
            alike = sum(value * share[first] > 0 for value in share.values()) - 1
            where = f"{one_line(first, 120)}{f' and {alike} more' if alike else ''}"
            low = new[key].side is Side.LOW
            check, metric, label = key
            is_found = bool({(check, first), (check, CLUSTER)} & found)
            worse = is_found and new[key].side is not Side.EITHER and (share[first] < 0) == low
            title = one_line(f"{check} {metric}{f' at {label}' if label else ''}", 160)
            values = figure(then[names[first]]), figure(now[first])
            yield abs(share[first]), Change(title, where, *values, f"{share[first]:+.0%}", worse)


def _numbers(report: Report, policy: Policy) -> Numbers:
    """(check, metric, label) -> the values of all subjects."""
    return {
        (check, *key): series
        for check, rows in by_check(report.observations).items()
        for key, series in gather(rows, policy.checks.get(check)).items()
        if series.values
    }


def _telling(numbers: Numbers) -> list[tuple[str, str, str]]:
    """Of a metric's labels (sizes, precisions) the one with the greatest value."""
    first: dict[tuple[str, str], tuple[float, str]] = {}
    for (check, metric, label), series in numbers.items():
        peak = max(series.values)
        if (check, metric) not in first or peak > first[check, metric][0]:
            first[check, metric] = peak, label
    return [(check, metric, label) for (check, metric), (_, label) in first.items()]


def _medians(series: Series, nodes: Runs) -> dict[str, float]:
    """Node -> the median of its values."""
    parts: dict[str, list[Sequence[float]]] = defaultdict(list)
    for node, begin, end in nodes.of(series.subjects):
        parts[node].append(series.values[begin:end])
    return {node: median(found[0] if len(found) == 1 else [*chain(*found)]) for node, found in parts.items()}
