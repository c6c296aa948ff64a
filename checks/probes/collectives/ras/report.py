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
    singular, several = COLLECTIVES.get(operation, (operation, operation))
    return f"{count:,} {singular if count == 1 else several}"


Owner = tuple[str, int, int]
Count = Annotated[int, Range(0, (1 << 63) - 1)]
Number = Annotated[int, Range(-1, (1 << 63) - 1)]
ShortText = Annotated[str, Text(r"[ -~]*", 200)]


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
    host: ShortText
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
    host: ShortText
    pid: Number
    status: _MissingStatus
    nvml_dev: Number | None = None


@dataclass(frozen=True)
class _Communicator(Foreign):
    hash: ShortText
    secondary_hash: ShortText
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
        states = [rank.status for rank in self.missing_ranks]
        left = any(not state.unresponsive and not state.considered_dead for state in states)
        return (
            left
            or not self.ranks
            or any(rank.ending or rank.status.init_state != SUCCESS for rank in self.ranks)
        )

    def owner(self, rank: _Rank | _MissingRank) -> Owner:
        """Who the rank is, in all its communicators. `nvml_dev` is unique on a node, `cuda_dev` need not be. Of a process that RAS
        does not know it is only known which rank of one communicator it is.
        """
        if rank.pid == UNKNOWN_PID:
            return f"{self.name} {rank.rank}", rank.pid, -1
        if rank.nvml_dev is None:
            raise ReportError("the answer of RAS has no number nvml_dev")
        return rank.host, rank.pid, rank.nvml_dev

    def require_whole(self) -> None:
        """Raises ReportError if ranks are missing from the answer."""
        listed = (len(self.ranks), len(self.missing_ranks))
        if listed != (self.ranks_count, self.missing_ranks_count) or sum(listed) > self.size:
            raise ReportError(f"communicator {self.name} does not list as many ranks as it counts")
        counts = [rank.collective_counts for rank in self.ranks]
        if len(set(map(frozenset, counts))) > 1 or not all(counts):
            raise ReportError(f"the ranks of communicator {self.name} do not count the same operations")


@dataclass(frozen=True)
class _Collection(Foreign):
    timeouts_count: Count


@dataclass(frozen=True)
class _RasDocument(Foreign):
    nccl_version: ShortText
    timestamp: ShortText
    communicators_count: Count
    communicators: tuple[_Communicator, ...]
    ras: _Collection


def read(text: str) -> RasReport:
    """One answer. Raises ReportError."""
    try:
        document = decode(_RasDocument, parse_json(text, MOST_BYTES))
    except DecodeError as error:
        raise ReportError(f"the answer of RAS cannot be read: {error}") from error
    communicators = sorted(document.communicators, key=lambda communicator: -communicator.size)
    if len(communicators) != document.communicators_count:
        raise ReportError("the answer of RAS does not list as many communicators as it counts")
    labels: dict[Owner, str] = {}
    totals: Counter[Owner] = Counter()
    failed: dict[str, str] = {}
    for communicator in communicators:
        communicator.require_whole()
        everyone: list[_Rank | _MissingRank] = [*communicator.ranks, *communicator.missing_ranks]
        for each in everyone:
            labels.setdefault(communicator.owner(each), _label(each.rank, communicator.owner(each)))
        for rank in communicator.ranks:
            totals[communicator.owner(rank)] += sum(rank.collective_counts.values())
            if rank.error:
                failed.setdefault(labels[communicator.owner(rank)], rank.error)
    judged = [communicator for communicator in communicators if not communicator.passing]
    silent: dict[str, bool] = {}
    for communicator in judged:
        for gone in communicator.missing_ranks:
            silent.setdefault(labels[communicator.owner(gone)], gone.status.considered_dead)
    lags = [lag for communicator in judged for lag in _lags(communicator, labels, totals)]
    return RasReport(
        version=document.nccl_version,
        ranks=len(labels),
        communicators=len(communicators),
        launched=totals.total(),
        passing=len(communicators) - len(judged),
        silent=silent,
        failed=failed,
        lags=tuple(lags[:MOST_GAPS]),
    )


def _label(number: int, owner: Owner) -> str:
    host, pid, gpu = owner
    return f"rank {number}" if pid == UNKNOWN_PID else f"rank {number} on {host} (GPU {gpu})"


def _lags(group: _Communicator, labels: Mapping[Owner, str], totals: Mapping[Owner, int]) -> Iterator[Lag]:
    """The ranks that stand apart. Those that are behind, or if these are the majority, those that are ahead of them."""
    for operation in COLLECTIVES:
        ranks = [rank for rank in group.ranks if operation in rank.collective_counts]
        counts = {group.owner(rank): rank.collective_counts[operation] for rank in ranks}
        most = max(counts.values(), default=0)
        lagging = [owner for owner, count in counts.items() if count < most]
        if not lagging:
            continue
        ahead = 2 * len(lagging) > len(counts)
        owners = [owner for owner in counts if (counts[owner] == most) is ahead]
        others = sum(totals[owner] for owner in lagging) if ahead else 0
        nearest = max(counts[owner] for owner in lagging)
        for owner in owners[:MOST_NAMED]:
            by = most - (nearest if ahead else counts[owner])
            yield Lag(group.name, operation, labels[owner], by, ahead, totals[owner], others)
