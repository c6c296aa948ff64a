"""Judges every kept report again under another policy, one at a time, and compares the result with the kept verdict.

The policy that was used then may not exist any more, so the comparison is with verdict.json: which findings of one report appeared,
disappeared or changed their level (pure). What cannot be compared is named. Text of it: tasks.reports.listings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum

from checks.command_line import InputError
from checks.documents.report import digest, load
from checks.facts.instances import Facts
from checks.judge.baseline.model import Baseline
from checks.judge.verdict import decide
from checks.model import ANSWER_WORDS, Answer, Cause, Level, Report
from checks.policy import Policy
from checks.value_types import DecodeError
from tasks.reports.gate_folder.decision import other_inputs
from tasks.reports.read import default_policy_of
from tasks.store import records
from tasks.store.base import Store, StoreError, StoreUnreachable
from tasks.store.history import kept_gates
from tasks.store.layout import report_key, verdict_key
from tasks.store.records import KeptFinding, KeptVerdict, Record, matter
from tasks.text.inert import one_line

# Gates whose files are read while another one is judged, and with them the reports in memory.
AHEAD = 8
MESSAGE_CHARACTERS = 300


@dataclass(frozen=True)
class Change:
    """One finding; `before` and `after` are its levels, None if it was not or is no more."""

    before: Level | None
    after: Level | None
    cause: Cause
    check: str
    subject: str
    message: str

    @property
    def how(self) -> str:
        """What happened to the finding."""
        return "appears" if self.before is None else "disappears" if self.after is None else "changes level"


def changes(before: Iterable[KeptFinding], after: Iterable[KeptFinding]) -> tuple[Change, ...]:
    """The changes, worst first.

    Two findings are one if check, subject, cause and metric are the same; of findings without a metric the words, but for the
    numbers. A threshold that moved, and a sentence that was reworded, is no change.
    """
    old, new = _by_key(before), _by_key(after)
    found: list[Change] = []
    for key in old.keys() | new.keys():
        was, now = old.get(key), new.get(key)
        one, then, here = now or was, was.level if was else None, now.level if now else None
        if one is not None and then is not here:
            found.append(_change(one, then, here))
    return tuple(sorted(found, key=_turn))


def _change(one: KeptFinding, before: Level | None, after: Level | None) -> Change:
    message = one_line(one.message, MESSAGE_CHARACTERS)
    return Change(before, after, one.cause, one_line(one.check, 100), one_line(one.subject, 300), message)


def _by_key(findings: Iterable[KeptFinding]) -> dict[tuple[str, str, str, str], KeptFinding]:
    """Each finding by what it is about; of several alike the worst."""
    ordered = sorted(findings, key=lambda one: (one.level.rank, one.message))
    return {(one.check, one.subject, one.cause.value, matter(one)): one for one in ordered}


def _turn(change: Change) -> tuple[object, ...]:
    worst = max(level.rank for level in (change.before, change.after) if level is not None)
    return (-worst, change.how, change.check, change.subject, change.cause.value, change.message)


class ReplayResult(StrEnum):
    """What becomes of a past verdict. CHANGED: another answer or level, or other nodes condemned.

    FINDINGS: the same verdict for other reasons. NO_VERDICT: a report that nobody had judged, or not to the end.
    NOT_COMPARED: report or verdict cannot be read, or do not belong together. OTHER_TYPE: the policy was not written for it.
    """

    SAME = "same"
    FINDINGS = "findings"
    CHANGED = "changed"
    NO_VERDICT = "no_verdict"
    NOT_COMPARED = "not_compared"
    OTHER_TYPE = "other_type"


@dataclass(frozen=True)
class VerdictSummary:
    """A verdict in short: its answer, its level, and the nodes that it blames."""

    answer: Answer
    level: Level
    condemned: tuple[str, ...]


@dataclass(frozen=True)
class ReplayedGate:
    """One gate. `before` and `after` are None if there is none; `notes` say what else is not as it was then."""

    gate_id: str
    fate: ReplayResult
    cluster: str = ""
    judged_at: str = ""
    before: VerdictSummary | None = None
    after: VerdictSummary | None = None
    changes: tuple[Change, ...] = ()
    why: str = ""
    notes: tuple[str, ...] = ()


def replay(
    store: Store,
    policy: Policy | None,
    facts: Facts,
    baseline: Baseline | None,
    cluster: str | None = None,
) -> Iterator[ReplayedGate]:
    """Each gate that kept a report, a verdict or a record, by time. Without a policy: the shipped one of each report's type.

    Only those of `cluster`, None for all; a gate whose cluster is not known is never left out, because it may be of this one.
    A few gates are read ahead, because a store may be far away. Raises StoreError if the store cannot be listed or does not answer; a
    gate that cannot be read is in the result.
    """
    recorded = set(records.recorded(store))
    chosen = [
        gate_id
        for gate_id, keys in kept_gates(store, recorded).items()
        if gate_id in recorded or report_key(gate_id) in keys or verdict_key(gate_id) in keys
    ]
    for gate_id, files in _read_ahead(store, chosen):
        if cluster is not None and files.record is not None and files.record.cluster not in ("", cluster):
            continue
        yield _replayed(gate_id, files, policy, facts, baseline)


@dataclass(frozen=True)
class _Files:
    """What a store keeps of one gate; `error` is why it could not be read."""

    record: Record | None = None
    report: bytes | None = None
    verdict: bytes | None = None
    error: Exception | None = None


def _read_ahead(store: Store, gates: Sequence[str]) -> Iterator[tuple[str, _Files]]:
    """The files of the gates in their order; of at most AHEAD gates at a time."""
    with ThreadPoolExecutor(AHEAD) as pool:
        for begin in range(0, len(gates), AHEAD):
            some = gates[begin : begin + AHEAD]
            yield from zip(some, pool.map(lambda gate_id: _files_of(store, gate_id), some), strict=True)


def _files_of(store: Store, gate_id: str) -> _Files:
    try:
        return _Files(
            records.read(store, gate_id), store.get(report_key(gate_id)), store.get(verdict_key(gate_id))
        )
    except StoreUnreachable:
        raise
    except (DecodeError, StoreError) as error:
        return _Files(error=error)


def _replayed(
    gate_id: str, files: _Files, policy: Policy | None, facts: Facts, baseline: Baseline | None
) -> ReplayedGate:
    record, data = files.record, files.report
    try:
        if files.error is not None:
            raise files.error
        if data is None:
            return ReplayedGate(gate_id, ReplayResult.NOT_COMPARED, why="its report is missing")
        verdict = None if files.verdict is None else records.load(files.verdict)
        report = load(data)
        rules = policy or default_policy_of(report.declared.instance_type, report.declared)[0]
    except (DecodeError, InputError, StoreError) as error:
        return ReplayedGate(gate_id, ReplayResult.NOT_COMPARED, why=one_line(str(error), 500))
    cluster, when = (record.cluster, record.judged_at) if record else ("", report.measured_at)
    if not facts.are_for(rules.instance_types, report.declared):
        said = f"policy {rules.name} was not written for {report.declared.instance_type}"
        return ReplayedGate(gate_id, ReplayResult.OTHER_TYPE, cluster, one_line(when, 40), why=said)
    bytes_digest = digest(data)
    after = records.of(decide(report, rules, facts, baseline, report_digest=bytes_digest))
    return _compared(gate_id, bytes_digest, report, verdict, record, after)


def _compared(
    gate_id: str,
    bytes_digest: str,
    report: Report,
    verdict: KeptVerdict | None,
    record: Record | None,
    after: KeptVerdict,
) -> ReplayedGate:
    cluster, when = (record.cluster, record.judged_at) if record else ("", one_line(report.measured_at, 40))
    now = VerdictSummary(after.answer, after.level, after.condemned)
    if verdict is None:
        said = "no verdict is stored: its gate was interrupted, or the file was removed"
        return ReplayedGate(gate_id, ReplayResult.NO_VERDICT, cluster, when, None, now, why=said)
    if verdict.digests.report != bytes_digest:
        said = "its verdict was made from another report"
        return ReplayedGate(gate_id, ReplayResult.NOT_COMPARED, cluster, when, None, now, why=said)
    if record is not None and (record.digests.report, record.answer) != (bytes_digest, verdict.answer):
        said = "its record and its stored verdict differ"
        return ReplayedGate(gate_id, ReplayResult.NOT_COMPARED, cluster, when, None, now, why=said)
    before = VerdictSummary(verdict.answer, verdict.level, verdict.condemned)
    notes = tuple(other_inputs(verdict.digests, after.digests))
    found = changes(verdict.findings, after.findings)
    fate = ReplayResult.CHANGED if before != now else ReplayResult.FINDINGS if found else ReplayResult.SAME
    return ReplayedGate(gate_id, fate, cluster, when, before, now, found, notes=notes)


@dataclass
class ReplayTotals:
    """The totals of a replay so far."""

    fates: Counter[ReplayResult] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)

    def add(self, one: ReplayedGate) -> None:
        """Count one gate."""
        self.fates[one.fate] += 1
        if one.fate is ReplayResult.CHANGED:
            self.moves[answer_change(one)] += 1

    @property
    def compared(self) -> int:
        """Verdicts that were compared with what was kept."""
        return sum(
            self.fates[fate] for fate in (ReplayResult.SAME, ReplayResult.FINDINGS, ReplayResult.CHANGED)
        )

    @property
    def line(self) -> str:
        """ "312 reports: 4 would change: 3 GO -> NO-GO, 1 NO-GO -> GO"."""
        total = sum(self.fates.values())
        changed = f"{self.fates[ReplayResult.CHANGED] or 'none'} would change"
        said = [f"{total} report{'s'[: total != 1]}: {changed if self.compared else 'nothing was compared'}"]
        moves = sorted(self.moves.items(), key=lambda item: (-item[1], item[0]))
        said += [", ".join(f"{count} {name}" for name, count in moves)] if moves else []
        rest = [
            (ReplayResult.FINDINGS, "with the same verdict for other reasons"),
            (ReplayResult.NO_VERDICT, "without a stored verdict"),
            (ReplayResult.NOT_COMPARED, "that cannot be compared"),
            (ReplayResult.OTHER_TYPE, "of types that the policy does not cover"),
        ]
        more = [f"{self.fates[fate]} {words}" for fate, words in rest if self.fates[fate]]
        return "; ".join([": ".join(said), *more])


def answer_change(one: ReplayedGate) -> str:
    """ "GO -> NO-GO"; where the answer stays, what else does not."""
    before, after = one.before, one.after
    if before is None or after is None:
        return ""
    if before.answer is not after.answer:
        return f"{ANSWER_WORDS[before.answer]} -> {ANSWER_WORDS[after.answer]}"
    if before.level is not after.level:
        return f"{ANSWER_WORDS[after.answer]} {before.level.value} -> {ANSWER_WORDS[after.answer]} {after.level.value}"
    return f"{ANSWER_WORDS[after.answer]} about other nodes"
