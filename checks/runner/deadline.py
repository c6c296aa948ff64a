"""When a node's checks have to end, how much of that time each stage may take, and the messages about checks that ran out of time.

The time counts from the moment at which the node's runner has opened its bundle. Waiting for machines, starting containers and the
roll call of the agents come before it and do not count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from threading import Thread
from typing import TypeVar

from checks.check import Check
from checks.model import ErrorKind

R = TypeVar("R")
# Judgement, for a node whose CPUs are busy: the time to start Python, to measure, and to write the result.
CLOSING_S = {"instant": 2.0, "seconds": 60.0, "minutes": 300.0}
AT_ONCE = 4  # the number of checks that checks.runner.schedule runs at the same time
CLOSING_SHARE = 0.25
END_S, END_SHARE = 2.0, 0.125
LEAST_S = 0.5  # a check that has less time left than this is not started
ANSWER_S = 5.0  # from the deadline to the verdict
# Judgement: a busy machine or a slow shared file system takes many seconds for a file, and only one that hangs takes longer.
WRITE_S = 30.0


class CheckProgress(str, Enum):
    """How far a check had come when the run's deadline ended it."""

    NEVER_STARTED = "the check had not started"
    RUNNING = "the check was still running"


@dataclass(frozen=True)
class CheckLimit:
    """How many seconds a check may take; `declared` says that the gate file sets them."""

    seconds: float
    declared: bool = False

    @property
    def starts(self) -> bool:
        """Whether it is long enough to start the check at all."""
        return self.seconds >= LEAST_S

    @property
    def error_kind(self) -> ErrorKind:
        """The kind is that of a check which the limit ended, or which was not started because of it."""
        if not self.declared:
            return ErrorKind.DEADLINE
        return ErrorKind.LIMIT_PASSED if self.starts else ErrorKind.LIMIT_TOO_SHORT

    @property
    def reason(self) -> str:
        """The reason in the observation of that check."""
        if not self.declared:
            return f"the check did not end within its deadline of {self.seconds:g} s"
        before = "" if self.starts else " before the check could start"
        return f"its time limit of {self.seconds:g} s ([checks] timeouts_s) passed{before}"


@dataclass(frozen=True)
class Deadline:
    """The deadline of a node: `seconds` from `begun_at` (time.monotonic(), one clock for all processes of a host).

    `closing_s` of them are reserved for the checks that run after the rank checks, and `end_s` for ending what still runs and for
    the last write of the report.
    """

    seconds: float = math.inf
    begun_at: float = 0.0
    closing_s: float = 0.0
    end_s: float = 0.0

    @property
    def ends_at(self) -> float:
        """When the node's report has to be complete."""
        return self.begun_at + self.seconds

    @property
    def stage_ends_at(self) -> float:
        """When everything except the closing checks has to end."""
        return self.ends_at - self.end_s - self.closing_s

    def left_s(self, closing: bool = False) -> float:
        """How long a check may still run. `closing`: it is one that runs after the rank checks."""
        until = self.ends_at - self.end_s if closing else self.stage_ends_at
        return max(0.0, until - time.monotonic())

    def answer_in_s(self) -> float:
        """The time from now until the verdict has to be there."""
        return max(0.0, self.ends_at + ANSWER_S - time.monotonic())

    def by(self, seconds: float, after_s: float) -> float:
        """In so many seconds, and no later than `after_s` after the deadline, however little that leaves (time.monotonic())."""
        now = time.monotonic()
        return min(now + seconds, max(self.ends_at + after_s, now + LEAST_S))

    def reason(self, progress: CheckProgress) -> str:
        """The reason in the observation of a check that the deadline ended."""
        return f"the run's deadline of {self.seconds:g} s passed: {progress.value}"


NEVER = Deadline()


def deadline_of(seconds: float, begun_at: float, closing: Sequence[Check]) -> Deadline:
    """The deadline of a node that runs these closing checks."""
    costs = [CLOSING_S[check.cost] for check in closing]
    wanted = max([*costs, sum(costs) / AT_ONCE]) if costs else 0.0
    kept_s = min(wanted, CLOSING_SHARE * seconds)
    return Deadline(seconds, begun_at, kept_s, min(END_S, END_SHARE * seconds))


class NotInTime(TimeoutError):
    """A function has not ended within its time."""


def limited(seconds: float, function: Callable[[], R]) -> R:
    """Returns what the function returns. Raises what it raises, and NotInTime if it has not ended in time.

    A function that hangs, for example in a file system that does not answer, is abandoned in a daemon thread.
    """
    done: list[R] = []
    failed: list[BaseException] = []

    def call() -> None:
        try:
            done.append(function())
        except BaseException as error:  # noqa: BLE001 - it is raised below
            failed.append(error)

    thread = Thread(target=copy_context().run, args=(call,), daemon=True)
    thread.start()
    thread.join(min(seconds, 1e6))
    if done:
        return done[0]
    if failed:
        raise failed[0]
    raise NotInTime(f"it did not end within {seconds:.1f} s")
