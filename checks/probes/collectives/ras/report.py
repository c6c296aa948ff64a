"""Reads an answer of NCCL's RAS in JSON (NCCL 2.28.7 and later): what it says about a job. Pure.

Everything that is needed has to be there, and the numbers of ranks have to fit: an answer that was cut is no answer.
Source: NVIDIA, NCCL user guide, "RAS" (2.24 to 2.32), and the JSON that NCCL writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from checks.documents.decode import Foreign, decode, parse_json
from checks.value_types import DecodeError, Range, Text

MOST_BYTES = 32 << 20
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
class Lag:
    """A rank that has launched `by` operations less than others of its communicator, or more where `ahead`.

    `launched` changes when the rank launches anything, and `others` when one of those does that it is compared with.
    """

    communicator: str
    operation: str
    label: str
    by: int
    ahead: bool
    launched: int
    others: int = 0


@dataclass(frozen=True)
class RasReport:
    """One answer. A rank is named by its number in its largest communicator and by where it runs, as RAS gives it ("rank 3 on
    10.0.0.7 (GPU 3)"; hosts are IP addresses). `launched` counts all operations of all ranks; `passing` counts communicators that are
    made or taken down at the moment, of which nothing is judged. `silent` are the ranks that RAS could not reach, with whether it has
    tried for 60 s and given up; `failed` those that report an error of NCCL, with the error.
    """

    version: str
    ranks: int
    communicators: int
    launched: int
    passing: int
    silent: Mapping[str, bool]
    failed: Mapping[str, str]
    lags: tuple[Lag, ...]


def operations(count: int, operation: str) -> str:
    """Such as "12 all-reduces"."""
    one, several = COLLECTIVES.get(operation, (operation, operation))
    return f"{count:,} {one if count == 1 else several}"


Owner = tuple[str, int, int]
Count = Annotated[int, Range(0, (1 << 63) - 1)]
Number = Annotated[int, Range(-1, (1 << 63) - 1)]
Words = Annotated[str, Text(r"[ -~]*", 200)]


@dataclass(frozen=True)
class _Status(Foreign):
    init_state: Count
    async_error: Count
    finalize_called: bool
    destroy_flag: bool
    abort_flag: bool


@dataclass(frozen=True)
class _Rank(Foreign):
    """A rank that answers. `nvml_dev` is left out only of a process that RAS does not know."""

    rank: Count
    host: Words
    pid: Number
    status: _Status
    collective_counts: Mapping[str, Count]
    nvml_dev: Number | None = None

    @property
    def ending(self) -> bool:
        """Whether it leaves its communicator."""
        return self.status.finalize_called or self.status.destroy_flag or self.status.abort_flag

    @property
    def error(self) -> str:
        """The error of NCCL that it reports; "" for a rank at work, and for one that is ending."""
        codes = (self.status.init_state, self.status.async_error)
        code = next((code for code in codes if code not in (SUCCESS, IN_PROGRESS)), SUCCESS)
        return "" if code == SUCCESS or self.ending else RESULTS.get(code, f"error {code}")


@dataclass(frozen=True)
class _MissingStatus(Foreign):
    unresponsive: bool
    considered_dead: bool


@dataclass(frozen=True)
class _MissingRank(Foreign):
    """A rank that is not there. One that answers nevertheless has left its communicator, and is not silent."""

    rank: Count
    host: Words
    pid: Number
    status: _MissingStatus
    nvml_dev: Number | None = None


@dataclass(frozen=True)
class _Communicator(Foreign):
    hash: Words
    secondary_hash: Words
    size: Count
    ranks_count: Count
    missing_ranks_count: Count
    ranks: tuple[_Rank, ...]
    missing_ranks: tuple[_MissingRank, ...]

    @property
    def name(self) -> str:
        """Both hashes."""
        return f"{self.hash} {self.secondary_hash}"

    @property
    def passing(self) -> bool:
        """Whether it is being made or taken down. One without ranks is not initialised yet (NCCL issue 2346)."""
        states = [one.status for one in self.missing_ranks]
        left = any(not one.unresponsive and not one.considered_dead for one in states)
        return (
            left
            or not self.ranks
            or any(one.ending or one.status.init_state != SUCCESS for one in self.ranks)
        )

    def owner(self, one: _Rank | _MissingRank) -> Owner:
        """Who the rank is, in all its communicators. `nvml_dev` is unique on a node, `cuda_dev` need not be. Of a process that RAS
        does not know it is only known which rank of one communicator it is.
        """
        if one.pid == UNKNOWN_PID:
            return f"{self.name} {one.rank}", one.pid, -1
        if one.nvml_dev is None:
            raise ReportError("the answer of RAS has no number nvml_dev")
        return one.host, one.pid, one.nvml_dev

    def require_whole(self) -> None:
        """Raises ReportError if ranks are missing from the answer."""
        listed = (len(self.ranks), len(self.missing_ranks))
        if listed != (self.ranks_count, self.missing_ranks_count) or sum(listed) > self.size:
            raise ReportError(f"communicator {self.name} does not list as many ranks as it counts")
        counts = [one.collective_counts for one in self.ranks]
        if len(set(map(frozenset, counts))) > 1 or not all(counts):
            raise ReportError(f"the ranks of communicator {self.name} do not count the same operations")


@dataclass(frozen=True)
class _Collection(Foreign):
    timeouts_count: Count


@dataclass(frozen=True)
class _RasDocument(Foreign):
    nccl_version: Words
    timestamp: Words
    communicators_count: Count
    communicators: tuple[_Communicator, ...]
    ras: _Collection


def read(text: str) -> RasReport:
    """One answer. Raises ReportError."""
    try:
        found = decode(_RasDocument, parse_json(text, MOST_BYTES))
    except DecodeError as error:
        raise ReportError(f"the answer of RAS cannot be read: {error}") from error
    known = sorted(found.communicators, key=lambda one: -one.size)
    if len(known) != found.communicators_count:
        raise ReportError("the answer of RAS does not list as many communicators as it counts")
    labels: dict[Owner, str] = {}
    totals: Counter[Owner] = Counter()
    failed: dict[str, str] = {}
    for one in known:
        one.require_whole()
        everyone: list[_Rank | _MissingRank] = [*one.ranks, *one.missing_ranks]
        for each in everyone:
            labels.setdefault(one.owner(each), _label(each.rank, one.owner(each)))
        for rank in one.ranks:
            totals[one.owner(rank)] += sum(rank.collective_counts.values())
            if rank.error:
                failed.setdefault(labels[one.owner(rank)], rank.error)
    judged = [one for one in known if not one.passing]
    silent: dict[str, bool] = {}
    for one in judged:
        for gone in one.missing_ranks:
            silent.setdefault(labels[one.owner(gone)], gone.status.considered_dead)
    lags = [lag for one in judged for lag in _lags(one, labels, totals)]
    return RasReport(
        version=found.nccl_version,
        ranks=len(labels),
        communicators=len(known),
        launched=totals.total(),
        passing=len(known) - len(judged),
        silent=silent,
        failed=failed,
        lags=tuple(lags[:MOST_GAPS]),
    )


def _label(number: int, owner: Owner) -> str:
    host, pid, gpu = owner
    return f"rank {number}" if pid == UNKNOWN_PID else f"rank {number} on {host} (GPU {gpu})"


def _lags(one: _Communicator, labels: Mapping[Owner, str], totals: Mapping[Owner, int]) -> Iterator[Lag]:
    """The ranks that stand apart. Those that are behind, or if these are the majority, those that are ahead of them."""
    for operation in COLLECTIVES:
        ranks = [rank for rank in one.ranks if operation in rank.collective_counts]
        counts = {one.owner(rank): rank.collective_counts[operation] for rank in ranks}
        most = max(counts.values(), default=0)
        behind = [owner for owner, count in counts.items() if count < most]
        if not behind:
            continue
        ahead = 2 * len(behind) > len(counts)
        named = [owner for owner in counts if (counts[owner] == most) is ahead]
        others = sum(totals[owner] for owner in behind) if ahead else 0
        nearest = max(counts[owner] for owner in behind)
        for owner in named[:MOST_NAMED]:
            by = most - (nearest if ahead else counts[owner])
            yield Lag(one.name, operation, labels[owner], by, ahead, totals[owner], others)
