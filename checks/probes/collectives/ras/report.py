"""Reads an answer of NCCL's RAS in JSON (NCCL 2.28.7 and later): what it says about a job. Pure.

Everything that is needed has to be there, and the numbers of ranks have to fit: an answer that was cut is no answer.
Source: NVIDIA, NCCL user guide, "RAS" (2.24 to 2.32), and the JSON that NCCL writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Rank:
    number: int
    owner: Owner
    started: bool
    ending: bool
    result: int
    counts: Mapping[str, int]


@dataclass(frozen=True)
class _Missing:
    """A rank that is not there. One that answers nevertheless has left its communicator, and is not silent."""

    number: int
    owner: Owner
    left: bool
    dead: bool


@dataclass(frozen=True)
class _Communicator:
    name: str
    size: int
    ranks: tuple[_Rank, ...]
    missing: tuple[_Missing, ...]

    @property
    def passing(self) -> bool:
        """Whether it is being made or taken down. One without ranks is not initialised yet (NCCL issue 2346)."""
        left = any(rank.left for rank in self.missing)
        return left or not self.ranks or any(rank.ending or not rank.started for rank in self.ranks)


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
    labels: dict[Owner, str] = {}
    totals: Counter[Owner] = Counter()
    for one in known:
        numbered: list[_Rank | _Missing] = [*one.ranks, *one.missing]
        for each in numbered:
            labels.setdefault(each.owner, _label(each.number, each.owner))
        for rank in one.ranks:
            totals[rank.owner] += sum(rank.counts.values())
    judged = [one for one in known if not one.passing]
    silent: dict[str, bool] = {}
    for gone in (rank for one in judged for rank in one.missing):
        silent.setdefault(labels[gone.owner], gone.dead)
    failed: dict[str, str] = {}
    for rank, error in (pair for one in known for pair in _failed(one)):
        failed.setdefault(labels[rank.owner], error)
    lags = [lag for one in judged for lag in _lags(one, labels, totals)]
    return RasReport(
        version=_text(value, "nccl_version"),
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
        counts = {rank.owner: rank.counts[operation] for rank in one.ranks if operation in rank.counts}
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


def _failed(one: _Communicator) -> Iterator[tuple[_Rank, str]]:
    for rank in one.ranks:
        if rank.result not in (SUCCESS, IN_PROGRESS) and not rank.ending:
            yield rank, RESULTS.get(rank.result, f"error {rank.result}")


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
    return _Rank(
        _number(value, "rank"),
        _owner(value, communicator),
        started == SUCCESS,
        any(ending),
        started if started not in (SUCCESS, IN_PROGRESS) else failed,
        {name: _number(counts, name) for name in counts},
    )


def _missing(value: Mapping[str, object], communicator: str) -> _Missing:
    status = _object(value.get("status"))
    unreachable, dead = _flag(status, "unresponsive"), _flag(status, "considered_dead")
    left = not unreachable and not dead
    return _Missing(_number(value, "rank"), _owner(value, communicator), left, dead)


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
