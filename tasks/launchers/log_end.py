"""What the log of a node says of the end of its command, also where torchrun started its ranks. Pure.

torchrun prints a table of the ranks that failed (torch/distributed/elastic/multiprocessing/errors, ChildFailedError): the root cause
is the one that it saw first, and stands last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

TORCHRUN = "torch/distributed/elastic"
ROOT_CAUSE = "Root Cause"
MOST_RANKS = 8
_RANK = re.compile(r"rank\s*:\s*(\d{1,9})\b")
_EXIT_CODE = re.compile(r"exitcode\s*:\s*(-?\d{1,5})\b(?:.*\((SIG[A-Z0-9+]+)\))?")


@dataclass(frozen=True)
class RankEnd:
    """How a rank ended. `rank` is None where the table does not say; a negative `code` is minus the signal, whose name may be "";
    `first` is the one that failed first.
    """

    rank: int | None
    code: int
    signal: str
    first: bool

    @property
    def text(self) -> str:
        """ "rank 1 ended first, with exit code 7"."""
        who = "a rank" if self.rank is None else f"rank {self.rank}"
        first = " first" if self.first else ""
        if self.code < 0:
            return f"{who} was ended{first} by {self.signal or f'signal {-self.code}'}"
        return f"{who} ended{first}{',' if first else ''} with exit code {self.code}"


def rank_ends(log: str) -> tuple[RankEnd, ...]:
    """The ranks that torchrun says failed, in the order of the ranks."""
    return tuple(sorted(_rank_ends(log), key=lambda end: -1 if end.rank is None else end.rank))


def last_log_line(log: str) -> str:
    """The line of a log that says most about its end, the command's own last one before what torchrun prints; then how each rank
    ended, of at most MOST_RANKS of them.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip(" =-_*")]
    own = list(takewhile(lambda line: TORCHRUN not in line, lines))
    ends = rank_ends(log)
    more = [f"{len(ends) - MOST_RANKS} more ranks failed"] if len(ends) > MOST_RANKS else []
    return "; ".join([*(own or lines)[-1:], *(end.text for end in _shown(ends)), *more])


def _shown(ends: Sequence[RankEnd]) -> list[RankEnd]:
    """The first that failed is always among them."""
    chosen = [end for end in ends if end.first][:1]
    others = [end for end in ends if end not in chosen][: MOST_RANKS - len(chosen)]
    return [end for end in ends if end in chosen or end in others]


def _rank_ends(log: str) -> Iterator[RankEnd]:
    rank, first = None, False
    for line in map(str.strip, log.splitlines()):
        if line.startswith(ROOT_CAUSE):
            first = True
        elif found := _RANK.match(line):
            rank = int(found[1])
        elif found := _EXIT_CODE.match(line):
            yield RankEnd(rank, int(found[1]), found[2] or "", first)
            rank = None
