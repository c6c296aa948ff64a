"""The order of the checks of a node, several at a time if no two need the same resource.

A node check starts as soon as its resources are free and fewer than `most` checks run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait

from checks.check import Check, Resource, Turn
from checks.model import Observation
from checks.process.tree import end_children
from checks.runner.deadline import AT_ONCE as MOST
from checks.runner.deadline import CheckProgress

LOOK_S = 0.05
ENDING_S = 10.0
COSTS = ("instant", "seconds", "minutes")


def by_cost(checks: Sequence[Check]) -> list[Check]:
    """The checks by their cost, the cheapest first, so that a deadline costs the least evidence. Pure.

    Checks that must come first or last keep their places. Equal checks keep their order.
    """
    turns = (Turn.FIRST, Turn.FREE, Turn.LAST)
    return sorted(checks, key=lambda check: (turns.index(check.turn), COSTS.index(check.cost)))


def run_all(
    checks: Sequence[Check],
    run: Callable[[Check], Observation],
    keep: Callable[[Sequence[Observation]], None],
    most: int = MOST,
    until: float = math.inf,
    give_up: Callable[[Check, CheckProgress], Observation] | None = None,
) -> None:
    """Runs every check; `keep` is called in this thread with each observation as it comes.

    An exception that `run` or `keep` raises for one check is raised after the others have been kept. At `until` (time.monotonic())
    checks that still run are abandoned, waiting ones are not started, and `give_up` makes the observations of both.
    """
    waiting, running = list(checks), _RunningChecks(run)
    busy: dict[Future[Observation], Check] = {}
    failed: list[Exception] = []
    try:
        while waiting or busy:
            while time.monotonic() < until and (check := next_of(waiting, busy.values(), most)) is not None:
                waiting.remove(check)
                busy[_begun(running, check)] = check
            left = until - time.monotonic()
            for future in wait(busy, max(0.0, min(left, 1e6)), FIRST_COMPLETED).done:
                del busy[future]
                try:
                    keep([future.result()])
                except Exception as error:  # noqa: BLE001 - it is raised below
                    failed.append(error)
            if time.monotonic() >= until:
                break
    except KeyboardInterrupt:
        running.end()
        raise
    if give_up is not None:
        keep([give_up(check, CheckProgress.RUNNING) for check in busy.values()])
        keep([give_up(check, CheckProgress.NEVER_STARTED) for check in waiting])
    if failed:
        raise failed[0]


def _begun(call: Callable[[Check], Observation], check: Check) -> Future[Observation]:
    """The check's future. Its thread is a daemon, so that a check that hangs in the kernel blocks neither the caller nor the exit."""
    future: Future[Observation] = Future()

    def work() -> None:
        try:
            future.set_result(call(check))
        except BaseException as error:  # noqa: BLE001 - the caller of run_all gets it
            future.set_exception(error)

    try:
        threading.Thread(target=work, daemon=True, name=check.name).start()
    except RuntimeError as error:  # no thread is available
        future.set_exception(error)
    return future


class _RunningChecks:
    """Runs checks and knows which ones run. An interrupt may come between the start of a check and the moment at which the caller
    notes it.
    """

    def __init__(self, run: Callable[[Check], Observation]) -> None:
        self._run, self._ended = run, False
        self._names: set[str] = set()

    def __call__(self, check: Check) -> Observation:
        """Runs it, unless all checks have been ended."""
        self._names.add(check.name)
        try:
            if self._ended:
                raise CancelledError
            return self._run(check)
        finally:
            self._names.discard(check.name)

    def end(self) -> None:
        """Ends the processes in which the checks run until none runs, because the pool would wait for them."""
        self._ended, until = True, time.monotonic() + ENDING_S
        while self._names and time.monotonic() < until:
            end_children(0.0)
            time.sleep(LOOK_S)


def next_of(waiting: Sequence[Check], running: Iterable[Check], most: int) -> Check | None:
    """The first check that may start beside those that run; None if none may."""
    others = list(running)
    if len(others) >= most:
        return None
    used: set[Resource] = {resource for check in others for resource in check.uses}
    return next((check for check in waiting if not used & set(check.uses)), None)
