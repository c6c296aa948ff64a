"""Judges every kept report again under another policy, one at a time, and compares the result with the kept verdict.

The policy that was used then may not exist any more, so the comparison is with verdict.json: which findings of one report appeared,
disappeared or changed their level (pure). What cannot be compared is named. Text of it: tasks.reports.listings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from checks.command_line import InputError
from checks.documents.report import digest, load
from checks.facts.instances import Facts
from checks.judge.baseline.bands import Baseline
from checks.judge.verdict import decide
from checks.model import ANSWER_WORDS, Answer, Cause, Finding, Level, Verdict
from checks.policy import Policy
from checks.value_types import DecodeError
from tasks.reports.gate_folder.decision import other_inputs
from tasks.reports.read import default_policy_of
from tasks.store import records
from tasks.store.base import Store, StoreError, StoreUnreachable
from tasks.store.history import kept_gates, read_each
from tasks.store.layout import report_key, verdict_key
from tasks.store.records import Record, matter
from tasks.text.inert import one_line

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
        if self.before is None:
            return "appears"
        return "disappears" if self.after is None else "changes level"


def changes(before: Iterable[Finding], after: Iterable[Finding]) -> tuple[Change, ...]:
    """The changes, worst first.

    Two findings are one if check, subject, cause and metric are the same; of findings without a metric the words, but for the
    numbers. A threshold that moved, and a sentence that was reworded, is no change.
    """
    old, new = _by_key(before), _by_key(after)
    results: list[Change] = []
    for key in old.keys() | new.keys():
        was, now = old.get(key), new.get(key)
        finding, then, here = now or was, was.level if was else None, now.level if now else None
        if finding is not None and then is not here:
            results.append(_change(finding, then, here))
    return tuple(sorted(results, key=_sort_key))


def _change(finding: Finding, before: Level | None, after: Level | None) -> Change:
    message = one_line(finding.message, MESSAGE_CHARACTERS)
    return Change(
        before, after, finding.cause, one_line(finding.check, 100), one_line(finding.subject, 300), message
    )


def _by_key(findings: Iterable[Finding]) -> dict[tuple[str, str, str, str], Finding]:
    """Each finding by what it is about; of several alike the worst."""
    ordered = sorted(findings, key=lambda finding: (finding.level.rank, finding.message))
    return {(item.check, item.subject, item.cause.value, matter(item)): item for item in ordered}


def _sort_key(change: Change) -> tuple[object, ...]:
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
    store: Store, policy: Policy | None, facts: Facts, baseline: Baseline | None, cluster: str | None = None
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
    for gate_id, files in read_each(chosen, lambda gate_id: _files_of(store, gate_id)):
        if cluster is not None and files.record is not None and files.record.cluster not in ("", cluster):
            continue
        yield _replayed(gate_id, files, policy, facts, baseline)


@dataclass(frozen=True)
class _StoredGate:
    """What a store keeps of one gate; `error` is why it could not be read."""

    record: Record | None = None
    report: bytes | None = None
    verdict: bytes | None = None
    error: str = ""


def _files_of(store: Store, gate_id: str) -> _StoredGate:
    try:
        return _StoredGate(
            records.read(store, gate_id), store.get(report_key(gate_id)), store.get(verdict_key(gate_id))
        )
    except StoreUnreachable:
        raise
    except (DecodeError, StoreError) as error:
        return _StoredGate(error=str(error))


def _replayed(
    gate_id: str, files: _StoredGate, policy: Policy | None, facts: Facts, baseline: Baseline | None
) -> ReplayedGate:
    record = files.record
    cluster, when = (record.cluster, record.judged_at) if record else ("", "")
    gate = ReplayedGate(gate_id, ReplayResult.NOT_COMPARED, cluster, when)
    if files.report is None:
        return replace(gate, why=one_line(files.error, 500) or "its report is missing")
    try:
        verdict = None if files.verdict is None else records.load(files.verdict)
        report = load(files.report)
        rules = policy or default_policy_of(report.declared.instance_type, report.declared)[0]
    except (DecodeError, InputError) as error:
        return replace(gate, why=one_line(str(error), 500))
    gate = gate if record else replace(gate, judged_at=one_line(report.measured_at, 40))
    if not facts.are_for(rules.instance_types, report.declared):
        text = f"policy {rules.name} was not written for {report.declared.instance_type}"
        return replace(gate, fate=ReplayResult.OTHER_TYPE, why=text)
    after = decide(report, rules, facts, baseline, report_digest=digest(files.report))
    gate = replace(gate, after=_summary(after))
    if verdict is None:
        text = "no verdict is stored: its gate was interrupted, or the file was removed"
        return replace(gate, fate=ReplayResult.NO_VERDICT, why=text)
    if verdict.digests.report != after.digests.report:
        return replace(gate, why="its verdict was made from another report")
    if record is not None and (record.digests.report, record.answer) != (
        after.digests.report,
        verdict.answer,
    ):
        return replace(gate, why="its record and its stored verdict differ")
    changed, before = changes(verdict.findings, after.findings), _summary(verdict)
    fate = ReplayResult.FINDINGS if changed else ReplayResult.SAME
    fate = fate if before == gate.after else ReplayResult.CHANGED
    notes = tuple(other_inputs(verdict.digests, after.digests))
    return replace(gate, fate=fate, before=before, changes=changed, notes=notes)


def _summary(verdict: Verdict) -> VerdictSummary:
    return VerdictSummary(verdict.answer, verdict.level, verdict.condemned)


@dataclass
class ReplayTotals:
    """The totals of a replay so far."""

    fates: Counter[ReplayResult] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)

    def add(self, gate: ReplayedGate) -> None:
        """Count one gate."""
        self.fates[gate.fate] += 1
        if gate.fate is ReplayResult.CHANGED:
            self.moves[answer_change(gate)] += 1

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
        text = [f"{total} report{'s'[: total != 1]}: {changed if self.compared else 'nothing was compared'}"]
        moves = sorted(self.moves.items(), key=lambda item: (-item[1], item[0]))
        text += [", ".join(f"{count} {name}" for name, count in moves)] if moves else []
        rest = [
            (ReplayResult.FINDINGS, "with the same verdict for other reasons"),
            (ReplayResult.NO_VERDICT, "without a stored verdict"),
            (ReplayResult.NOT_COMPARED, "that cannot be compared"),
            (ReplayResult.OTHER_TYPE, "of types that the policy does not cover"),
        ]
        more = [f"{self.fates[fate]} {label}" for fate, label in rest if self.fates[fate]]
        return "; ".join([": ".join(text), *more])


def answer_change(gate: ReplayedGate) -> str:
    """ "GO -> NO-GO"; where the answer stays, what else does not."""
    before, after = gate.before, gate.after
    if before is None or after is None:
        return ""
    if before.answer is not after.answer:
        return f"{ANSWER_WORDS[before.answer]} -> {ANSWER_WORDS[after.answer]}"
    if before.level is not after.level:
        return f"{ANSWER_WORDS[after.answer]} {before.level.value} -> {ANSWER_WORDS[after.answer]} {after.level.value}"
    return f"{ANSWER_WORDS[after.answer]} about other nodes"
