"""Which starts a job had, from the files that the agents of its nodes wrote into a folder (attempts.py has the rules)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tasks.launchers.attempts import RECORD_BYTES, Written, exit_code_of, restarts_of, starts_of
from tasks.launchers.base import JobState, JobStatus, Trouble


@dataclass(frozen=True)
class Attempts:
    """What the agents of the current start have recorded; `earlier` are the tokens of the starts before it.

    `hosts` are all nodes that wrote, `exit_codes` those whose agent has ended.
    """

    current: str = ""
    earlier: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()
    exit_codes: tuple[tuple[str, int], ...] = ()

    def status(self, state: JobState, detail: str, trouble: Trouble = Trouble.NONE) -> JobStatus:
        """The job in that state, with what its agents have recorded."""
        return JobStatus(state, detail, self.current, dict(self.exit_codes), trouble, self.earlier)


def attempts_in(out: Path) -> Attempts:
    """The starts of the job whose nodes wrote into this folder. A file that cannot be read is as one that is not there."""
    written, codes = list[Written](), dict[str, int | None]()
    for path, at, record in _records(out):
        written.append(Written(path, at, restarts_of(record)))
        codes[path] = exit_code_of(record)
    starts = starts_of(written)
    if not starts:
        return Attempts()
    current = starts[-1][-1]
    hosts = ((host, codes[f"{current.token}/agent/{host}.json"]) for host in sorted(current.hosts))
    ended = tuple((host, code) for host, code in hosts if code is not None)
    return Attempts(current.token, tuple(start[-1].token for start in starts[:-1]), current.hosts, ended)


def has_started(out: Path, attempt: str) -> bool:
    """Whether a node of that start has become the command."""
    return bool(attempt) and any((out / attempt / "started").glob("*"))


def _records(out: Path) -> Iterator[tuple[str, datetime, bytes]]:
    """The agents' records. Listing a folder makes an NFS client look again."""
    for path in sorted(out.glob("*/agent/*.json")):
        try:
            with open(path, "rb") as file:
                at = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
                yield path.relative_to(out).as_posix(), at, file.read(RECORD_BYTES)
        except OSError:
            continue
