"""What is new between gates: findings that were opened or closed, nodes that fell silent or came back. Pure.

A finding is news once for each time that it was opened, and a node's silence once until it answers again. What was told before is in
the store, so that a restart tells nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from checks.documents.open_findings import Moment, OpenFinding, WatchPage
from checks.documents.report import Version
from checks.model import SCHEMA_VERSION, Cause, Level
from checks.value_types import Range
from tasks.monitoring.exporters import STALE_INTERVALS

# A look that fails alone may be the network's fault.
SILENT_AFTER = 3


@dataclass(frozen=True)
class NodeLook:
    """What was seen of one declared node: the page of its watch, or why there is none."""

    node: str
    page: WatchPage | None
    why: str = ""


@dataclass(frozen=True)
class ToldFinding:
    """A finding that people were told of: its name (FindingKey.name), and when it was opened (Unix time)."""

    name: str
    opened_at: Moment


@dataclass(frozen=True)
class ToldNode:
    """What people were told about one node, and how many looks at it have failed in a row."""

    findings: tuple[ToldFinding, ...] = ()
    failed: Annotated[int, Range(0, 1 << 31)] = 0


@dataclass(frozen=True)
class Told:
    """What people were told about the nodes of one cluster."""

    nodes: Mapping[str, ToldNode]
    schema_version: Version = SCHEMA_VERSION


@dataclass(frozen=True)
class News:
    """What to tell now, each with its node. `closed` are names of findings, `silent` has the reason."""

    opened: tuple[tuple[str, OpenFinding], ...] = ()
    closed: tuple[tuple[str, str], ...] = ()
    silent: tuple[tuple[str, str], ...] = ()
    back: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.opened or self.closed or self.silent or self.back)


def news(told: Told, looks: Sequence[NodeLook], now: float) -> tuple[News, Told]:
    """What is new in these looks at `now` (Unix time), and what people have been told once they know it.

    A node that is not looked at keeps what was told of it. FAILs are told; a WARN can wait for the next gate.
    """
    nodes = dict(told.nodes)
    opened: list[tuple[str, OpenFinding]] = []
    closed: list[tuple[str, str]] = []
    silent: list[tuple[str, str]] = []
    back: list[str] = []
    for look in looks:
        before = nodes.get(look.node, ToldNode())
        why = look.why or _stale(look.page, now)
        if why or look.page is None:
            nodes[look.node] = replace(before, failed=before.failed + 1)
            if before.failed + 1 == SILENT_AFTER:
                silent.append((look.node, why))
            continue
        if before.failed >= SILENT_AFTER:
            back.append(look.node)
        grave = [one for one in look.page.findings.open if is_grave(one)]
        known = {(one.name, one.opened_at) for one in before.findings}
        opened += [(look.node, one) for one in grave if (one.key.name, one.opened_at) not in known]
        still = {one.key.name for one in grave}
        closed += [(look.node, one.name) for one in before.findings if one.name not in still]
        nodes[look.node] = ToldNode(tuple(ToldFinding(one.key.name, one.opened_at) for one in grave))
    return News(tuple(opened), tuple(closed), tuple(silent), tuple(back)), Told(nodes)


def is_grave(one: OpenFinding) -> bool:
    """Whether people are told of it: a FAIL. What cannot be measured any more is one as well."""
    return one.level is Level.FAIL


def calls_for_oncall(found: News) -> bool:
    """Whether a machine is broken. What is misconfigured, or cannot be seen, is the owner's."""
    return any(one.key.cause in (Cause.HARDWARE, Cause.APPLICATION) for _, one in found.opened)


def _stale(page: WatchPage | None, now: float) -> str:
    if page is None:
        return "no answer"
    if not page.last_round_at:
        return "its watch has made no round yet"
    age_s = now - page.last_round_at
    if age_s > STALE_INTERVALS * max(page.interval_s, 1.0):
        return f"its last round was {age_s:,.0f} s ago, and one is due every {page.interval_s:g} s"
    return ""
