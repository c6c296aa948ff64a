"""A node's report on disk, rewritten completely at each observation, so that a node that dies leaves what it had observed."""

from __future__ import annotations

import dataclasses
import gzip
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from checks.documents.report import NODE_REPORT_BYTES, NodeReport, clip, digest, dump_plain
from checks.model import EVIDENCE_BYTES, ErrorKind, Node, Observation, Outcome, node_of
from checks.process.cpu_usage import Watch
from checks.process.stderr import log
from checks.process.whole_file import write_whole
from checks.runner.deadline import limited


class ReportWriteError(Exception):
    """The report could not be written: the disk is full, or the folder cannot be written."""


WRITE_S = 5.0
Tick = Callable[[Observation], None]


class ReportJournal:
    """Keeps one node's report current at `path`. Not thread-safe: one thread writes.

    A write that does not end, for example because its file system hangs, is waited for WRITE_S once, and no other one is started
    before it has ended. `data` is the report of the last write.
    """

    def __init__(self, path: Path, report: NodeReport) -> None:
        self.path = path
        self._evidence = path.parent.parent / "evidence"
        self.report = report
        self.data = b""
        self._writing = threading.Event()

    def add(self, observations: Iterable[Observation]) -> None:
        """Adds observations and writes. Raises JournalError; the observations are kept for the next write."""
        added = tuple(self._fitted(observation) for observation in observations)
        if added:
            self.report = dataclasses.replace(self.report, observations=(*self.report.observations, *added))
            self.write()

    def finish(self, **changes: Any) -> None:
        """The last write, with these changes of the node. Raises JournalError."""
        node: Node = dataclasses.replace(self.report.node, **changes)
        self.report = dataclasses.replace(self.report, node=node)
        self.write()

    def write(self) -> None:
        """Replaces the file, completely or not at all. Raises JournalError."""
        self.report = dataclasses.replace(self.report, measured_at=now())
        # The report's JSON. If it is too large, it loses the longest evidence until it is within the limit.
        entries = list(self.report.observations)
        data = dump_plain(self.report)
        while len(data) > NODE_REPORT_BYTES and any(entry.evidence for entry in entries):
            longest = max(range(len(entries)), key=lambda i: len(entries[i].evidence))
            entries[longest] = dataclasses.replace(entries[longest], evidence="", evidence_truncated=True)
            self.report = dataclasses.replace(self.report, observations=tuple(entries))
            data = dump_plain(self.report)
        self.data = data
        try:
            self._patiently(lambda: write_whole(self.path, self.data))
        except TimeoutError as error:
            raise ReportWriteError(
                f"{self.path}: the file system does not respond ({error}). Choose another --out."
            ) from error
        except OSError as error:
            raise ReportWriteError(
                f"{self.path}: {error.strerror or error}. Free space or choose another --out."
            ) from error

    def _patiently(self, write: Callable[[], None]) -> None:
        """Raises OSError, or TimeoutError if this write or an earlier one hangs."""
        if self._writing.is_set():
            raise TimeoutError("an earlier write has not ended")

        def whole() -> None:
            try:
                write()
            finally:
                self._writing.clear()

        self._writing.set()
        limited(WRITE_S, whole)

    def _fitted(self, observation: Observation) -> Observation:
        """The row with its evidence cut. If all of the evidence cannot be stored in time, the row names no file."""
        if len(observation.evidence) <= EVIDENCE_BYTES // 4:  # at most four bytes a character
            return observation
        parts_made: list[Observation] = []
        try:
            self._patiently(lambda: parts_made.append(keep_whole(observation, self._evidence)))
        except TimeoutError:
            cut = clip(observation.evidence)[0]
            return dataclasses.replace(observation, evidence=cut, evidence_truncated=True, evidence_sha256="")
        return parts_made[0]


# Whatever else used the CPUs, these have a reason of their own.
UNEXPLAINED = (ErrorKind.LIMIT_PASSED, ErrorKind.LIMIT_TOO_SHORT, ErrorKind.NOT_RUN)


class JournalWriter:
    """Adds observations to the journal once each. A full disk is said, and tried again at the next write."""

    def __init__(self, journal: ReportJournal, tick: Tick | None = None) -> None:
        self.journal, self._tick = journal, tick
        self.opened = time.time()
        self.rows: dict[tuple[str, str], Observation] = {}
        self._watch = Watch()

    def __call__(self, observations: Iterable[Observation]) -> None:
        """Adds the observations that are new."""
        new = [self._explained(each) for each in observations if (each.check, each.subject) not in self.rows]
        self.rows.update({(each.check, each.subject): each for each in new})
        try:
            self.journal.add(new)
        except ReportWriteError as error:
            log(str(error))
        for entry in new if self._tick else ():
            self._tick(entry)  # type: ignore[misc]

    def _explained(self, entry: Observation) -> Observation:
        """Adds to the reason that other work used the CPUs, if so. It is for people; no rule reads it."""
        explains = entry.outcome is Outcome.ERRORED and entry.error_kind not in UNEXPLAINED
        contention = self._watch.contention() if explains else None
        load = contention.describe(node_of(entry.subject)) if contention is not None else ""
        return dataclasses.replace(entry, reason=f"{entry.reason} ({load})"[:1000]) if load else entry


def keep_whole(observation: Observation, folder: Path) -> Observation:
    """The row with at most 4 KiB of evidence; all of it is stored as folder/<sha256>.gz.

    If that cannot be written, the row says that its evidence was cut and names no file.
    """
    evidence, cut = clip(observation.evidence)
    if not cut:
        return dataclasses.replace(observation, evidence=evidence)
    data = observation.evidence.encode("utf-8", "replace")
    name = digest(data)
    try:
        write_whole(folder / f"{name}.gz", gzip.compress(data, mtime=0))
    except OSError:
        name = ""
    return dataclasses.replace(observation, evidence=evidence, evidence_truncated=True, evidence_sha256=name)


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
