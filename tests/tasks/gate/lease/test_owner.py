"""Whether a lock is one's own: the same process, and the same flow run where the lock names one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.gate.lease.owner import this_process


@pytest.mark.parametrize(
    ("held_by", "asked_by", "expected"),
    [("", "", True), ("", "run", True), ("run", "run", True), ("run", "other", False), ("run", "", False)],
)
def test_a_lock_of_another_run_of_the_process_is_not_own(held_by: str, asked_by: str, expected: bool) -> None:
    """A worker may start two runs in one process."""
    assert expected is this_process(held_by).is_me(this_process(asked_by))


def test_a_lock_of_another_process_is_not_ones_own() -> None:
    """Not even with the same number on another machine, or with the same number later."""
    one = this_process()
    others = replace(one, pid=one.pid + 1), replace(one, machine="another"), replace(one, start_ticks=1)

    assert not any(one.is_me(other) for other in others)
