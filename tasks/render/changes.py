"""What changed between two gates of a cluster: machines, their software, and what they were judged with (pure).

A machine is the same if the firmware's id or its GPUs say so. Values that move are in the trend of the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.documents.columns import by_check
from checks.judge.machine_identity import machines
from checks.model import Digests, Node, Outcome, Report, node_of
from tasks.render.views.finding_table import ranged
from tasks.text.inert import one_line
from tasks.text.tables import counted

ROWS = 40
NOTHING = "nothing was replaced or set differently"
# What a reboot or a new address changes says nothing of the machine.
PASSING = ("boot_id", "host", "address", "addresses")
LISTS = {"gpu_uuids": "GPUs"}
# A metric of a check that names the firmware of each GPU, and no number.
FIRMWARE = (("gpu.inventory", "vbios", "VBIOS"),)
# A report and what it was judged with.
Judged = tuple[Report, Digests]


@dataclass(frozen=True)
class Change:
    """One row, as text."""

    what: str
    where: str
    before: str
    after: str


@dataclass(frozen=True)
class Changes:
    """Since the gate `gate_id`; `link` leads to its page, "" if there is none. `hidden` rows more have no room."""

    gate_id: str
    when: str
    link: str
    rows: tuple[Change, ...]
    hidden: int

    @property
    def said(self) -> str:
        """Such as "2 things were replaced or set differently"."""
        whole = len(self.rows) + self.hidden
        were = "was" if whole == 1 else "were"
        return f"{counted(whole, 'thing')} {were} replaced or set differently" if whole else NOTHING


def changes(before: Judged, after: Judged, gate_id: str, when: str, link: str) -> Changes:
    """Everything that differs."""
    rows = [*_inputs(before, after), *_machines(before[0], after[0])]
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
