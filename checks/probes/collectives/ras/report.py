"""Reads an answer of NCCL's RAS in JSON (NCCL 2.28.7 and later): what it says about a job. Pure.

Everything that is needed has to be there, and the numbers of ranks have to fit: an answer that was cut is no answer.
Source: NVIDIA, NCCL user guide, "RAS" (2.24 to 2.32), and the JSON that NCCL writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from checks.documents.decode import parse_json
from checks.value_types import DecodeError

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
    """One answer. `launched` counts all operations of all ranks; `passing` counts communicators that are made or taken down at the
    moment, of which nothing is judged.
    """

    version: str
    ranks: int
    communicators: int
    launched: int = 0
    passing: int = 0
    silent: tuple[Silent, ...] = ()
    failed: tuple[Failed, ...] = ()
    lags: tuple[Lag, ...] = ()


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


Owner = tuple[str, int, int]


@dataclass(frozen=True)
class _Rank:
    number: int
    owner: Owner
    state: RankState
    result: int
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class _Missing:
    number: int
    owner: Owner
    unreachable: bool
    dead: bool


@dataclass(frozen=True)
class _Communicator:
    name: str
    size: int
    ranks: tuple[_Rank, ...]
    missing: tuple[_Missing, ...]

    @property
    def passing(self) -> bool:
        """Whether it is being made or taken down. One without ranks is not initialised yet (NCCL issue 2346), and a rank that answers
        and is missing has left it.
        """
        left = any(not rank.unreachable and not rank.dead for rank in self.missing)
        return left or not self.ranks or any(rank.state is not RankState.RUNNING for rank in self.ranks)


def read(text: str) -> RasReport:
    """One answer. Raises ReportError."""
    try:
        value = parse_json(text, MOST_BYTES)
    except DecodeError as error:
        raise ReportError(f"the answer of RAS cannot be read: {error}") from error
    return _report(_object(value))


def _report(value: Mapping[str, object]) -> RasReport:
    known = [_communicator(_object(one)) for one in _list(value, "communicators")]
    if len(known) != _number(value, "communicators_count"):
        raise ReportError("the answer of RAS does not list as many communicators as it counts")
    _text(value, "timestamp")
    _number(_object(value.get("ras")), "timeouts_count")
    known.sort(key=lambda one: -one.size)
    places = _places(known)
    totals: dict[Owner, int] = defaultdict(int)
    for one in known:
        for rank in one.ranks:
            totals[rank.owner] += rank.total
    judged = [one for one in known if not one.passing]
    lags = [lag for one in judged for lag in _lags(one, places, totals)]
    return RasReport(
        version=_text(value, "nccl_version"),
        ranks=len(places),
        communicators=len(known),
        launched=sum(totals.values()),
        passing=len(known) - len(judged),
        silent=_silent(judged, places),
        failed=_failed(known, places),
        lags=tuple(lags[:MOST_GAPS]),
    )


def _places(found: Sequence[_Communicator]) -> dict[Owner, Place]:
    """Each rank's place by its owner, with its number in its largest communicator."""
    places: dict[Owner, Place] = {}
    for one in found:
        numbered = [
            *((rank.number, rank.owner) for rank in one.ranks),
            *((rank.number, rank.owner) for rank in one.missing),
        ]
        for number, owner in numbered:
            host, pid, gpu = owner
            known = pid != UNKNOWN_PID
            places.setdefault(owner, Place(number, host, pid, str(gpu)) if known else Place(number))
    return places


def _lags(one: _Communicator, places: Mapping[Owner, Place], totals: Mapping[Owner, int]) -> Iterator[Lag]:
    for operation in COLLECTIVES:
        counted = [
            Counted(places[rank.owner], rank.counts[operation], totals[rank.owner])
            for rank in one.ranks
            if operation in rank.counts
        ]
        yield from lags_of(one.name, operation, counted)


def _silent(judged: Sequence[_Communicator], places: Mapping[Owner, Place]) -> tuple[Silent, ...]:
    """A rank that answers and has left its communicator is not silent."""
    found: dict[Owner, Silent] = {}
    for one in judged:
        for rank in one.missing:
            if rank.unreachable or rank.dead:
                found.setdefault(rank.owner, Silent(places[rank.owner], rank.dead))
    return tuple(found.values())


def _failed(known: Sequence[_Communicator], places: Mapping[Owner, Place]) -> tuple[Failed, ...]:
    found: dict[Owner, Failed] = {}
    for one in known:
        for rank in one.ranks:
            if rank.result not in (SUCCESS, IN_PROGRESS) and rank.state is not RankState.ENDING:
                said = RESULTS.get(rank.result, f"error {rank.result}")
                found.setdefault(rank.owner, Failed(places[rank.owner], said))
    return tuple(found.values())


def _communicator(value: Mapping[str, object]) -> _Communicator:
    name = f"{_text(value, 'hash')} {_text(value, 'secondary_hash')}"
    ranks = tuple(_rank(_object(one), name) for one in _list(value, "ranks"))
    missing = tuple(_missing(_object(one), name) for one in _list(value, "missing_ranks"))
    size = _number(value, "size")
    counted = (_number(value, "ranks_count"), _number(value, "missing_ranks_count"))
    if counted != (len(ranks), len(missing)) or len(ranks) + len(missing) > size:
        raise ReportError(f"communicator {name} does not list as many ranks as it counts")
    if len({frozenset(rank.counts) for rank in ranks}) > 1 or not all(rank.counts for rank in ranks):
        raise ReportError(f"the ranks of communicator {name} do not count the same operations")
    return _Communicator(name, size, ranks, missing)


def _rank(value: Mapping[str, object], communicator: str) -> _Rank:
    status = _object(value.get("status"))
    counts = _object(value.get("collective_counts"))
    started, failed = _number(status, "init_state"), _number(status, "async_error")
    ending = [_flag(status, name) for name in ("finalize_called", "destroy_flag", "abort_flag")]
    state = RankState.RUNNING if started == SUCCESS else RankState.STARTING
    return _Rank(
        _number(value, "rank"),
        _owner(value, communicator),
        RankState.ENDING if any(ending) else state,
        started if started not in (SUCCESS, IN_PROGRESS) else failed,
        {name: _number(counts, name) for name in counts},
    )


def _missing(value: Mapping[str, object], communicator: str) -> _Missing:
    status = _object(value.get("status"))
    unreachable, dead = _flag(status, "unresponsive"), _flag(status, "considered_dead")
    return _Missing(_number(value, "rank"), _owner(value, communicator), unreachable, dead)


def _owner(value: Mapping[str, object], communicator: str) -> Owner:
    """Who the rank is, in all its communicators. `nvml_dev` is unique on a node, `cuda_dev` need not be. Of a process that RAS does
    not know it is only known which rank of one communicator it is.
    """
    pid, host = _number(value, "pid", least=UNKNOWN_PID), _text(value, "host")
    if pid == UNKNOWN_PID:
        return f"{communicator} {_number(value, 'rank')}", pid, -1
    return host, pid, _number(value, "nvml_dev", least=-1)


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ReportError("the answer of RAS has another form than NCCL documents")
    return value


def _list(value: Mapping[str, object], name: str) -> list[object]:
    found = value.get(name)
    if not isinstance(found, list):
        raise ReportError(f"the answer of RAS has no list {name}")
    return found


def _number(value: Mapping[str, object], name: str, least: int = 0) -> int:
    found = value.get(name)
    if type(found) is not int or not least <= found < 1 << 63:
        raise ReportError(f"the answer of RAS has no number {name}")
    return found


def _text(value: Mapping[str, object], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found.isprintable() or len(found) > 200:
        raise ReportError(f"the answer of RAS has no text {name}")
    return found


def _flag(value: Mapping[str, object], name: str) -> bool:
    found = value.get(name)
    if not isinstance(found, bool):
        raise ReportError(f"the answer of RAS does not say {name}")
    return found
