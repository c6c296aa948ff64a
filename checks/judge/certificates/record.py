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


def after(state: RecordState | None, seen: WatchRound) -> RecordState:
    """The record after a round. Whatever does not follow without a break begins a new record, or none."""
    if not seen.is_clean or not seen.boot_id:
        return RecordState(None, seen.number)
    if state is None or state.record is None or not _follows(state.record, state.number, seen):
        return RecordState(_first(seen), seen.number)
    record = state.record
    longer = replace(
        record,
        rounds=record.rounds + 1,
        until=seen.ended_at,
        until_boot_s=seen.ended_boot_s,
        due_boot_s=_due(seen),
    )
    return RecordState(longer, seen.number)


def longest_gap_s(interval_s: float) -> float:
    """How long a watch with this interval may be silent."""
    return min(MOST_INTERVALS * interval_s, LONGEST_GAP_S)


def _due(seen: WatchRound) -> float:
    return seen.began_boot_s + seen.interval_s


def _first(seen: WatchRound) -> WatchRecord:
    return WatchRecord(
        seen.boot_id, seen.instance_type, seen.policy, seen.facts, seen.engine, seen.interval_s, 1,
        seen.ended_at, seen.ended_boot_s, seen.ended_at, seen.ended_boot_s, _due(seen),
    )  # fmt: skip


def _follows(record: WatchRecord, number: int, seen: WatchRound) -> bool:
    same = (record.boot_id, record.instance_type, record.policy, record.facts, record.engine, record.interval_s) == (
        seen.boot_id, seen.instance_type, seen.policy, seen.facts, seen.engine, seen.interval_s,
    )  # fmt: skip
    gap_s = seen.ended_boot_s - record.until_boot_s
    in_order = record.until_boot_s <= seen.began_boot_s <= seen.ended_boot_s
    moved_s = (seen.ended_at - record.since) - (seen.ended_boot_s - record.since_boot_s)
    near = gap_s <= longest_gap_s(record.interval_s)
    return same and number + 1 == seen.number and in_order and near and abs(moved_s) <= CLOCK_S
