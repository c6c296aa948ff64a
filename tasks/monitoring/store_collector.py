"""The metrics of a store: made at the scrape, and never kept.

A store that cannot be read completely has one sample, prelaunch_store_readable 0, and no other: what is not known now is not served.
A gate without a record, which was cut short or is writing it just now, is only counted as left out.
Between scrapes the records of all gates but the newest one of each cluster, which may judge again, are remembered, and the names of
nodes by the digest of their report.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from checks.judge.clocks import seconds_of
from checks.model import Answer
from checks.runner.deadline import limited
from checks.value_types import DecodeError
from checks.watch import families
from checks.watch.families import Sample, text_of
from tasks.reports.fleet.fleet import SEEN_S
from tasks.store import node_rows
from tasks.store.base import Store, StoreError
from tasks.store.call_timeout import PatientStore
from tasks.store.history import listed
from tasks.store.node_rows import Standing
from tasks.store.records import RETEST_CLUSTER, Record, stamped_at
from tasks.text.inert import one_line

# Below Prometheus' own limit of 10 to 15 s, so that a slow store is a sample and no scrape that failed.
SCRAPE_S = 8.0
MOST_SERIES = 20_000
# Per cluster: the last gate of each gate file declares nodes, and the last so many GOs prove them.
PROOFS = 10
REMEMBERED = 2000


Names = tuple[list[str], list[str]]


class StoreCollector:
    """Reads the store at every scrape. `log` gets a line when the store becomes unreadable, and one when it is readable again."""

    def __init__(
        self,
        store: Store,
        log: Callable[[str], None],
        seconds: float = SCRAPE_S,
        most_series: int = MOST_SERIES,
    ) -> None:
        self._store = PatientStore(store, seconds)
        self._log, self._seconds, self._most = log, seconds, most_series
        self._records: dict[str, Record] = {}
        self._known: dict[str, Names] = {}
        self._reading = threading.Lock()
        self._problem = ""

    def text(self) -> str:
        """The text of one scrape, with what the store says now. It ends within the time of a scrape."""
        read_at = time.time()
        samples, unread, problem = self._samples()
        if problem != self._problem:
            self._log(f"the store cannot be read: {problem}" if problem else "the store can be read again")
            self._problem = problem
        if problem:
            return text_of([(families.STORE_READ, (), 0.0)])
        served = samples[: self._most]
        own = (
            (families.STORE_READ, 1.0),
            (families.STORE_READ_TIME, read_at),
            (families.STORE_OMITTED, float(len(samples) - len(served) + unread)),
        )
        return text_of((*((family, (), value) for family, value in own), *served))

    def _samples(self) -> tuple[list[Sample], int, str]:
        """The rows, how many nodes and gates have none, or why there are no rows. A scrape does not wait for one that hangs."""
        end = time.monotonic() + self._seconds
        if not self._reading.acquire(timeout=self._seconds / 2):
            return [], 0, "an earlier scrape is still reading it"
        self._store.answer_by = end

        def read() -> tuple[list[Sample], int]:
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

    def _names(self, record: Record) -> Names | None:
        """The nodes that a gate declared or named, and those of which it had evidence; None if they are not kept, or another version
        kept them. Raises StoreError.
        """
        report = record.digests.report
        if report not in self._known:
            try:
                gate = node_rows.read(self._store, record.reused or record.gate_id)
            except DecodeError:
                gate = None
            if gate is None or gate.numbers.report != report:
                return None
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            measured = [entry.node for entry in gate.nodes if entry.standing is not Standing.CANNOT_TELL]
            self._known[report] = [entry.node for entry in gate.nodes], measured
        return self._known[report]

    def _read(self) -> tuple[list[Sample], int]:
        """Raises StoreError."""
        listing = listed(self._store, self._records)
        if unreadable := len(listing.problems) - len(listing.cut_short):
            raise StoreError(f"{unreadable} records are unreadable, the first is {listing.problems[0]}")
        if not listing.records and not listing.cut_short:  # also a folder whose mount is gone
            raise StoreError("there is no gate in it. Look at its address, and whether its mount is there")
        clusters: dict[str, list[Record]] = {}
        for record in listing.records:  # oldest first
            if not RETEST_CLUSTER.search(record.cluster):  # such a cluster never has another gate
                clusters.setdefault(record.cluster, []).append(record)
        results = [_of_cluster(name, records, self._names) for name, records in sorted(clusters.items())]
        # In the order of what is missed most: if something is left out, it is the nodes of the last clusters.
        samples = [sample for gates, _, _ in results for sample in gates]
        samples += [sample for _, nodes, _ in results for sample in nodes]
        return samples, sum(unread for _, _, unread in results) + len(listing.cut_short)


def _of_cluster(
    cluster: str, records: Sequence[Record], names: Callable[[Record], Names | None]
) -> tuple[list[Sample], list[Sample], int]:
    """The rows about the cluster's gates, those about its nodes, and the number of nodes of which nothing is kept, or which another
    version kept. Raises StoreError.
    """
    last = records[-1]
    since = _judged_at(last) - SEEN_S  # else a gate file that was renamed would declare its nodes for ever
    declaring = {record.gate: record for record in records if _judged_at(record) >= since}.values()
    proofs = [record for record in records if record.answer is Answer.GO][-PROOFS:]
    by_gate = {record.gate_id: (record, names(record)) for record in (*proofs, *declaring)}
    stored = {gate_id: nodes for gate_id, (_, nodes) in by_gate.items() if nodes is not None}
    proven: dict[str, float] = {}
    for record in proofs:
        for name in stored[record.gate_id][1] if record.gate_id in stored else ():
            proven[name] = max(_measured_at(record), proven.get(name, 0.0))
    gates: list[Sample] = [
        (families.GATE_END, (cluster,), _measured_at(last)),
        (families.CONDEMNED, (cluster,), float(len(last.condemned))),
    ]
    for answer in Answer:
        count = sum(record.answer is answer for record in records)
        gates.append((families.GATES, (cluster, answer.value), float(count)))
        gates.append((families.GATE_ANSWER, (cluster, answer.value), float(last.answer is answer)))
    gates += [
        (families.STAGE_DURATION, (cluster, stage), seconds) for stage, seconds in _stages(last).items()
    ]
    declared = {name for entry in declaring if entry.gate_id in stored for name in stored[entry.gate_id][0]}
    nodes: list[Sample] = [(families.DECLARED_NODE, (cluster, node), 1.0) for node in sorted(declared)]
    nodes += [(families.PROVEN, (cluster, node), at) for node, at in sorted(proven.items())]
    return gates, nodes, sum(record.nodes for record, nodes in by_gate.values() if nodes is None)


def _judged_at(record: Record) -> float:
    return seconds_of(record.judged_at) or 0.0


def _measured_at(record: Record) -> float:
    """By the nodes' clock, and never after the gate itself judged: a clock that is ahead would hide that no gate ran since."""
    judged = _judged_at(record)
    return min(seconds_of(record.measured_at) or judged, judged)


def _stages(record: Record) -> dict[str, float]:
    """Until the last node had measured (start of the machines included), and until the gate had judged; none for a PASS used again."""
    began, judged = stamped_at(record.gate_id), seconds_of(record.judged_at)
    if began is None or judged is None or record.reused:
        return {}
    measured = _measured_at(record)
    return {"measure": max(0.0, measured - began), "judge": max(0.0, judged - measured)}
