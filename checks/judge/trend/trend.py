"""Compares the gates of the same machines over time: what gets worse, and which counters grow. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from checks.judge.machine_identity import MachineHistory, same_machines
from checks.judge.trend.degradation import (
    LEAST_PROOFS,
    NEWS,
    Lack,
    Motion,
    Move,
    chance_of,
    fleet_move,
    moves,
)
from checks.judge.trend.numbers import GateNumbers, NodeIdentity, NodeNumbers, Number, in_order
from checks.judge.trend.time_series import (
    CounterGrowth,
    Course,
    FleetCourse,
    IdentityChange,
    Point,
    Trend,
    TrendMachine,
)

DAY_S = 86400.0
MONTH = 30.0
# The newest gates say how many there are: of older ones some may be left out.
RATE = 20
# Gates that follow each other within seconds, as in a test, are no measure of how many there are in a month.
MOST_GATES_A_MONTH = 3000.0
History = MachineHistory[NodeNumbers]


@dataclass(frozen=True)
class _Track:
    """One number of one machine: places in the ordered gates with the values there, and the values since the machine's last change,
    divided by the medians of their gates if it has peers.
    """

    places: Sequence[int]
    values: Sequence[float]
    judged: Sequence[float]
    has_peers: bool


def follow(gates: Sequence[GateNumbers], every_point: bool = True) -> Trend:
    """The trend of the numbers of gates. Without `every_point` only numbers that move have their points."""
    ordered = in_order(gates)
    start = ordered[0][0] if ordered else 0.0
    days = [(at - start) / DAY_S for at, _ in ordered]
    unique: dict[tuple[Number, ...], tuple[Number, ...]] = {}
    # One object for what is equal, so that it is compared by its identity from here on.
    mine = [replace(gate, numbers=unique.setdefault(gate.numbers, gate.numbers)) for _, gate in ordered]
    tables = _Tables(mine)
    histories = same_machines([gate.nodes for gate in mine], _keys, [gate.cluster for gate in mine])
    changed = [_changes(history, mine, days) for history in histories]
    tracks = [tables.tracks(history, since) for history, (_, since) in zip(histories, changed, strict=True)]
    groups = list(_groups(mine))
    series = sum(len(track.judged) >= LEAST_PROOFS for own in tracks for track in own.values())
    rate = _gates_a_month(days, histories)
    chance = chance_of(series, rate)
    judged = _judged(tracks, chance)
    machines = [
        _machine(history, mine, days, own, own_moves, changes, every_point)
        for history, own, own_moves, (changes, _) in zip(histories, tracks, judged, changed, strict=True)
    ]
    together = [_together(group, places, mine, days, chance) for group, places in groups]
    first, last = (mine[0].measured_at, mine[-1].measured_at) if mine else ("", "")
    return Trend(
        len(mine), first, last, (*together, *machines), tuple(_fleet(tracks)), series, rate
    )  # fmt: skip


def _keys(node: NodeNumbers) -> tuple[str, ...]:
    return node.identity.keys


# The columns of one number are places in the order of the gates, the values there, and the medians of these gates.
_Columns = tuple[Sequence[int], Sequence[float | None], Sequence[float | None]]


class _Tables:
    """The columns of the gates, those of the medians made once for all machines that were in the same gates."""

    def __init__(self, gates: Sequence[GateNumbers]) -> None:
        self._gates = gates
        self._medians: dict[tuple[tuple[int, ...], int], list[tuple[float | None, ...]]] = {}

    def tracks(self, history: History, since: int) -> dict[Number, _Track]:
        """The numbers of a machine; `since` is the place of its last change in the order of the gates."""
        columns: dict[Number, list[_Columns]] = {}
        for places, numbers, node_rows in self._runs(history):
            key = (places, id(numbers))
            if key not in self._medians:
                gates = [self._gates[index].medians or (None,) * len(numbers) for index in places]
                self._medians[key] = list(zip(*gates, strict=True))
            medians = self._medians[key]
            for at, (number, column) in enumerate(zip(numbers, zip(*node_rows, strict=True), strict=True)):
                columns.setdefault(number, []).append((places, column, medians[at]))
        tracks = {number: _track(_joined(runs), since) for number, runs in columns.items()}
        return {number: track for number, track in tracks.items() if track.values}

    def _runs(
        self, history: History
    ) -> Iterator[tuple[tuple[int, ...], tuple[Number, ...], Sequence[tuple[float | None, ...]]]]:
        """The machine's gates that have the same numbers, in one: almost always all of them."""
        runs: dict[int, tuple[list[int], list[tuple[float | None, ...]]]] = {}
        for index, node in history.nodes:
            at, node_rows = runs.setdefault(id(self._gates[index].numbers), ([], []))
            at.append(index)
            node_rows.append(node.values)
        for places, node_rows in runs.values():
            yield tuple(places), self._gates[places[0]].numbers, node_rows


def _joined(runs: Sequence[_Columns]) -> _Columns:
    """The columns of gates with different numbers in one, oldest first."""
    if len(runs) == 1:
        return runs[0]
    items = sorted(item for run in runs for item in zip(*run, strict=True) if item[1] is not None)
    return tuple(zip(*items, strict=True)) if items else ((), (), ())  # type: ignore[return-value]


def _track(columns: _Columns, since: int) -> _Track:
    places, column, medians = columns
    begin = 0 if places and places[0] >= since else bisect_left(places, since)
    divided = [
        value / middle
        for value, middle in zip(column[begin:], medians[begin:], strict=True)
        if value is not None and middle
    ]
    values = [value for value in column[begin:] if value is not None]
    peers = len(divided) >= LEAST_PROOFS or 2 * len(divided) >= len(values) > 0
    if None in column:
        pairs = [(index, value) for index, value in zip(places, column, strict=True) if value is not None]
        places, column = [index for index, _ in pairs], [value for _, value in pairs]
    return _Track(places, column, divided if peers else values[-NEWS:], peers)  # type: ignore[arg-type]


def _judged(tracks: Sequence[Mapping[Number, _Track]], chance: float) -> list[dict[Number, Move]]:
    """What each number of each machine does."""
    owners: dict[tuple[Number, bool], list[int]] = {}
    for index, own in enumerate(tracks):
        for number, track in own.items():
            owners.setdefault((number, track.has_peers), []).append(index)
    result: list[dict[Number, Move]] = [{} for _ in tracks]
    for (number, peers), machines in owners.items():
        series = [tracks[index][number].judged for index in machines]
        for index, move in zip(machines, moves(number.bad, series, chance, peers), strict=True):
            result[index][number] = move
    return result


def _fleet(tracks: Sequence[Mapping[Number, _Track]]) -> Iterator[FleetCourse]:
    """The numbers that moved on all machines, the greatest change first."""
    values: dict[Number, list[Sequence[float]]] = {}
    for own in tracks:
        for number, track in own.items():
            values.setdefault(number, []).append(track.values)
    courses = []
    for number, series in values.items():
        move = fleet_move(series)
        if move is not None:
            courses.append(FleetCourse(**vars(move), **_number_fields(number)))
    yield from sorted(courses, key=lambda item: (not item.worse, -abs(item.change), item.check, item.what))


def _gates_a_month(days: Sequence[float], histories: Sequence[History]) -> float:
    """How many gates a machine has in a month, by those that has most."""
    most = 1.0
    for history in histories:
        mine = [days[index] for index, _ in history.nodes[-RATE:] if days[index] >= days[-1] - MONTH]
        if len(mine) > 1 and mine[-1] > mine[0]:
            most = max(most, (len(mine) - 1) / (mine[-1] - mine[0]) * MONTH)
    return min(most, MOST_GATES_A_MONTH)


def _changes(
    history: History, gates: Sequence[GateNumbers], days: Sequence[float]
) -> tuple[tuple[IdentityChange, ...], int]:
    """What changed on the machine, and the place of the last change."""
    changes: list[IdentityChange] = []
    since = history.nodes[0][0]
    current, last = NodeIdentity(), None
    for index, node in history.nodes:
        if node.identity is last:
            continue
        last = node.identity
        for name, (before, after) in current.changes_to(last).items():
            changes.append(IdentityChange(days[index], gates[index].gate_id, name, before, after))
            since = index
        current = NodeIdentity((), last.gpus or current.gpus, {**current.versions, **last.versions})
    return tuple(changes), since


def _machine(
    history: History,
    gates: Sequence[GateNumbers],
    days: Sequence[float],
    tracks: Mapping[Number, _Track],
    own_moves: Mapping[Number, Move],
    changes: tuple[IdentityChange, ...],
    every_point: bool,
) -> TrendMachine:
    order = sorted(tracks, key=lambda number: number.sort_key)
    courses = tuple(_course(number, tracks[number], own_moves[number], days, every_point) for number in order)
    counters = tuple(_counters(history, gates, days))
    first, last = (gates[history.nodes[index][0]].measured_at for index in (0, -1))
    places = tuple((gates[index].gate_id, node.name) for index, node in history.nodes)
    return TrendMachine(
        history.name, history.known_by, len(history.nodes), first, last, courses, counters, changes, places
    )


def _groups(gates: Sequence[GateNumbers]) -> Iterator[tuple[str, list[int]]]:
    """What nodes measure with each other belongs to the group, not to a single machine."""
    groups: dict[str, list[int]] = {}
    for index, gate in enumerate(gates):
        pairs = zip(gate.numbers, gate.together, strict=False)
        for group in {number.group for number, value in pairs if value is not None}:
            groups.setdefault(group, []).append(index)
    yield from sorted(groups.items())


def _together(
    group: str, places: Sequence[int], gates: Sequence[GateNumbers], days: Sequence[float], chance: float
) -> TrendMachine:
    values: dict[Number, list[tuple[int, float]]] = {}
    for index in places:
        for number, value in zip(gates[index].numbers, gates[index].together, strict=True):
            if number.group == group and value is not None:
                values.setdefault(number, []).append((index, value))
    courses = []
    for number in sorted(values, key=lambda number: number.sort_key):
        at, mine = zip(*values[number], strict=True)
        # Nothing is said of a machine here, so that no peers are needed.
        move = moves(number.bad, [mine[-NEWS:]], chance)[0]
        courses.append(_course(number, _Track(at, mine, mine, True), move, days, True))
    first, last = gates[places[0]].measured_at, gates[places[-1]].measured_at
    return TrendMachine(f"all together ({group})", "its group", len(places), first, last, tuple(courses), ())


def _course(number: Number, track: _Track, move: Move, days: Sequence[float], every_point: bool) -> Course:
    drawn = every_point or move.motion in (Motion.WORSE, Motion.MOVED)
    pairs = zip(track.places, track.values, strict=True) if drawn else ()
    points = tuple(Point(days[index], value) for index, value in pairs)
    if drawn and move.motion is not Motion.UNKNOWN and len({point.day for point in points}) < LEAST_PROOFS:
        move = Move(Motion.UNKNOWN, lack=Lack.PROOFS)  # times that do not differ give no order
    return Course(**vars(move), **_number_fields(number), points=points)


def _number_fields(number: Number) -> dict[str, Any]:
    return {"check": number.check, "what": number.title, "group": number.group, "bad": number.bad}


def _counters(
    history: History, gates: Sequence[GateNumbers], days: Sequence[float]
) -> Iterator[CounterGrowth]:
    points: dict[str, list[Point]] = {}
    for index, node in history.nodes:
        for name, total, count in zip(gates[index].counters, node.sums, node.parts, strict=False):
            if total is not None:
                points.setdefault(name, []).append(Point(days[index], total, count))
    for name, mine in sorted(points.items()):
        steps = [(first, other) for first, other in pairwise(mine) if first.parts == other.parts]
        grown = sum(max(0.0, later.value - earlier.value) for earlier, later in steps)
        check, _, metric = name.partition(" ")
        yield CounterGrowth(check, metric, tuple(mine), grown)
