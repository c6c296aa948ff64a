"""What the ranks of a node have written so far, read from above while they run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from checks.decode import DecodeError, decode
from checks.model import Observation

OVERDUE_S = 3.0


@dataclass(frozen=True)
class RankState:
    """One rank: its observations, and what it is in the middle of. `overdue` ranks are frozen or hung."""

    rows: tuple[Observation, ...]
    ended: bool
    current: str
    due_at: float

    def overdue(self, now: float) -> bool:
        """Whether its own deadline passed without a word: the watchdog inside it is frozen too."""
        return not self.ended and now > self.due_at


def read(folder: Path, ranks: range) -> dict[int, RankState]:
    """The state of every rank that has written anything."""
    found = {rank: _read_rank(folder / f"rank-{rank}.jsonl") for rank in ranks}
    return {rank: state for rank, state in found.items() if state is not None}


def _read_rank(path: Path) -> RankState | None:
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return None
    rows: list[Observation] = []
    ended, current, due_at = False, "", time.time() + 3600
    for line in lines:
        try:
            event = json.loads(line)
            if event["event"] == "start":
                current, due_at = (
                    str(event["check"]),
                    float(event["at"]) + float(event["timeout_s"]) + OVERDUE_S,
                )
            elif event["event"] == "observation":
                rows.append(decode(Observation, event["row"]))
            else:
                ended = True
        except (ValueError, KeyError, TypeError, DecodeError):
            continue  # a line that cannot be read is an observation that is missing: the verdict says so
    return RankState(tuple(rows), ended, current, due_at)
