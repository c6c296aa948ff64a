"""What one answer of NCCL's RAS says about a job. Pure.

Source: NVIDIA, NCCL user guide, "RAS" (2.24 to 2.32), and the JSON that NCCL writes (2.28.7 and later).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

UNKNOWN_PID = -1
# Every rank of a communicator has to launch each of these equally often. Send and receive are not among them: how often a rank
# does these follows from its place in a pipeline.
COLLECTIVES: Mapping[str, tuple[str, str]] = {
    "AllReduce": ("all-reduce", "all-reduces"),
    "AllGather": ("all-gather", "all-gathers"),
    "ReduceScatter": ("reduce-scatter", "reduce-scatters"),
    "Broadcast": ("broadcast", "broadcasts"),
    "Reduce": ("reduce", "reduces"),
    "AlltoAll": ("all-to-all", "all-to-alls"),
    "Gather": ("gather", "gathers"),
    "Scatter": ("scatter", "scatters"),
    "": ("collective operation", "collective operations"),  # NCCL 2.24 and 2.25 count all of them together
}
# ncclResult_t of nccl.h. A rank that is at work has "success" or "in progress".
SUCCESS, IN_PROGRESS = 0, 7
RESULTS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote process error",
}
# A gap between ranks names at most so many of them, and an answer has at most so many gaps: the largest communicators come first.
MOST_NAMED, MOST_GAPS = 64, 256


class ReportError(ValueError):
    """The text is not completely an answer of RAS."""


@dataclass(frozen=True)
class Place:
    """A rank of the job: its number in its largest communicator, and where it runs, as RAS says it (hosts are IP addresses)."""

    rank: int
    host: str = ""
    pid: int = UNKNOWN_PID
    gpu: str = ""

    @property
    def label(self) -> str:
        """Such as "rank 3 on 10.0.0.7 (GPU 3)"."""
        if not self.host:
            return f"rank {self.rank}"
        return f"rank {self.rank} on {self.host}{f' (GPU {self.gpu})' if self.gpu else ''}"


@dataclass(frozen=True)
class Silent:
    """A rank that RAS could not reach. `dead`: RAS has tried for 60 s and has given up."""

    place: Place
    dead: bool


@dataclass(frozen=True)
class Failed:
    """A rank that reports an error of NCCL."""

    place: Place
    error: str


@dataclass(frozen=True)
class Lag:
    """A rank that has launched `by` operations less than others of its communicator, or more where `ahead`.

    `launched` changes when the rank launches anything, and `others` when one of those does that it is compared with.
    """

    communicator: str
    operation: str
    place: Place
    by: int
    ahead: bool
    launched: int
    others: int = 0


@dataclass(frozen=True)
class RasReport:
    """One answer. `launched` counts all operations of all ranks, None if the format does not say.

    `passing` counts communicators that are made or taken down at the moment, of which nothing is judged. `unnamed` are groups of
    ranks that are behind and that RAS does not name. `names` are the communicators, if the format names them all.
    """

    version: str
    ranks: int
    communicators: int
    launched: int | None = None
    passing: int = 0
    silent: tuple[Silent, ...] = ()
    failed: tuple[Failed, ...] = ()
    lags: tuple[Lag, ...] = ()
    unnamed: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Counted:
    """How often a rank has launched one operation, and how often anything."""

    place: Place
    count: int
    total: int


def lags_of(communicator: str, operation: str, ranks: Iterable[Counted]) -> Iterator[Lag]:
    """The ranks that stand apart. Those that are behind, or if these are the majority, those that are ahead of them."""
    counted = list(ranks)
    counts = {one.count for one in counted}
    if len(counts) < 2:
        return
    most = max(counts)
    behind = [one for one in counted if one.count < most]
    ahead = 2 * len(behind) > len(counted)
    named = [one for one in counted if one.count == most] if ahead else behind
    others = sum(one.total for one in behind) if ahead else 0
    least = max(one.count for one in behind)
    for one in named[:MOST_NAMED]:
        by = most - (least if ahead else one.count)
        yield Lag(communicator, operation, one.place, by, ahead, one.total, others)


def operations(count: int, operation: str) -> str:
    """Such as "12 all-reduces"."""
    one, several = COLLECTIVES.get(operation, (operation, operation))
    return f"{count:,} {one if count == 1 else several}"


class RankState(Enum):
    """What a rank does in a communicator."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
