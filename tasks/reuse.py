"""A fresh PASS of the same checks on the same cluster, kept in our own store.

It stands only for machines whose identities are known: the training job confirms them on every node before it
starts, and checks again in place where they differ. The report is judged anew; nothing is believed but it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from checks.bundle import Pass, PassedNode
from checks.decode import DecodeError, decode, parse_json
from checks.model import SCHEMA_VERSION, Answer, Level, Report
from checks.report import Version, digest, dump_plain, load
from tasks.judge import judged as judge_again
from tasks.kept import report_key as report_key
from tasks.outcome import Judged
from tasks.session import Session

# Clocks of nodes and flow may differ a little; a PASS from further ahead is none.
AHEAD_S = 60.0
NEEDED = ("host", "boot_id")


@dataclass(frozen=True)
class Kept:
    """Where the last PASS of a cluster lies, and what it depends on. `judged_at` is in Unix seconds."""

    schema_version: Version
    gate_id: str
    fingerprint: str
    report: str
    judged_at: float


def keep(session: Session, judged: Judged, now: float) -> None:
    """Remember a PASS; anything else makes an older one void. Raises StoreError."""
    if judged.reused:
        return
    if not _stands(session, judged):
        forget(session)
        return
    key = report_key(session.gate_id)
    data = session.setting.store.get(key) or b""
    kept = Kept(SCHEMA_VERSION, session.gate_id, session.setting.fingerprint, digest(data), now)
    session.setting.store.put(_key(session), dump_plain(kept))


def forget(session: Session) -> None:
    """From now on this cluster has no PASS. Raises StoreError."""
    session.setting.store.delete(_key(session))


def find(session: Session, now: float) -> Judged | None:
    """A PASS that may stand for this gate. Raises StoreError."""
    minutes = session.setting.gate.policy.reuse_pass_minutes
    data = session.setting.store.get(_key(session)) if minutes else None
    kept = _load(data) if data is not None else None
    if kept is None or kept.fingerprint != session.setting.fingerprint:
        return None
    found = session.setting.store.get(report_key(kept.gate_id))
    if found is None or digest(found) != kept.report:
        return None
    try:
        report = load(found)
        measured_at = datetime.fromisoformat(report.measured_at.replace("Z", "+00:00")).timestamp()
    except (DecodeError, ValueError):
        return None
    ages = [now - measured_at, now - kept.judged_at]
    if max(ages) > minutes * 60 or min(ages) < -AHEAD_S:
        return None
    again = judge_again(session, report, kept.report)
    return replace(again, reused=kept.gate_id) if _stands(session, again) else None


def own(session: Session) -> Judged | None:
    """The report that this gate itself kept before it launched, as its training runs. Raises StoreError."""
    data = session.setting.store.get(report_key(session.gate_id))
    if data is None:
        return None
    try:
        again = judge_again(session, load(data), digest(data))
    except DecodeError:
        return None
    return replace(again, reused=again.report.gate_id)


def proven(judged: Judged) -> Pass:
    """What the training job is held to."""
    report = judged.report
    nodes = tuple(PassedNode(node.name, node.rank, node.identity) for node in report.nodes)
    return Pass(SCHEMA_VERSION, report.gate_id, digest(dump_plain(judged.verdict)), report.measured_at, nodes)


def _stands(session: Session, judged: Judged) -> bool:
    verdict, declared = judged.verdict, session.setting.declared
    whole = verdict.answer is Answer.GO and verdict.level is Level.PASS and verdict.coverage.complete
    return whole and judged.report.declared == declared and _known(judged.report)


def _known(report: Report) -> bool:
    """Whether every machine can be told from another."""
    names = {node.name for node in report.nodes}
    known = all(node.identity.get(key) for node in report.nodes for key in NEEDED)
    return known and len(names) == report.declared.nodes


def _load(data: bytes) -> Kept | None:
    try:
        return decode(Kept, parse_json(data, 1 << 16))
    except DecodeError:
        return None


def _key(session: Session) -> str:
    return f"passes/{session.setting.gate.cluster.name}.json"
