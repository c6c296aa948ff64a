"""Node checks side by side: two that need one resource never together; and what that saved.

Order is the catalogue's: a check starts as soon as what it needs is free and fewer than `most` run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from checks.check import Check, Resource
from checks.columns import Rows, by_check
from checks.model import CLUSTER, Observation
from checks.processes import end_children

MOST = 4
LOOK_S = 0.05


@dataclass(frozen=True)
class Spent:
    """One node's checks: how long they took, and how long they would have taken one after another."""

    node: str
    wall_s: float
    in_a_row_s: float


def run_all(
    checks: Sequence[Check],
    run: Callable[[Check], Observation],
    keep: Callable[[Sequence[Observation]], None],
    most: int = MOST,
) -> None:
    """Run every check; `keep` is called in this thread with each observation as it comes.

    What `run` or `keep` raises of one check is raised when the others have been kept.
    """
    waiting, running = list(checks), _Running(run)
    busy: dict[Future[Observation], Check] = {}
    failed: list[Exception] = []
    with ThreadPoolExecutor(most) as pool:
        try:
            while waiting or busy:
                while (check := next_of(waiting, busy.values(), most)) is not None:
                    waiting.remove(check)
                    busy[pool.submit(running, check)] = check
                done = wait(busy, return_when=FIRST_COMPLETED).done
                for future in done:
                    del busy[future]
                    try:
                        keep([future.result()])
                    except Exception as error:  # noqa: BLE001 - it is raised below
                        failed.append(error)
        except KeyboardInterrupt:
            running.end()
            raise
    if failed:
        raise failed[0]


class _Running:
    """Runs checks and knows which. An interrupt may fall between a check's start and the note of it in the caller."""

    def __init__(self, run: Callable[[Check], Observation]) -> None:
        self._run, self._ended = run, False
        self._names: set[str] = set()

    def __call__(self, check: Check) -> Observation:
        """Run it, unless all has been ended."""
        self._names.add(check.name)
        try:
            if self._ended:
                raise CancelledError
            return self._run(check)
        finally:
            self._names.discard(check.name)

    def end(self) -> None:
        """End the processes that the checks run in, for which the pool would wait, until none runs."""
        self._ended = True
        while self._names:
            end_children(0.0)
            time.sleep(LOOK_S)


def next_of(waiting: Sequence[Check], running: Iterable[Check], most: int) -> Check | None:
    """The first that may start beside those that run; None if none may."""
    beside = list(running)
    if len(beside) >= most:
        return None
    taken: set[Resource] = {resource for check in beside for resource in check.uses}
    return next((check for check in waiting if not taken & set(check.uses)), None)


def spent(observations: Sequence[Observation]) -> tuple[Spent, ...]:
    """What the schedule took on each node. Of a rank check the longest of the node's ranks counts, in both figures."""
    by_node: dict[str, list[tuple[float, float, float]]] = {}
    for rows in by_check(observations).values():
        for node, span in _spans(rows).items():
            by_node.setdefault(node, []).append(span)
    return tuple(_spent(node, spans) for node, spans in sorted(by_node.items()))


def _spans(rows: Rows) -> dict[str, tuple[float, float, float]]:
    """Node -> start, end and the longest of its observations of one check, in seconds."""
    c = rows.columns
    spans: dict[str, tuple[float, float, float]] = {}
    for subject, start, seconds in zip(c.subjects, c.started_s, c.seconds, strict=True):
        if seconds > 0 and subject != CLUSTER:
            node, end, longest = subject.partition("/")[0], start + seconds, seconds
            if node in spans:
                first, last, most = spans[node]
                start, end, longest = min(start, first), max(end, last), max(seconds, most)
            spans[node] = (start, end, longest)
    return spans


def _spent(node: str, spans: Sequence[tuple[float, float, float]]) -> Spent:
    wall, reached = 0.0, 0.0
    for start, end, _ in sorted(spans):  # the union: time between two checks is nobody's
        wall += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return Spent(node, wall, sum(longest for _, _, longest in spans))
