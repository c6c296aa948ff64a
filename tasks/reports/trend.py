"""What this cluster's last gates found, read from the store for a page.

The history for a page is bounded in gates, bytes and time, and no verdict depends on it. What cannot be read is named in the
result, so that nobody takes a short history for the complete one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from checks.judge.trend.model import Trend
from checks.judge.trend.numbers import DatedReport, gate_numbers
from checks.judge.trend.trend import follow
from checks.model import Answer, Digests, Report
from checks.policy import Policy
from checks.runner.deadline import limited
from tasks.render.context import EndMark, Past, PastGate
from tasks.render.trend_text import too_few, worse_lines
from tasks.reports.fleet.reading import page_link
from tasks.store.base import Store, StoreError
from tasks.store.history import Listed, known_nodes, listed
from tasks.store.index import Index
from tasks.store.layout import fleet_key, html_key
from tasks.store.records import Record
from tasks.text.inert import one_line
from tasks.text.tables import few

GATES = 20
SECONDS = 5.0
Clock = Callable[[], float]
# How gates ended of which the answer does not say it, by their ids. Raises StoreError.
Ends = Callable[[Store, Sequence[str]], Mapping[str, EndMark]]


@dataclass(frozen=True)
class TrendContext:
    """The gate that a page is about, with what its report's numbers are compared with.

    `digests` are those of its verdict; without them nothing is compared with the last GO.
    """

    gate_id: str
    cluster: str
    report: Report
    digest: str
    policy: Policy
    digests: Digests | None = None


def past_of(
    store: Store,
    index: Index,
    this: TrendContext,
    clock: Clock = time.monotonic,
    ends: Ends = lambda store, gate_ids: {},
) -> Past:
    """The cluster's gates up to this one; `ends` reads how they ended, for those whose answer alone would mislead. Never raises for
    what a store holds or refuses.
    """
    until = clock() + SECONDS
    try:
        found = listed(store, index, whole=False)
    except StoreError as error:
        reason = one_line(f"Earlier gates could not be read: {error}", 400)
        return Past(problems=(reason,))
    problems = [*found.problems, *filter(None, [found.index_problem])]
    mine = [record for record in found.records if record.cluster == this.cluster]
    # Of gates that were judged within one second this one is the last, which its id does not say.
    mine.sort(key=lambda record: (record.judged_at, record.gate_id == this.gate_id, record.gate_id))
    own = next((place for place, record in enumerate(mine) if record.gate_id == this.gate_id), None)
    mine = mine if own is None else mine[: own + 1]
    newest, page = mine[-GATES:], html_key(this.gate_id)
    marks: Mapping[str, EndMark] = {}
    with _named(problems, "How earlier gates ended", "read"):
        marks = limited(max(until - clock(), 0.0), lambda: ends(store, [record.gate_id for record in newest]))
    gates = tuple(
        PastGate(
            r.gate_id, r.judged_at, r.answer, r.finding, r.gate_id == this.gate_id, page_link(store, html_key(r.gate_id), page),
            marks.get(r.gate_id),
        )
        for r in newest
    )  # fmt: skip
    trend = _compared(store, index, mine, this, problems, until - clock())
    lines = [*problems, *filter(None, [too_few(trend.reports)])]
    return Past(
        gates, len(mine) - len(gates), worse_lines(trend), trend.reports, tuple(one_line(line, 400) for line in lines),
        _changed(mine, this, trend), page_link(store, fleet_key(this.cluster), page) if this.cluster else "",
    )  # fmt: skip


@contextmanager
def _named(problems: list[str], what: str, done: str) -> Iterator[None]:
    """What takes too long, or cannot be read, is a problem and no error."""
    try:
        yield
    except TimeoutError:
        problems.append(f"{what} could not be {done}, because it would have taken too long.")
    except StoreError as error:
        problems.append(f"{what} could not be {done}: {error}")


def _changed(mine: Sequence[Record], this: TrendContext, trend: Trend) -> tuple[str, ...]:
    """What is another one since the last GO: parts and software of machines, and what the gates were judged with."""
    goes = [
        at
        for at, r in enumerate(mine)
        if r.answer is Answer.GO and not r.reused and r.gate_id != this.gate_id
    ]
    if not goes or this.digests is None:
        return ()
    last, later = mine[goes[-1]].digests, {this.gate_id, *(one.gate_id for one in mine[goes[-1] + 1 :])}
    pairs = [
        (name, getattr(last, name), getattr(this.digests, name)) for name in ("policy", "facts", "baseline")
    ]
    lines = [f"{name} {was or 'none':.12} -> {now or 'none':.12}" for name, was, now in pairs if was != now]
    changes = (
        (machine.name, one) for machine in trend.machines for one in machine.changes if one.gate_id in later
    )
    lines += [f"{name}: {one.what} {one.before} -> {one.after}" for name, one in changes]
    return tuple(one_line(line, 300) for line in few(lines))


def _compared(
    store: Store,
    index: Index,
    mine: Sequence[Record],
    this: TrendContext,
    problems: list[str],
    seconds: float,
) -> Trend:
    """The trend of the nodes of the cluster's gates up to this one, whose own report is at hand."""
    own = gate_numbers(
        DatedReport(replace(this.report, gate_id=this.gate_id), this.digest, this.policy), this.cluster
    )
    earlier = tuple(record for record in mine if record.digests.report != this.digest)
    ids = {record.gate_id for record in earlier}
    if not ids:
        return follow([own])

    def work() -> tuple[Trend, tuple[str, ...]]:
        known = known_nodes(store, index, Listed(earlier, ()), this.cluster)
        gates = [gate.numbers for gate in known.history.gates if gate.gate_id in ids]
        return follow([*gates, own]), known.problems

    with _named(problems, "Earlier gates", "compared"):
        found, unread = limited(max(seconds, 0.0), work)
        more = f" ({len(unread) - 1} more gates are not compared either)" if len(unread) > 1 else ""
        problems += [f"{unread[0]}{more}"] if unread else []
        return found
    return follow([own])
