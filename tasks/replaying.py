"""Every kept report judged again under another policy, one at a time, and compared with the verdict that was kept.

The policy of then may not exist any more: what is compared with is verdict.json. What cannot be compared is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from checks.baseline import Baseline
from checks.decode import DecodeError
from checks.facts.table import Facts
from checks.model import Answer, Level, Report
from checks.policy import Policy
from checks.report import digest, load
from checks.verdict import decide
from tasks.findingdiff import Change, changes
from tasks.history import kept_gates
from tasks.inputs import InputError, default_of
from tasks.kept import report_key, verdict_key
from tasks.render.clean import one_line
from tasks.store import record as records
from tasks.store import verdictfile
from tasks.store.base import Store, StoreError, StoreUnreachable
from tasks.store.record import Record
from tasks.store.verdictfile import KeptVerdict


class Fate(StrEnum):
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
class Said:
    """A verdict in two words, and whom it condemned."""

    answer: Answer
    level: Level
    condemned: tuple[str, ...]


@dataclass(frozen=True)
class Replayed:
    """One gate. `before` and `after` are None where there is none; `notes` say what else is not as it was then."""

    gate_id: str
    fate: Fate
    cluster: str = ""
    judged_at: str = ""
    before: Said | None = None
    after: Said | None = None
    changes: tuple[Change, ...] = ()
    hidden: int = 0
    why: str = ""
    notes: tuple[str, ...] = ()


def replay(
    store: Store, policy: Policy | None, facts: Facts, baseline: Baseline | None
) -> Iterator[Replayed]:
    """Each gate that kept a report, a verdict or a record, by time. Without a policy: the shipped one of each report's type.

    Raises StoreError where the store cannot be listed or does not answer; a gate that cannot be read is in the result.
    """
    recorded = set(records.recorded(store))
    for gate_id, keys in kept_gates(store, recorded).items():
        if gate_id in recorded or report_key(gate_id) in keys or verdict_key(gate_id) in keys:
            yield _replayed(store, gate_id, policy, facts, baseline)


def _replayed(
    store: Store, gate_id: str, policy: Policy | None, facts: Facts, baseline: Baseline | None
) -> Replayed:
    try:
        record = records.read(store, gate_id)
        data = store.get(report_key(gate_id))
        if data is None:
            return Replayed(gate_id, Fate.NOT_COMPARED, why="its report is gone")
        kept = store.get(verdict_key(gate_id))
        verdict = None if kept is None else verdictfile.load(kept)
        report = load(data)
        rules = policy or default_of(report.declared.instance_type)[0]
    except StoreUnreachable:
        raise
    except (DecodeError, InputError, StoreError) as error:
        return Replayed(gate_id, Fate.NOT_COMPARED, why=one_line(str(error), 500))
    cluster, when = (record.cluster, record.judged_at) if record else ("", report.measured_at)
    if report.declared.instance_type not in rules.instance_types:
        said = f"policy {rules.name} was not written for {report.declared.instance_type}"
        return Replayed(gate_id, Fate.OTHER_TYPE, cluster, one_line(when, 40), why=said)
    bytes_digest = digest(data)
    after = verdictfile.of(decide(report, rules, facts, baseline, report_digest=bytes_digest))
    return _compared(gate_id, bytes_digest, report, verdict, record, after)


def _compared(
    gate_id: str,
    bytes_digest: str,
    report: Report,
    verdict: KeptVerdict | None,
    record: Record | None,
    after: KeptVerdict,
) -> Replayed:
    cluster, when = (record.cluster, record.judged_at) if record else ("", one_line(report.measured_at, 40))
    now = Said(after.answer, after.level, after.condemned)
    kept = verdict or record
    if kept is None:
        said = "no verdict was kept: its gate was cut short"
        return Replayed(gate_id, Fate.NO_VERDICT, cluster, when, None, now, why=said)
    if kept.digests.report != bytes_digest:
        said = "its report is not the one that its verdict was made of"
        return Replayed(gate_id, Fate.NOT_COMPARED, cluster, when, None, now, why=said)
    if record is not None and (record.digests.report, record.answer) != (kept.digests.report, kept.answer):
        said = "its record is of another verdict than the one that lies beside its report"
        return Replayed(gate_id, Fate.NOT_COMPARED, cluster, when, None, now, why=said)
    before, notes = Said(kept.answer, kept.level, kept.condemned), _notes(kept, after)
    if isinstance(kept, Record):
        said = "only its record is left: findings are not compared"
        fate = Fate.SAME if before == now else Fate.CHANGED
        return Replayed(gate_id, fate, cluster, when, before, now, why=said, notes=notes)
    found, hidden = changes(kept.findings, after.findings)
    fate = Fate.CHANGED if before != now else Fate.FINDINGS if found else Fate.SAME
    return Replayed(gate_id, fate, cluster, when, before, now, found, hidden, notes=notes)


def _notes(before: KeptVerdict | Record, after: KeptVerdict) -> tuple[str, ...]:
    """What else differs between then and now, so that nobody blames the policy for it."""
    engine = before.engine if isinstance(before, Record) else before.digests.engine
    notes = []
    if before.digests.facts != after.digests.facts:
        notes.append("the facts have changed since")
    if engine != after.digests.engine:
        notes.append(f"prelaunch {one_line(engine, 40)} had judged it")
    if before.digests.baseline != after.digests.baseline:
        notes.append(
            "another baseline" if after.digests.baseline else "it was judged with a baseline, now without"
        )
    return tuple(notes)
