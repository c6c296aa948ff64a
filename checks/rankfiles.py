"""What the ranks of a node have written so far, read from above while they run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

from checks.decode import DecodeError, decode
from checks.model import Observation

OVERDUE_S = 3.0


@dataclass(frozen=True)
class RankState:
    """One rank: its observations, its process, and what it is in the middle of. `overdue` ranks are frozen or hung."""

    rows: tuple[Observation, ...]
    ended: bool
    current: str
    due_at: float
    pid: int = 0

    def overdue(self, now: float) -> bool:
        """Whether its own deadline passed without a word: the watchdog inside it is frozen too."""
        return not self.ended and now > self.due_at


def read(folder: Path, ranks: range, opened: float = 0.0) -> dict[int, RankState]:
    """The state of every rank that has written anything; `opened` (seconds since 1970) is when the report was."""
    found = {rank: _read_rank(folder / f"rank-{rank}.jsonl", opened) for rank in ranks}
    return {rank: state for rank, state in found.items() if state is not None}


def _read_rank(path: Path, opened: float) -> RankState | None:
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return None
    rows: list[Observation] = []
    ended, current, begun_at, due_at, pid = False, "", opened, time.time() + 3600, 0
    for line in lines:
        try:
            event = json.loads(line)
            if event["event"] == "start":
                current, begun_at = str(event["check"]), float(event["at"])
                due_at = begun_at + float(event["timeout_s"]) + OVERDUE_S
                pid = int(event["pid"])
            elif event["event"] == "observation":
                row = decode(Observation, event["row"])
                started_s = max(begun_at - opened, 0.0) if row.check == current else 0.0
                rows.append(replace(row, started_s=round(started_s, 3)))
            else:
                ended = True
        except (ValueError, KeyError, TypeError, DecodeError):
            continue  # a line that cannot be read is an observation that is missing: the verdict says so
    return RankState(tuple(rows), ended, current, due_at, pid)
