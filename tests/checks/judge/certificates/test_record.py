"""The record of a watch goes on only while every round follows the one before, is whole and finds nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.judge.certificates.record import RecordState, WatchRound, after, longest_gap_s


def in_time(number: int, clock_s: float = 60.0) -> WatchRound:
    """A round, a minute after the one before it; the clock says that it was so many seconds."""
    boot_s = 940.0 + 60.0 * number
    at = 5000.0 + clock_s * (number - 1)
    return WatchRound(number, "boot", "cpu", "a" * 64, "b" * 64, "1.0", 60.0, at, boot_s - 1.0, boot_s, True)


FIRST, SECOND, THIRD = map(in_time, (1, 2, 3))


def record_of(*rounds: WatchRound) -> tuple[int, float] | None:
    """How many rounds the record has, and since when; None if there is none."""
    state: RecordState | None = None
    for seen in rounds:
        state = after(state, seen)
    assert state is not None
    return (state.record.rounds, state.record.since_boot_s) if state.record else None


def test_rounds_that_follow_each_other_make_one_record() -> None:
    assert (1, 1000.0) == record_of(FIRST)
    assert (2, 1000.0) == record_of(FIRST, SECOND) == record_of(FIRST, in_time(2, 65.0))


def test_a_round_that_found_something_or_was_not_whole_ends_the_record() -> None:
    bad = replace(SECOND, is_clean=False)

    assert record_of(FIRST, bad) is None
    assert (1, 1120.0) == record_of(FIRST, bad, THIRD)


@pytest.mark.parametrize(
    "broken",
    [
        replace(SECOND, number=3),
        replace(SECOND, number=1),
        replace(SECOND, boot_id="another boot"),
        replace(SECOND, instance_type="toy.4x"),
        replace(SECOND, policy="0" * 64),
        replace(SECOND, facts="0" * 64),
        replace(SECOND, engine="1.1"),
        replace(SECOND, interval_s=30.0),
        replace(SECOND, ended_at=5066.0),
        replace(SECOND, ended_at=5050.0),
        replace(SECOND, began_boot_s=990.0),
        replace(SECOND, ended_at=5181.0, began_boot_s=1180.0, ended_boot_s=1181.0),
    ],
)
def test_watch_record_begins_anew_after_a_round_that_does_not_follow(broken: WatchRound) -> None:
    assert (1, broken.ended_boot_s) == record_of(FIRST, broken)


def test_a_machine_whose_boot_is_not_known_has_no_record() -> None:
    assert record_of(replace(FIRST, boot_id="")) is None


def test_a_clock_that_is_set_in_small_steps_is_noticed_as_well() -> None:
    """Each step is below what is noticed between two rounds."""
    rounds = [in_time(number, 64.0) for number in range(1, 6)]
    found = record_of(*rounds)

    assert found is not None
    assert found[1] > rounds[1].ended_boot_s


def test_the_next_round_is_due_an_interval_after_the_last_one_began() -> None:
    state = after(after(None, FIRST), SECOND)

    assert state.record is not None
    assert (1060.0, 1119.0) == (state.record.until_boot_s, state.record.due_boot_s)


def test_a_watch_that_looks_rarely_may_not_be_silent_for_long() -> None:
    assert [3.0, 180.0, 600.0, 600.0] == [longest_gap_s(every) for every in (1.0, 60.0, 300.0, 86400.0)]
