"""The metrics of a store: made at the scrape, and never kept.

A store that cannot be read completely has one sample, prelaunch_store_readable 0, and no other: what is not known now is not served.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from checks.model import Answer
from checks.runner.deadline import limited
from checks.watch import families
from checks.watch.families import Row, text_of
from tasks.monitoring.gate_history import ClusterHistory, NodeNames, histories
from tasks.store.base import Store, StoreError
from tasks.store.call_timeout import PatientStore
from tasks.store.history import listed
from tasks.store.index import Index
from tasks.text.inert import one_line

# Below Prometheus' own limit of 10 to 15 s, so that a slow store is a sample and no scrape that failed.
SCRAPE_S = 8.0
MOST_SERIES = 20_000


class StoreCollector:
    """Reads the store at every scrape. `log` gets a line when the store becomes unreadable, and one when it is readable again."""

    def __init__(
        self,
        store: Store,
        index: Callable[[], Index],
        log: Callable[[str], None],
        seconds: float = SCRAPE_S,
        most_series: int = MOST_SERIES,
    ) -> None:
        self._store = PatientStore(store, seconds)
        self._index, self._log, self._seconds, self._most = index, log, seconds, most_series
        self._names = NodeNames(self._store)
        self._reading = threading.Lock()
        self._problem = ""

    def text(self) -> str:
        """The text of one scrape, with what the store says now. It ends within the time of a scrape."""
        read_at = time.time()
        rows, unread, problem = self._rows()
        if problem != self._problem:
            self._log(f"the store cannot be read: {problem}" if problem else "the store can be read again")
            self._problem = problem
        if problem:
            return text_of([(families.STORE_READ, (), 0.0)])
        kept = rows[: self._most]
        omitted = float(len(rows) - len(kept) + unread)
        own = (
            (families.STORE_READ, 1.0),
            (families.STORE_READ_TIME, read_at),
            (families.STORE_OMITTED, omitted),
        )
        return text_of((*((family, (), value) for family, value in own), *kept))

    def _rows(self) -> tuple[list[Row], int, str]:
        """The rows and how many nodes have none, or why there are no rows. A scrape does not wait for one that hangs."""
        end = time.monotonic() + self._seconds
        if not self._reading.acquire(timeout=self._seconds / 2):
            return [], 0, "an earlier scrape is still reading it"
        self._store.answer_by = end

        def read() -> tuple[list[Row], int]:
            try:
                return self._read()
            finally:
                self._reading.release()

        try:
            return *limited(end - time.monotonic(), read), ""
        except TimeoutError:
            return [], 0, f"it did not answer completely within {self._seconds:g} s"
        except StoreError as error:
            return [], 0, one_line(str(error), 500)

    def _read(self) -> tuple[list[Row], int]:
        """Raises StoreError."""
        found = listed(self._store, self._index())
        if found.problems:
            raise StoreError(
                f"{len(found.problems)} records are unreadable, the first is {found.problems[0]}"
            )
        if not found.records:  # also a folder whose mount is gone
            raise StoreError("there is no gate in it. Look at its address, and whether its mount is there")
        made = tuple(histories(found, self._names))
        # In the order of what is missed most: if something is left out, it is the nodes of the last clusters.
        rows = [row for part in (_of_gates, _of_nodes) for history in made for row in part(history)]
        return rows, sum(history.unread for history in made)


def _of_gates(history: ClusterHistory) -> Iterator[Row]:
    cluster = history.cluster
    yield families.GATE_END, (cluster,), history.measured_at
    yield families.CONDEMNED, (cluster,), float(len(history.last.condemned))
    for answer in Answer:
        yield families.GATES, (cluster, answer.value), float(history.answers[answer])
        yield families.GATE_ANSWER, (cluster, answer.value), float(history.last.answer is answer)
    for stage, seconds in history.stages.items():
        yield families.STAGE_DURATION, (cluster, stage), seconds


def _of_nodes(history: ClusterHistory) -> Iterator[Row]:
    for node in history.declared:
        yield families.DECLARED_NODE, (history.cluster, node), 1.0
    for node, at in sorted(history.proven.items()):
        yield families.PROVEN, (history.cluster, node), at
