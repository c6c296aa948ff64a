"""The certificates that a gate offers to its nodes, made of the gates that the store keeps, and kept beside the gate's own files.

The index is not asked: it is a cache, and may be older than the store.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from checks.documents.certificates import NO_CERTIFICATES, Certificates, dump, load_certificates
from checks.documents.report import digest, load
from checks.facts.instances import Facts
from checks.judge.baseline.bands import Baseline
from checks.judge.certificates.issue import GateEvidence, issued
from checks.judge.verdict import decide
from checks.policy import Policy
from checks.value_types import DecodeError
from tasks.store import records
from tasks.store.base import Store
from tasks.store.layout import certificates_key, verdict_key_beside
from tasks.store.records import Record

# Beyond these nothing is offered: reading must not keep a gate, and a bundle has a limit.
MOST_GATES, READ_S, OFFERED_BYTES = 50, 60.0, 1 << 19
# The clocks of flow and nodes may differ; the nodes decide how old a certificate is.
SLACK_S = 3600.0


def longest_valid_s(policy: Policy) -> float:
    """For how long a measurement may certify any check; 0.0 if the policy lets no check be certified."""
    return 3600.0 * max((line.valid_for for line in policy.checks.values()), default=0.0)


def offer(
    store: Store, gate_id: str, policy: Policy, facts: Facts, baseline: Baseline | None
) -> Certificates:
    """The certificates for this gate, which are kept in the store. Raises StoreError; then none may be offered."""
    since = time.time() - longest_valid_s(policy) - SLACK_S
    records_found = issued([*_evidence(store, gate_id, policy, facts, baseline, since)], policy, facts.digest)
    allowed = {name for name, line in policy.checks.items() if line.valid_for}
    usable = (
        replace(record, checks={check: s for check, s in record.checks.items() if check in allowed})
        for record in records_found
    )
    left = tuple(record for record in usable if record.checks)
    while len(dump(sent := Certificates(certificates=left))) > OFFERED_BYTES and left:
        left = left[: len(left) // 2]
    store.put(certificates_key(gate_id), dump(sent).encode())
    return sent


def offered(store: Store, gate_id: str) -> Certificates:
    """What this gate offered to its nodes; nothing if that cannot be read. Raises StoreError."""
    data = store.get(certificates_key(gate_id))
    try:
        return NO_CERTIFICATES if data is None else load_certificates(data)
    except DecodeError:
        return NO_CERTIFICATES


def _evidence(
    store: Store, gate_id: str, policy: Policy, facts: Facts, baseline: Baseline | None, since: float
) -> Iterator[GateEvidence | None]:
    """The kept gates, the newest first; None for one that cannot be read whole, after which nothing counts."""
    ends_at = time.monotonic() + READ_S
    # A gate that was named by hand does not say when it began: it counts as the oldest.
    times = {name: records.stamped_at(name) or since for name in records.recorded(store) if name != gate_id}
    recent = [name for name, at in times.items() if at >= since]
    for name in sorted(recent, key=lambda name: (times[name], name), reverse=True)[:MOST_GATES]:
        if time.monotonic() > ends_at:
            return
        try:
            record = records.read(store, name)
            if record is not None and record.reused:
                continue  # it measured nothing
            yield None if record is None else _read(store, record, policy, facts, baseline)
        except DecodeError:
            yield None


def _read(
    store: Store, record: Record, policy: Policy, facts: Facts, baseline: Baseline | None
) -> GateEvidence | None:
    """The gate as its report shows it today; None if the report or the verdict of that time is gone. Raises DecodeError."""
    data, verdict_data = store.get(record.report), store.get(verdict_key_beside(record.report))
    if data is None or verdict_data is None:
        return None
    report, then = load(data), records.load(verdict_data)
    now = decide(report, policy, facts, baseline, report_digest=digest(data))
    same = (then.level, then.answer, then.digests) == (now.level, now.answer, now.digests)
    own = report.gate_id == record.gate_id
    return GateEvidence(record.gate_id, report, now.digests.report, now, same and own)
