"""The record of a watch: which rounds follow each other without a break, each whole and without a finding. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from checks.documents.certificates import WatchRecord

# After this many intervals without a round, and after LONGEST_GAP_S in any case, nobody knows what happened in between.
MOST_INTERVALS, LONGEST_GAP_S = 3, 600.0
# How much a machine's clock may move against the time since its boot before somebody must have set it.
CLOCK_S = 5.0


@dataclass(frozen=True)
class WatchRound:
    """One round as its watch saw it. `number` counts the rounds that this process began, also those that were lost.

    `is_clean`: it was in time, measured every check, and no finding is open on the machine after it, of whatever level and cause.
    """

    number: int
    boot_id: str
    instance_type: str
    policy: str
    facts: str
    engine: str
    interval_s: float
    ended_at: float
    began_boot_s: float
    ended_boot_s: float
    is_clean: bool


@dataclass(frozen=True)
class RecordState:
    """The record so far (None after a round that was not clean), and the number of the round that ended it."""

    record: WatchRecord | None
    number: int


def after(state: RecordState | None, watch_round: WatchRound) -> RecordState:
    """The record after a round. Whatever does not follow without a break begins a new record, or none."""
    if not watch_round.is_clean or not watch_round.boot_id:
        return RecordState(None, watch_round.number)
    if state is None or state.record is None or not _follows(state.record, state.number, watch_round):
        return RecordState(_first(watch_round), watch_round.number)
    record = state.record
    longer = replace(
        record,
        rounds=record.rounds + 1,
        until=watch_round.ended_at,
        until_boot_s=watch_round.ended_boot_s,
        due_boot_s=_due(watch_round),
    )
    return RecordState(longer, watch_round.number)


def longest_gap_s(interval_s: float) -> float:
    """How long a watch with this interval may be silent."""
    return min(MOST_INTERVALS * interval_s, LONGEST_GAP_S)


def _due(watch_round: WatchRound) -> float:
    return watch_round.began_boot_s + watch_round.interval_s


def _first(latest: WatchRound) -> WatchRecord:
    return WatchRecord(
        latest.boot_id, latest.instance_type, latest.policy, latest.facts, latest.engine, latest.interval_s, 1,
        latest.ended_at, latest.ended_boot_s, latest.ended_at, latest.ended_boot_s, _due(latest),
    )  # fmt: skip


def _follows(record: WatchRecord, number: int, latest: WatchRound) -> bool:
    same = (record.boot_id, record.instance_type, record.policy, record.facts, record.engine, record.interval_s) == (
        latest.boot_id, latest.instance_type, latest.policy, latest.facts, latest.engine, latest.interval_s,
    )  # fmt: skip
    gap_s = latest.ended_boot_s - record.until_boot_s
    in_order = record.until_boot_s <= latest.began_boot_s <= latest.ended_boot_s
    moved_s = (latest.ended_at - record.since) - (latest.ended_boot_s - record.since_boot_s)
    near = gap_s <= longest_gap_s(record.interval_s)
    return same and number + 1 == latest.number and in_order and near and abs(moved_s) <= CLOCK_S
