"""Which starts a job had, from the files that the agents of its nodes wrote into a folder (attempts.py has the rules)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tasks.launchers.attempts import RECORD_BYTES, Written, exit_code_of, starts_of
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
    starts = starts_of(_written(out))
    if not starts:
        return Attempts()
    current = starts[-1][-1]
    codes = ((host, _exit_code(out, current.token, host)) for host in sorted(current.hosts))
    ended = tuple((host, code) for host, code in codes if code is not None)
    earlier = tuple(start[-1].token for start in starts[:-1])
    return Attempts(current.token, earlier, current.hosts, ended)


def has_started(out: Path, attempt: str) -> bool:
    """Whether a node of that start has become the command."""
    return bool(attempt) and any((out / attempt / "started").glob("*"))


def _written(out: Path) -> Iterator[Written]:
    """The agents' records. Listing a folder makes an NFS client look again."""
    for path in sorted(out.glob("*/agent/*.json")):
        try:
            at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except OSError:
            continue
        yield Written(path.relative_to(out).as_posix(), at)


def _exit_code(out: Path, token: str, host: str) -> int | None:
    try:
        with open(out / token / "agent" / f"{host}.json", "rb") as file:
            return exit_code_of(file.read(RECORD_BYTES))
    except OSError:
        return None
