"""What moves a gate's messages while it runs: the newest progress, not too often, and never at the gate's cost."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from tasks.gate.progress import Progress, report_progress
from tasks.notifiers.base import AnswerLine, Notifier, NotifyError, Status
from tasks.paging.live import STOPPED, LiveMessages
from tests.waiting import until

FIRST = Status("g-1", "c", "gate", "preflight", "", 0, 0, 0.0)


class Shown(Notifier):
    """A notifier that remembers what it showed. `trouble` is raised instead; `gate` holds it up."""

    name = "shown"

    def __init__(self, trouble: Exception | None = None) -> None:
        self.statuses: list[Status] = []
        self.times: list[float] = []
        self.trouble = trouble
        self.go = threading.Event()
        self.go.set()

    def show(self, status: Status) -> None:
        """Remember it."""
        self.go.wait()
        self.times.append(time.monotonic())
        self.statuses.append(status)
        if self.trouble is not None:
            raise self.trouble


def test_live_messages_show_only_the_newest_progress() -> None:
    """A thousand messages a second are one every interval: the newest."""
    way = Shown()

    with LiveMessages([way], FIRST, every_s=0.3, quiet_s=5):
        until(lambda: len(way.statuses) == 1)
        for number in range(1000):
            report_progress(Progress("checks", "", number, 1000))
        until(lambda: len(way.statuses) == 2)

    assert way.statuses[1].done == 999
    assert way.times[1] - way.times[0] >= 0.29


def test_time_goes_on_where_nothing_is_said() -> None:
    """A person who looks sees that the run still runs."""
    way = Shown()

    with LiveMessages([way], FIRST, every_s=0.02, quiet_s=0.1):
        until(lambda: len(way.statuses) == 3)

    assert way.statuses[0].elapsed_s < way.statuses[1].elapsed_s < way.statuses[2].elapsed_s


def test_a_slow_way_does_not_hold_the_gate_up() -> None:
    """Telling returns at once, whatever the other side does."""
    way = Shown()
    way.go.clear()

    with LiveMessages([way], FIRST, every_s=0.01, quiet_s=5):
        for number in range(100):
            report_progress(Progress("checks", "", number, 100))
        way.go.set()


@pytest.mark.parametrize("trouble", [NotifyError("no answer"), RuntimeError("a defect, with a secret in it")])
def test_a_way_that_fails_is_said_once(trouble: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """And is tried again less and less often; the gate goes on."""
    way = Shown(trouble)

    with (
        caplog.at_level(logging.WARNING, "prelaunch"),
        LiveMessages([way], FIRST, every_s=0.02, quiet_s=0.02),
    ):
        until(lambda: len(way.times) == 5)

    assert way.times[4] - way.times[3] >= 0.02 * 2**4  # the fifth waits four times twice as long
    assert len([record for record in caplog.records if record.name == "prelaunch"]) == 1
    assert "secret" not in caplog.text


def test_live_messages_end_with_their_block() -> None:
    """No thread is left, nothing is shown after, and what was told meanwhile is not held."""
    way = Shown()

    with LiveMessages([way], FIRST, every_s=0.01, quiet_s=5):
        report_progress(Progress("checks", ""))
    count = len(way.statuses)
    report_progress(Progress("checks", "late"))

    assert not [thread for thread in threading.enumerate() if thread.name == "board"]
    assert len(way.statuses) == count


def test_a_run_that_just_ends_is_shown_as_stopped() -> None:
    """Cancelled, or broken off: the last thing shown is no progress."""
    way = Shown()

    with pytest.raises(KeyboardInterrupt), LiveMessages([way], FIRST, every_s=60, quiet_s=60):
        until(lambda: len(way.statuses) == 1)
        raise KeyboardInterrupt

    assert (way.statuses[-1].stage, way.statuses[-1].detail) == ("stopped", STOPPED)


def test_an_answer_stays_with_what_follows() -> None:
    """Whoever shows later progress still hears who answered."""
    way = Shown()

    with LiveMessages([way], FIRST, every_s=0.01, quiet_s=5):
        report_progress(Progress("question", "", answer=AnswerLine("said no", "Ada")))
        report_progress(Progress("checks", "again"))
        until(lambda: way.statuses[-1].detail == "again" if way.statuses else False)

    assert way.statuses[-1].answer == AnswerLine("said no", "Ada")
