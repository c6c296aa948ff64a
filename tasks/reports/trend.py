"""What this cluster's last gates found, read from the store for a page, and `prelaunch trend`: which machines get worse.

The history for a page is bounded in gates, bytes and time, and no verdict depends on it. What cannot be read is named in the
result, so that nobody takes a short history for the complete one. The command also decides its exit code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from checks.documents.report import digest, load
from checks.exit_codes import Exit
from checks.judge.trend.model import Trend
from checks.judge.trend.numbers import DatedReport, gate_numbers
from checks.judge.trend.trend import follow
from checks.model import LINK, Answer, Cause, Digests, Level, Report, node_of
from checks.policy import Policy
from checks.runner.deadline import limited
from checks.value_types import DecodeError
from tasks.render.changes import Changes, Found, JudgedInputs, changes, inputs
from tasks.render.context import EarlierFinding, EndMark, FindingKey, Past, PastGate
from tasks.render.views.trend import numbers_of, too_few
from tasks.reports.baseline import UnreadableReport, rules_for
from tasks.reports.fleet.earlier import earlier_findings, machines_in
from tasks.reports.fleet.links import fleet_link
from tasks.reports.read import not_a_report, policy_of
from tasks.reports.store_argument import chosen_cluster, inputs_of, is_store, open_named_store, require_gates
from tasks.store import records
from tasks.store.base import Store, StoreError
from tasks.store.history import Listed, known_nodes, listed, rebuild_command
from tasks.store.index import Index, IndexFailed
from tasks.store.layout import html_key
from tasks.store.open import identity
from tasks.store.records import KeptFinding, Record, stamped_at
from tasks.text.inert import browsable, one_line

GATES = 20
# Records that the index lacks are read one by one: of so many at most.
UNINDEXED = 60
REPORT_BYTES, SECONDS = 32 << 20, 5.0
Clock = Callable[[], float]
# How gates ended of which the answer does not say it, by their ids. Raises StoreError.
Ends = Callable[[Store, Sequence[str]], Mapping[str, EndMark]]


@dataclass(frozen=True)
class TrendContext:
    """The gate that a page is about, with what its report's numbers are compared with.

    `digests` are those of its verdict; without them it is not compared with the last GO. `findings` are looked for in earlier gates.
    """

    gate_id: str
    cluster: str
    report: Report
    digest: str
    policy: Policy
    digests: Digests | None = None
    findings: tuple[KeptFinding, ...] = ()


@dataclass(frozen=True)
class _Compared:
    """The trend of the nodes, and which findings earlier gates had; `unknown` as that of Past."""

    trend: Trend
    earlier: Mapping[FindingKey, EarlierFinding] = field(default_factory=dict)
    unknown: str = ""


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
    problems: list[str] = []
    try:
        found = _records(store, index, problems)
    except StoreError as error:
        said = one_line(f"Earlier gates could not be read: {error}", 400)
        return Past(problems=(said,), unknown=said)
    mine = [record for record in found if record.cluster == this.cluster]
    # Of gates that were judged within one second this one is the last, which its id does not say.
    mine.sort(key=lambda record: (record.judged_at, record.gate_id == this.gate_id, record.gate_id))
    own = next((place for place, record in enumerate(mine) if record.gate_id == this.gate_id), None)
    mine = mine if own is None else mine[: own + 1]
    changed = _changes(store, mine, this, problems, lambda: clock() > until)
    marks = _marks(store, mine[-GATES:], ends, until - clock(), problems)
    gates = tuple(
        PastGate(
            r.gate_id,
            r.judged_at,
            r.answer,
            r.finding,
            r.gate_id == this.gate_id,
            page_link(store, r.gate_id),
            marks.get(r.gate_id),
        )
        for r in mine[-GATES:]
    )
    compared = _compared(store, index, mine, this, problems, until - clock())
    made = compared.trend
    few = too_few(made.reports)
    return Past(
        gates, len(mine) - len(gates), numbers_of(made), made.reports,
        tuple(one_line(line, 400) for line in (*problems, *([few] if few else []))), changed,
        fleet_link(store, this.cluster), compared.earlier, compared.unknown,
    )  # fmt: skip


def _marks(
    store: Store, shown: Sequence[Record], ends: Ends, seconds: float, problems: list[str]
) -> Mapping[str, EndMark]:
    try:
        return limited(max(seconds, 0.0), lambda: ends(store, [record.gate_id for record in shown]))
    except TimeoutError:
        problems.append("How earlier gates ended was not read, because it would have taken too long.")
    except StoreError as error:
        problems.append(f"How earlier gates ended could not be read: {error}")
    return {}


def page_link(store: Store, gate_id: str) -> str:
    """From the page of one gate to that of another: beside it in a folder, in the console of a bucket."""
    place = store.place(html_key(gate_id))
    return browsable(place) if "://" in place else f"../{gate_id}/{html_key(gate_id).rpartition('/')[2]}"


def _changes(
    store: Store,
    mine: Sequence[Record],
    this: TrendContext,
    problems: list[str],
    late: Callable[[], bool],
) -> Changes | None:
    """Since the last GO whose report is another one."""
    last = next(
        (r for r in reversed(mine) if r.answer is Answer.GO and r.gate_id != this.gate_id and not r.reused),
        None,
    )
    if last is None or this.digests is None or last.digests.report == this.digest:
        return None
    if late():
        problems.append("The last GO was not compared, because it would have taken too long.")
        return None
    try:
        data = store.get(last.report)
        if data is None or len(data) > REPORT_BYTES:
            problems.append(f"The report of the last GO, {last.gate_id}, is missing or too large.")
            return None
        report = load(data)
    except (StoreError, DecodeError) as error:
        problems.append(f"The report of the last GO, {last.gate_id}, cannot be read: {error}")
        return None
    of = last.digests
    before = JudgedInputs(
        report,
        {"policy": of.policy, "facts": of.facts, "baseline": of.baseline or "", "Prelaunch": last.engine},
    )
    after = inputs(this.report, this.digests)
    link = page_link(store, last.gate_id)
    return changes(before, after, this.policy, last.gate_id, last.judged_at, link, _found(this.findings))


def _found(findings: Sequence[KeptFinding]) -> Found:
    """The checks and nodes of which something was found that was measured; where nothing was, values vary by chance."""
    return frozenset(
        (finding.check, node_of(end.strip()))
        for finding in findings
        if finding.level is not Level.PASS and finding.cause is not Cause.EVIDENCE
        for end in finding.subject.split(LINK)
    )


def _records(store: Store, index: Index, problems: list[str]) -> list[Record]:
    """Which there are, the store says; what they say, the index, and of the newest that it lacks the store again."""
    ids = records.recorded(store)
    try:
        rows = {record.gate_id: record for record in index.rows(identity(store))} if ids else {}
    except (IndexFailed, StoreError) as error:
        rows = {}
        problems.append(f"The index of verdicts could not be read: {error}")
    missing = sorted((i for i in ids if i not in rows), key=lambda i: (stamped_at(i) or 0.0, i), reverse=True)
    if len(missing) > UNINDEXED:
        problems.append(
            f"{len(missing) - UNINDEXED} older gates are not in the index: {rebuild_command(store)}"
        )
    found = [rows[gate_id] for gate_id in ids if gate_id in rows]
    for gate_id in missing[:UNINDEXED]:
        try:
            record = records.read(store, gate_id)
        except DecodeError as error:
            problems.append(f"The record of {gate_id} cannot be read: {error}")
            continue
        found += [record] if record is not None else []
    return found


def _compared(
    store: Store,
    index: Index,
    mine: Sequence[Record],
    this: TrendContext,
    problems: list[str],
    seconds: float,
) -> _Compared:
    """The trend of the nodes of the cluster's gates up to this one, whose own report is at hand, and its findings in them."""
    own = gate_numbers(
        DatedReport(replace(this.report, gate_id=this.gate_id), this.digest, this.policy), this.cluster
    )
    earlier = [record for record in mine if record.digests.report != this.digest]
    ids = {record.gate_id for record in earlier}
    if not ids:
        return _Compared(follow([own]))
    last_go = next((one.gate_id for one in reversed(earlier) if one.answer is Answer.GO), "")

    def made() -> tuple[_Compared, tuple[str, ...]]:
        known = known_nodes(store, index, Listed(tuple(earlier), ()), this.cluster)
        gates = [gate for gate in known.history.gates if gate.gate_id in ids]
        trend = follow([*(gate.numbers for gate in gates), own])
        found = earlier_findings(this.findings, this.gate_id, gates, last_go, machines_in(trend))
        return _Compared(trend, found), known.problems

    try:
        found, said = limited(max(seconds, 0.0), made)
    except TimeoutError:
        problems.append("Earlier gates were not compared, because it would have taken too long.")
        return _Compared(follow([own]), unknown=problems[-1])
    except StoreError as error:
        problems.append(f"Earlier gates could not be compared: {error}")
        return _Compared(follow([own]), unknown=problems[-1])
    more = f" ({len(said) - 1} more gates are not compared either)" if len(said) > 1 else ""
    problems += [f"{said[0]}{more}"] if said else []
    return found


def kept_trend(argument: str, asked: str | None = None) -> Trend | None:
    """The trend of a store by the rows that it keeps of each node: the first and the newest gates of each machine. None for what is no
    store, or keeps no rows of some of its gates, whose reports have to be read then. `asked` as in `chosen_cluster`.

    Raises InputError, StoreError.
    """
    if not is_store(argument):
        return None
    named = open_named_store(argument)
    require_gates(named)
    index = named.index()
    found = listed(named.store, index)
    known = known_nodes(named.store, index, found, chosen_cluster(named, asked))
    return None if known.problems else follow([gate.numbers for gate in known.history.gates])


def dated_of(
    files: Sequence[str], policy: Policy | None, cluster: str | None = None
) -> tuple[list[DatedReport], list[UnreadableReport]]:
    """The reports, and what is none; policy and cluster as in `cases_of`. Raises InputError for what is not there, StoreError."""
    dated: list[DatedReport] = []
    bad: list[UnreadableReport] = []
    for one in inputs_of(files, cluster):
        try:
            report = load(one.data)
        except DecodeError as error:
            bad.append(UnreadableReport(one.name, not_a_report(one.data, error)))
            continue
        rules = rules_for(report, policy or policy_of(one.policy))
        dated.append(DatedReport(report, digest(one.data), rules))
    return dated, bad


def trend_code(trend: Trend, bad: Sequence[UnreadableReport]) -> int:
    """1 where something gets worse; else 3 where of some machine, or some file, nobody can tell; else 0."""
    if any(machine.worse for machine in trend.machines) or any(one.worse for one in trend.fleet):
        return int(Exit.NO_GO)
    unknown = bad or not trend.machines or any(not machine.told for machine in trend.machines)
    return int(Exit.CANNOT_TELL if unknown else Exit.GO)
