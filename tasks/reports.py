"""What a check job has written so far, read from the folder that it was fetched into.

Only <attempt>/nodes/<node>.json of the current attempt counts: a restarted job is never judged by its first
life.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checks.bundle import Bundle, plan_of
from checks.decode import DecodeError
from checks.model import Scope
from checks.report import NODE_REPORT_BYTES, NodeReport, load_node

NODES = 100_000


@dataclass(frozen=True)
class Tally:
    """How far the nodes are: observations made of those planned, nodes that report, and those that are done.

    `doing` is the first check that nobody has reported yet.
    """

    done: int
    total: int
    nodes: int
    complete: int
    doing: str


def read_files(folder: Path, attempt: str) -> dict[str, bytes]:
    """Node -> the bytes of its report, a byte more than allowed at most, so that the reader refuses them."""
    nodes = folder / attempt / "nodes"
    if not attempt or not nodes.is_dir():
        return {}
    found: dict[str, bytes] = {}
    for path in sorted(nodes.glob("*.json"))[:NODES]:
        data = _read(path)
        if data is not None:
            found[path.stem] = data
    return found


def tally(bundle: Bundle, files: Mapping[str, bytes]) -> Tally:
    """Counts for people; nothing is decided upon them."""
    declared = bundle.declared
    checks, plan = plan_of(bundle)
    planned = [row for row in plan if row.skip is None]
    last = {check.name for check in checks if check.closing}
    per = {Scope.NODE: declared.nodes, Scope.RANK: declared.ranks, Scope.CLUSTER: 1}
    reports = [report for data in files.values() if (report := _load(data)) is not None]
    rows = [row for report in reports for row in report.observations]
    seen = {row.check for row in rows}
    turns = sorted(planned, key=lambda row: (row.check in last, row.scope is Scope.RANK))
    waiting = [row.check for row in turns if row.check not in seen]
    doing = waiting[0] if rows and waiting else ""
    ended = sum(report.node.complete for report in reports)
    return Tally(len(rows), sum(per[row.scope] for row in planned), len(reports), ended, doing)


def unfinished(bundle: Bundle, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Nodes that are known by name and have no complete report."""
    done = {report.node.name for data in files.values() if (report := _load(data)) and report.node.complete}
    names = bundle.declared.node_names or tuple(files)
    return tuple(name for name in names if name not in done)


def complete(bundle: Bundle, files: Mapping[str, bytes]) -> bool:
    """Whether as many complete reports are there as nodes are declared."""
    reports = [report for data in files.values() if (report := _load(data)) is not None]
    return sum(report.node.complete for report in reports) == bundle.declared.nodes == len(files)


def _load(data: bytes) -> NodeReport | None:
    try:
        return load_node(data)
    except DecodeError:
        return None  # the merge reads it again, and says what is wrong with it


def _read(path: Path) -> bytes | None:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        return file.read(NODE_REPORT_BYTES + 1)
