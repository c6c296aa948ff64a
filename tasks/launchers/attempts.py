"""Decides which start of a job is the current one, from the files that its hosts wrote to S3 or to a shared folder. Pure.

An attempt is a token that the hosts of one start agreed on (container/agent/hosts/roll_call.py). A host that found no other host
continues under a token of its own, so that one start may leave several tokens, whose hosts differ. Times are those of S3 or of the
file system, because hosts' clocks may be wrong. The record of an agent about its own end says whether its host's files are complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from checks.documents.report import load_node
from checks.model import NODE_NAME
from checks.value_types import DecodeError

ATTEMPT = r"[0-9a-f]{8,64}"
# Below an attempt's folder: what the agent, the checks and the gate in front of a command write.
FOLDERS = ("agent", "asking", "evidence", "failure", "nodes", "passes", "started", "verdicts")
FILE_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}"
DEPTH = 8
FILE = re.compile(rf"(?P<attempt>{ATTEMPT})/(?:(?P<folder>{'|'.join(FOLDERS)})/)?(?P<file>{FILE_NAME})")
RECORD_BYTES = 1 << 16


@dataclass(frozen=True)
class Written:
    """One file of an attempt: `path` is <attempt>/[folder/]file, `at` when it was written as far as is known, `restarts` how often the
    job had been started again.
    """

    path: str
    at: datetime
    restarts: int = 0


@dataclass(frozen=True)
class Attempt:
    """One token: which hosts wrote under it, after how many restarts, and when the oldest and the newest of its files were written."""

    token: str
    hosts: frozenset[str]
    restarts: int
    began: datetime
    last: datetime


def safe(path: str) -> bool:
    """Whether the path is a file of an attempt: no other folder, no "..", nothing that is still being written."""
    return FILE.fullmatch(path) is not None and plain(path)


def plain(path: str) -> bool:
    """Whether the path is a plain file below a folder: no "..", no link to elsewhere, nothing half written."""
    names = path.split("/")
    return (
        0 < len(names) <= DEPTH
        and not path.endswith(".tmp")
        and all(re.fullmatch(FILE_NAME, name) for name in names)
    )


def starts_of(files: Iterable[Written]) -> tuple[tuple[Attempt, ...], ...]:
    """The job's starts in their order, each with its attempts; the last attempt of the last start is the current one.

    A host that shows up again under another token has started again, and so has one after another number of restarts: an engine may
    take other machines. Of one start's several tokens the one that most hosts share counts, so it is the last.
    """
    starts: list[list[Attempt]] = []
    for attempt in sorted(_grouped(files), key=lambda own: (own.restarts, own.began, own.last, own.token)):
        hosts_before = {host for other in starts[-1] for host in other.hosts} if starts else set()
        if not starts or attempt.hosts & hosts_before or attempt.restarts != starts[-1][0].restarts:
            starts.append([])
        starts[-1].append(attempt)
    return tuple(
        tuple(sorted(start, key=lambda attempt: (len(attempt.hosts), attempt.began, attempt.last)))
        for start in starts
    )


def _grouped(files: Iterable[Written]) -> list[Attempt]:
    groups: dict[str, list[tuple[Written, str]]] = {}
    for written in files:
        if match := FILE.fullmatch(written.path):
            host = match["file"].removesuffix(".json")
            names_host = match["folder"] in ("agent", "nodes") and re.fullmatch(NODE_NAME, host)
            groups.setdefault(match["attempt"], []).append((written, host if names_host else ""))
    return [_attempt_of(token, group) for token, group in groups.items()]


def _attempt_of(token: str, group: list[tuple[Written, str]]) -> Attempt:
    hosts, times = frozenset(host for _, host in group if host), [written.at for written, _ in group]
    return Attempt(token, hosts, max(written.restarts for written, _ in group), min(times), max(times))


def exit_code_of(record: bytes) -> int | None:
    """The exit code in <attempt>/agent/<node>.json; None while it lives, or where the record cannot be read."""
    try:
        code = json.loads(record[:RECORD_BYTES])["exit_code"]
    except (ValueError, TypeError, KeyError):
        return None
    return code if type(code) is int else None


def restarts_of(record: bytes) -> int:
    """How often the job had been started again when the agent wrote this record; 0 where it does not say so."""
    try:
        return int(str(json.loads(record[:RECORD_BYTES])["restarts"]))
    except (ValueError, TypeError, KeyError):
        return 0


def finished(path: str, data: bytes) -> bool:
    """Whether a file of an attempt is as it will stay: a report that is complete, a record that has its end."""
    folder = path.split("/")[-2] if path.count("/") else ""
    if folder == "nodes":
        try:
            return load_node(data).node.complete
        except DecodeError:
            return False
    return exit_code_of(data) is not None if folder == "agent" else True


def told_all(files: Mapping[str, bytes], attempt: str, host: str) -> bool:
    """Whether the host's agent has ended, and its report is complete or its command had been started."""
    record, report = files.get(f"{attempt}/agent/{host}.json"), files.get(f"{attempt}/nodes/{host}.json")
    if record is None or exit_code_of(record) is None:
        return False
    started = f"{attempt}/started/{host}" in files
    return finished("nodes/x", report) if report is not None else started
