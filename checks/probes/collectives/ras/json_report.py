"""Reads an answer of RAS in JSON (NCCL 2.28.7 and later). Pure.

Everything that is needed has to be there, and the numbers of ranks have to fit: an answer that was cut is no answer.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.documents.decode import parse_json
from checks.probes.collectives.ras.report import (
    COLLECTIVES,
    IN_PROGRESS,
    MOST_GAPS,
    RESULTS,
    SUCCESS,
    UNKNOWN_PID,
    Counted,
    Failed,
    Lag,
    Place,
    RankState,
    RasReport,
    ReportError,
    Silent,
    lags_of,
)
from checks.value_types import DecodeError

MOST_BYTES = 32 << 20
# NCCL 2.28.9 leaves out the comma between a missing rank's GPU and its status.
_NO_COMMA = re.compile(r'("nvml_dev"\s*:\s*-?\d+)(\s*\n\s*"status")')
_BEGINS = re.compile(r'"communicators_count"\s*:\s*\d+\s*,\s*"communicators"\s*:')

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


def begins(text: str) -> bool:
    """Whether an answer in JSON begins in this text."""
    return _BEGINS.search(text) is not None


def read(text: str) -> RasReport:
    """One answer. Raises ReportError."""
    try:
        value = parse_json(_NO_COMMA.sub(r"\1,\2", text), MOST_BYTES)
    except DecodeError as error:
        raise ReportError(f"the answer of RAS cannot be read: {error}") from error
    return _report(_object(value))


def texts(text: str) -> list[str]:
    """The answers that follow one another in a text. Raises ReportError for anything else between them."""
    decoder, found, at = json.JSONDecoder(), list[str](), 0
    text = _NO_COMMA.sub(r"\1,\2", text)
    while text[at:].strip():
        start = at + len(text[at:]) - len(text[at:].lstrip())
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            raise ReportError(f"the answer of RAS cannot be read: {error}") from error
        found.append(text[start:end])
        at = end
    return found


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
        names=frozenset(one.name for one in known if one.size),
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
