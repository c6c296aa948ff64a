"""The watch over left-behind processes finds them, however they hid."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from tests.architecture import leftovers
from tests.waiting import until

SLEEP = (sys.executable, "-S", "-c", "import time; time.sleep(60)")
FORK_TWICE = f"import subprocess; subprocess.Popen({SLEEP!r}, start_new_session=True)"


@pytest.fixture
def mark() -> Iterator[str]:
    """A session's mark; what bears it is ended afterwards."""
    made = uuid.uuid4().hex
    yield made
    leftovers.settle(made, deadline_s=0)


def test_a_process_that_detached_itself_is_found_and_ended(mark: str) -> None:
    """Another session and a dead parent do not hide it; the test that started it is named."""
    subprocess.run((sys.executable, "-S", "-c", FORK_TWICE), env=_marked(mark), check=True)

    (left,) = leftovers.settle(mark, deadline_s=0.2)

    assert "sleep(60)" in left.command
    assert "detached_itself" in left.test
    until(lambda: not leftovers.find(mark))


def test_a_process_that_ends_by_itself_in_time_is_none(mark: str) -> None:
    """The last moments of a process that is ending are no failure."""
    child = subprocess.Popen((sys.executable, "-S", "-c", "import time; time.sleep(0.3)"), env=_marked(mark))

    assert () == leftovers.settle(mark, deadline_s=10)
    assert 0 == child.wait()


def test_a_process_that_shows_no_environment_yet_is_seen_in_the_next_look(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an instant after its start the kernel shows none, and a session may end in that instant."""
    late = leftovers.Leftover(2**22 + 1, "sleep 60", "a test")  # a number that no process has
    looks = iter([(), (late,), (late,)])
    monkeypatch.setattr(leftovers, "find", lambda mark: next(looks))

    assert (late,) == leftovers.settle(mark, deadline_s=0)


def test_a_zombie_is_dead(mark: str) -> None:
    """On a machine whose PID 1 does not reap, ended processes stay listed."""
    child = subprocess.Popen((sys.executable, "-S", "-c", ""), env=_marked(mark))

    assert () == leftovers.settle(mark, deadline_s=10)
    child.wait()


def _marked(mark: str) -> dict[str, str]:
    return {**os.environ, leftovers.MARK: mark}
