"""The order of the checks of a node, several at a time if no two need the same resource, and how much time that saved.

A node check starts as soon as its resources are free and fewer than `most` checks run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass

from checks.check import Check, Resource, Turn
from checks.documents.columns import Rows, by_check
from checks.facts.profile_options import options
from checks.model import CLUSTER, Observation, Profile
from checks.policy import JUDGED_BY_THE_ENGINE, CheckPolicy, Policy, can_fail
from checks.process.tree import end_children
from checks.runner.deadline import BESIDE as MOST
from checks.runner.deadline import CheckProgress

LOOK_S = 0.05
ENDING_S = 10.0
# Judgement: how long a check of each cost takes on a healthy node, besides the seconds that its options set.
COST_S = {"instant": 0.5, "seconds": 5.0, "minutes": 120.0}
SAID_S = ("seconds", "budget_s", "watch_s", "deadline_s")
ENGINE_WEIGHT = (
    4.0  # the weight of what the engine itself judges: reachability, bandwidth, latency, retransmits
)
WARNING_SHARE = 0.25  # the weight of a rule that can only WARN, relative to one that can FAIL


@dataclass(frozen=True)
class NodeTimes:
    """The times of one node's checks: how long they took, and how long they would have taken one after another."""

    node: str
    wall_s: float
    in_a_row_s: float


def by_evidence(checks: Sequence[Check], policy: Policy, profile: Profile) -> list[Check]:
    """The checks by evidence per second, the most first, so that a deadline costs the least evidence. Pure.

    Checks that must come first or last keep their places. It is unknown how long a site's own check takes: these stay at the front,
    where the catalogue has them. Equal checks keep their order.
    """
    turns = (Turn.FIRST, Turn.FREE, Turn.LAST)

    def key(check: Check) -> tuple[int, float]:
        return turns.index(check.turn), -evidence_per_s(check, policy, profile)

    return sorted(checks, key=key)


def evidence_per_s(check: Check, policy: Policy, profile: Profile) -> float:
    """How many rules of the policy the check answers per second; being required counts as one rule. Pure."""
    if check.body.__module__.partition(".")[0] != "checks":
        return math.inf
    line = policy.checks.get(check.name, CheckPolicy())
    weight = float(line.required) + sum(1.0 if can_fail(rule) else WARNING_SHARE for rule in line.rules)
    weight += ENGINE_WEIGHT * (check.name in JUDGED_BY_THE_ENGINE)
    said = options(check.name, profile, line.options)
    return weight / (COST_S[check.cost] + next((said[name] for name in SAID_S if name in said), 0.0))


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
    waiting, running = list(checks), _Running(run)
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


class _Running:
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
    beside = list(running)
    if len(beside) >= most:
        return None
    taken: set[Resource] = {resource for check in beside for resource in check.uses}
    return next((check for check in waiting if not taken & set(check.uses)), None)


def node_times(observations: Sequence[Observation]) -> tuple[NodeTimes, ...]:
    """The times of each node's schedule. For a rank check the longest of the node's ranks counts, in both figures."""
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


def _spent(node: str, spans: Sequence[tuple[float, float, float]]) -> NodeTimes:
    wall, reached = 0.0, 0.0
    for start, end, _ in sorted(spans):  # the union of the spans: time between two checks does not count
        wall += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return NodeTimes(node, wall, sum(longest for _, _, longest in spans))
