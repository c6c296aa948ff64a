"""What this cluster's last gates found, read from the store for a page.

The history for a page is bounded in gates, bytes and time, and no verdict depends on it. What cannot be read is named in the
result, so that nobody takes a short history for the complete one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from checks.judge.trend.numbers import gate_numbers
from checks.judge.trend.time_series import Trend
from checks.judge.trend.trend import follow
from checks.model import Answer, Digests, Report
from checks.policy import Policy
from checks.runner.deadline import limited
from tasks.render.context import EndMark, GateHistory, PastGate
from tasks.render.trend_text import too_few, worse_lines
from tasks.reports.fleet.reading import page_link
from tasks.store.base import Store, StoreError
from tasks.store.history import known_nodes, read_records
from tasks.store.layout import fleet_key, html_key
from tasks.store.records import Record
from tasks.text.inert import one_line
from tasks.text.tables import few

GATES = 20
SECONDS = 5.0
# How gates ended of which the answer does not say it, by their ids. Raises StoreError.
Ends = Callable[[Store, Sequence[str]], Mapping[str, EndMark]]


def past_of(
    store: Store, report: Report, digests: Digests, policy: Policy, cluster: str, ends: Ends
) -> GateHistory:
    """The cluster's gates up to that of this report, whose verdict has the digests. `ends` reads how they ended, for those whose
    answer alone would mislead. Never raises for what a store holds or refuses.
    """
    try:
        return limited(SECONDS, lambda: _past_of(store, report, digests, policy, cluster, ends))
    except TimeoutError:
        text = f"Earlier gates could not be read within {SECONDS:g} s"
    except StoreError as error:
        text = f"Earlier gates could not be read: {error}"
    return GateHistory(problems=(one_line(text, 400),))


def _past_of(
    store: Store, report: Report, digests: Digests, policy: Policy, cluster: str, ends: Ends
) -> GateHistory:
    histories, own_id = known_nodes(store, cluster, whole=False), report.gate_id
    judged = {gate_id: at for history in histories.clusters for gate_id, at in history.gates.items()}
    # The page's gate is the last of those that were judged within one second, which its id does not say.
    mine = sorted(judged, key=lambda gate_id: (judged[gate_id], gate_id == own_id, gate_id))
    mine = mine[: mine.index(own_id) + 1] if own_id in judged else mine
    problems = few(histories.problems, 2)
    newest = list(read_records(store, mine[-GATES:], problems))
    marks, page = ends(store, [record.gate_id for record in newest]), html_key(own_id)
    gates = tuple(
        PastGate(
            r.gate_id, r.judged_at, r.answer, r.finding, r.gate_id == own_id, page_link(store, html_key(r.gate_id), page),
            marks.get(r.gate_id),
        )
        for r in newest
    )  # fmt: skip
    own = gate_numbers(report, digests.report, policy, cluster)
    earlier = [gate.numbers for gate in histories.gates if gate.gate_id in mine]
    trend = follow([*(numbers for numbers in earlier if numbers.report != digests.report), own])
    lines = [*problems, *filter(None, [too_few(trend.reports)])]
    return GateHistory(
        gates, len(mine) - len(gates), worse_lines(trend), trend.reports, tuple(one_line(line, 400) for line in lines),
        _changed(newest, own_id, digests, trend), page_link(store, fleet_key(cluster), page),
    )  # fmt: skip


def _changed(mine: Sequence[Record], own_id: str, digests: Digests, trend: Trend) -> tuple[str, ...]:
    """What is another one since the last GO: parts and software of machines, and what the gates were judged with."""
    goes = [at for at, r in enumerate(mine) if r.answer is Answer.GO and not r.reused and r.gate_id != own_id]
    if not goes:
        return ()
    last, later = mine[goes[-1]].digests, {own_id, *(record.gate_id for record in mine[goes[-1] + 1 :])}
    pairs = [(name, getattr(last, name), getattr(digests, name)) for name in ("policy", "facts", "baseline")]
    lines = [f"{name} {was or 'none':.12} -> {now or 'none':.12}" for name, was, now in pairs if was != now]
    changes = ((machine.name, change) for machine in trend.machines for change in machine.changes)
    changed = [(name, change) for name, change in changes if change.gate_id in later]
    lines += [f"{name}: {change.what} {change.before} -> {change.after}" for name, change in changed]
    return tuple(one_line(line, 300) for line in few(lines))
