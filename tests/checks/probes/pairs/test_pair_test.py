"""The sizes of a pair test's messages, of which both ranks must make the same, and how long a process waited for a CPU."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.probes.pairs.pair_test import Sizes, run_queue_s, whole

SIZES = Sizes(pings=2, least_bytes=4, most_bytes=4, seconds=0.01, repeats=1)


def test_the_smallest_sizes_are_right() -> None:
    """One element, one message, one round trip from each side."""
    assert SIZES.wrong() == ""


@pytest.mark.parametrize(
    "change", [{"least_bytes": 8}, {"least_bytes": 0}, {"pings": 1}, {"repeats": 0}, {"seconds": 0.0}]
)
def test_sizes_that_would_make_ranks_wait_for_each_other_are_refused(change: dict[str, Any]) -> None:
    """With more to send than there is room for, each would call the other silent."""
    assert replace(SIZES, **change).wrong()


def test_a_size_fills_its_last_element() -> None:
    """The receiver knows elements, the sender bytes: the pattern depends on either."""
    assert [whole(size) for size in (3, 4, 1_000_003, 2.5e3)] == [0, 4, 1_000_000, 2500]


SHARING = """
import os, time
from checks.probes.pairs.pair_test import run_queue_s
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
before, end = run_queue_s(), time.monotonic() + 0.6
while time.monotonic() < end: pass
print(run_queue_s() - before > 0.1)
"""


def test_a_process_that_shares_its_cpu_has_waited_for_it() -> None:
    """Two that compute on one CPU wait for each other."""
    both = [
        subprocess.Popen((sys.executable, "-c", SHARING), stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]

    assert "True\n" in [one.communicate()[0] for one in both]


def test_a_kernel_without_schedstat_has_counted_no_wait(tmp_path: Path) -> None:
    """Nothing is excused there."""
    assert run_queue_s(tmp_path) is None
