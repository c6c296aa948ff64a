"""One gate per cluster: a lock in the store, taken by create-if-absent and renewed while its owner is alive.

leases/<cluster>.json names the gate, its jobs and its owner; leases/by-run/<flow run>.json finds it from a
flow run's id alone, for hooks that know nothing else. Every change is compare-and-set, so that only one of two processes that try
to adopt the lock succeeds.

A lock is *parked* while its run waits for a person and may continue in another process: until the question's deadline
the cluster stays locked for that run, whether or not a process of it is alive.

LeaseError              the lock cannot be used; carries the remedy
|- LeaseHeld            another gate holds the lock of the cluster
`- LeaseLost            another gate has taken it meanwhile, or it was removed
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, dump_plain
from checks.value_types import DecodeError
from tasks.gate.lease.owner import Owner, is_dead
from tasks.store.base import Store, table_at
from tasks.store.layout import lease_key, lease_of_run_key, outcome_key, request_key
from tasks.text.inert import one_line

TTL_S = 120.0
RENEW_S = 20.0
# Nobody renews a lock while the jobs of its dead owner are ended; SageMaker may take ten minutes for that, and three for a pool.
ENDING_S = 900.0
# A finished check job of a dead owner is evidence of then: it is taken over only if its owner died just now.
FRESH_S = 300.0
CHECK, TRAIN = "check", "train"
FILE_BYTES = 1 << 24


class LeaseError(Exception):
    """The lock cannot be read or taken."""


class LeaseHeld(LeaseError):
    """Another gate holds the cluster's lock; the message names it."""


class LeaseLost(LeaseError):
    """The gate has lost the lock, and with it the jobs. The message says whether another gate has it, or whether it was deleted."""


@dataclass(frozen=True)
class LauncherAddress:
    """How to reach the jobs without the gate file: the launcher's kind, options and folder."""

    launcher: str
    options: Mapping[str, object]
    root: str


@dataclass(frozen=True)
class OpenQuestion:
    """The question that a run waits with. `verdict` is the digest of the verdict that it is about.

    Unix seconds: an answer counts until `deadline`; until `until` the cluster is kept for a worker to act on it.
    """

    key: str
    verdict: str
    deadline: float
    until: float


@dataclass(frozen=True)
class Lease:
    """The lock of a cluster: which gate holds it. `digest` is that of the gate file; `adopted` says that its jobs may exist already.

    `asking` is the question of a run that may come back for the answer; `rechecks` counts how often a person had the
    checks run again, `trainings` how often the training of this attempt was submitted: each time but the last there were no
    machines for it; `launches` says that it was requested to launch a training. Times are Unix seconds of the owner's clock.
    """

    schema_version: Version
    cluster: str
    gate_id: str
    attempt: int
    digest: str
    gate_file: str
    adopted: bool
    engine: LauncherAddress
    owner: Owner
    taken_at: float
    renewed_at: float
    expires_at: float
    asking: OpenQuestion | None = None
    rechecks: int = 0
    trainings: int = 1
    launches: bool = True

    def job(self, stage: str) -> str:
        """The name of this attempt's job: "<gate id>-check-1", or "<gate id>-train-1-2" for its second training."""
        again = f"-{self.trainings}" if stage == TRAIN and self.trainings > 1 else ""
        return f"{self.gate_id}-{stage}-{self.attempt}{again}"

    @property
    def jobs(self) -> tuple[str, ...]:
        """Every job that this gate may have running."""
        return (self.job(CHECK), self.job(TRAIN))

    def parked(self, now: float) -> bool:
        """Whether the cluster is kept for a run that waits for a person."""
        return self.asking is not None and now <= self.asking.until

    def asks_the_same(self, other: Lease) -> bool:
        """Whether both were requested to do the same: a gate that only checks must not end one that has to launch a training."""
        return self.digest == other.digest and self.launches == other.launches

    def __str__(self) -> str:
        run = f", flow run {self.owner.flow_run_id}" if self.owner.flow_run_id else ""
        return f"gate {self.gate_id} ({self.gate_file}, process {self.owner.pid} on {self.owner.host}{run})"


Running = Callable[[Lease], tuple[str, ...]]
"""Which jobs of a lock still run."""
Cancel = Callable[[Lease], None]
"""Ends all jobs of a lock; returns when nothing of them is left."""
Over = Callable[[str], bool]
"""Whether a flow run has certainly ended although nobody released its lock."""


@dataclass(frozen=True)
class HeldLease:
    """A lock that is ours, and the bytes that prove it."""

    lease: Lease
    data: bytes


def acquire(
    store: Store, wanted: Lease, running: Running, cancel: Cancel, over: Over = lambda flow_run_id: False
) -> HeldLease:
    """Take the cluster's lock for `wanted`, or adopt what a dead owner of the same gate file and the same request left.

    What a question left that nobody answered is ended, never adopted. Idempotent for one owner. Raises LeaseHeld, naming
    the holder; StoreError.
    """
    begun = time.monotonic()
    for _ in range(100):
        fresh = _since(wanted, begun)
        data = dump_plain(fresh)
        if store.put_if_absent(lease_key(wanted.cluster), data):
            return HeldLease(fresh, data)
        current = store.get(lease_key(wanted.cluster))
        if current is None:
            continue
        holder = _load(current, store.location(lease_key(wanted.cluster)))
        held = _contend(store, holder, current, wanted, begun, running, cancel, over)
        if held is not None:
            return held
    raise LeaseHeld(f"cluster {wanted.cluster}: other gates keep taking its lock. Try again.")


def _since(wanted: Lease, begun: float) -> Lease:
    """The lock as of now: what was asked of an engine since `begun` may have taken minutes."""
    now = wanted.taken_at + time.monotonic() - begun
    return dataclasses.replace(wanted, renewed_at=now, expires_at=now + TTL_S)


def _contend(
    store: Store, holder: Lease, current: bytes, wanted: Lease, begun: float, running: Running, cancel: Cancel, over: Over
) -> HeldLease | None:  # fmt: skip
    """Try to take the lock; return None if it changed meanwhile."""
    now = wanted.taken_at
    if holder.owner.is_me(wanted.owner) and holder.asks_the_same(wanted):
        return _swap(store, current, dataclasses.replace(holder, owner=wanted.owner))
    if holder.parked(now):
        if not over(holder.owner.flow_run_id):
            raise LeaseHeld(_waits(holder))
    elif not is_dead(holder.owner, holder.expires_at, now):
        raise LeaseHeld(
            f"cluster {holder.cluster} is locked by {holder}. Wait for that gate, or end its process; "
            "if a pipeline runs it, cancel that pipeline."
        )
    busy = running(holder) if holder.asking is None else ()
    late = _since(wanted, begun)
    ours = dataclasses.replace(
        holder, owner=wanted.owner, adopted=True, renewed_at=late.renewed_at, expires_at=late.expires_at, asking=None
    )  # fmt: skip
    fresh = now - holder.renewed_at < FRESH_S and holder.asking is None
    if holder.asks_the_same(wanted) and (busy or fresh):
        return _inherited(store, _swap(store, current, ours), holder)
    if holder.job(TRAIN) in busy:
        raise LeaseHeld(
            f"cluster {holder.cluster}: {holder} is gone, but its job {holder.job(TRAIN)} still runs. "
            "Run that gate file again, unchanged, without --check-only and with the version of Prelaunch that started it: "
            "that gate adopts the job. "
            "Or wait until the job has ended, or end the job."
        )
    # Own it before its jobs are ended, replace it after: a process that dies in between leaves their names behind.
    owned = _swap(store, current, dataclasses.replace(ours, expires_at=ours.expires_at + ENDING_S))
    if owned is None:
        return None
    try:
        cancel(holder)
    except BaseException:
        _swap(store, owned.data, ours)  # the next gate tries it again, and does not wait for this one
        raise
    return _inherited(store, _swap(store, owned.data, _since(wanted, begun)), holder)


def _waits(holder: Lease) -> str:
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(holder.asking.deadline if holder.asking else 0))
    return (
        f"cluster {holder.cluster} is locked by gate {holder.gate_id} ({holder.gate_file}): flow run "
        f"{holder.owner.flow_run_id} waits for approval until {until}. Answer it, or cancel that run."
    )


def not_continued(lease: Lease) -> str:
    """What a gate that only checks says about a dead one that was to launch a training, after it has ended its jobs."""
    return (
        f"{lease} was requested to launch a training, and its process is gone. This gate only checks, so it does not continue "
        "that one: what was left of its checks was ended, and its training is not started. To start it, run that gate file "
        "again without --check-only."
    )


def _inherited(store: Store, held: HeldLease | None, before: Lease) -> HeldLease | None:
    """Once the lock is ours, the flow run that held it before no longer finds it."""
    if held is not None and before.owner.flow_run_id:
        store.delete(lease_of_run_key(before.owner.flow_run_id))
    return held


def bind_run(store: Store, held: HeldLease, flow_run_id: str) -> HeldLease:
    """Write the flow run's id into the lock and its index. Raises LeaseLost."""
    bound = changed(store, held, owner=dataclasses.replace(held.lease.owner, flow_run_id=flow_run_id))
    store.put(lease_of_run_key(flow_run_id), dump_plain({"cluster": held.lease.cluster}))
    return bound


def renew(store: Store, held: HeldLease, now: float) -> HeldLease:
    """Extend the lock to TTL_S from now. Raises LeaseLost."""
    return changed(store, held, renewed_at=now, expires_at=now + TTL_S)


def changed(store: Store, held: HeldLease, **changes: Any) -> HeldLease:
    """The lock with other values. Raises LeaseLost."""
    wanted = dataclasses.replace(held.lease, **changes)
    return _held(store, _swap(store, held.data, wanted) or _swap(store, _stored(store, held), wanted), held)


def resume(store: Store, held: HeldLease, owner: Owner, now: float) -> HeldLease:
    """Continue as this owner with the lock of the same flow run, whose process may still renew it for a moment. Raises LeaseLost."""
    for _ in range(20):
        ours = dataclasses.replace(held.lease, owner=owner, renewed_at=now, expires_at=now + TTL_S)
        if (mine := _swap(store, held.data, ours)) is not None:
            return mine
        held = lease_of_run(store, owner.flow_run_id) or held
    return _held(store, None, held)


def release(store: Store, held: HeldLease) -> None:
    """Release the lock. A lock that is no longer ours is left alone."""
    if not store.delete_if(key := lease_key(held.lease.cluster), held.data):
        store.delete_if(key, _stored(store, held))
    if held.lease.owner.flow_run_id:
        store.delete(lease_of_run_key(held.lease.owner.flow_run_id))


def leave(store: Store, held: HeldLease) -> str:
    """Give back a lock under which this process did nothing. One that was adopted stays, as that of a dead
    owner, because what a dead gate left is known from it alone; returns the sentence about it, else "".
    Raises StoreError.
    """
    nobody = dataclasses.replace(held.lease.owner, machine="", flow_run_id="")
    if not held.lease.adopted:
        release(store, held)
    elif _swap(store, held.data, dataclasses.replace(held.lease, owner=nobody, expires_at=0.0)):
        return f"The jobs of {held.lease} may run on: start the gate again, and it goes on with them."
    return ""


def lease_of_cluster(store: Store, cluster: str) -> Lease | None:
    """Who has the cluster's lock, dead or alive; None if nobody has. Raises LeaseError, StoreError."""
    key = lease_key(cluster)
    data = store.get(key)
    return _load(data, store.location(key)) if data is not None else None


def lease_of_run(store: Store, flow_run_id: str) -> HeldLease | None:
    """The lock that a flow run holds; None if it has released or lost it. Raises LeaseError."""
    run_entry = store.get(lease_of_run_key(flow_run_id))
    if run_entry is None:
        return None
    try:
        cluster = parse_json(run_entry, 1 << 16)
    except DecodeError as error:
        raise LeaseError(f"{store.location(lease_of_run_key(flow_run_id))}: {error}. Remove it.") from error
    name = cluster.get("cluster") if isinstance(cluster, dict) else None
    data = store.get(lease_key(str(name)))
    if data is None:
        return None
    lease = _load(data, store.location(lease_key(str(name))))
    return HeldLease(lease, data) if lease.owner.flow_run_id == flow_run_id else None


def _stored(store: Store, held: HeldLease) -> bytes:
    """The lock as the store has it, where its owner wrote it and the answer was lost; else as it is held. A
    flow that took the lock over from its command, in the same process, is another owner.
    """
    data = store.get(lease_key(held.lease.cluster)) or b""
    with suppress(LeaseHeld):
        stored = _load(data, "")
        if (stored.gate_id, stored.owner) == (held.lease.gate_id, held.lease.owner):
            return data
    return held.data


def _swap(store: Store, old: bytes, lease: Lease) -> HeldLease | None:
    data = dump_plain(lease)
    return HeldLease(lease, data) if store.replace_if(lease_key(lease.cluster), old, data) else None


def _load(data: bytes, path: str) -> Lease:
    try:
        return decode(Lease, parse_json(data, 1 << 20))
    except DecodeError as error:
        message = f"{path} cannot be read ({error}). Make sure that no gate runs on this cluster, then remove the file."
        raise LeaseHeld(message) from error


def _held(store: Store, swapped: HeldLease | None, held: HeldLease) -> HeldLease:
    if swapped is None:
        cluster = held.lease.cluster
        if store.get(lease_key(cluster)) is None:
            path = store.location(lease_key(cluster))
            message = f"the lock of cluster {cluster} is no longer in the store: somebody removed {path}, or the store."
            raise LeaseLost(message)
        raise LeaseLost(f"another gate took over cluster {cluster} and its jobs.")
    return swapped


def taken_over(store: Store, cluster: str, gate_id: str, flow_run_id: str) -> str:
    """What became of the gate in another run than this one, as a sentence without its end; "" if no other run has it.

    A successor that is dead itself, and did not end the gate, is none. Raises LeaseError, StoreError.
    """
    heir = _text(store, request_key(gate_id), "flow_run")
    if heir in ("", flow_run_id):
        return ""
    text = f"flow run {heir} has taken over its gate {gate_id}"
    # Its answer is that of the other run: quoted here, it would read as the answer of the run that died.
    ended = outcome_key(gate_id)
    if how := _text(store, ended, "decision") or _text(store, ended, "ending"):
        return (
            f"{text} and has ended it ({how.replace('_', ' ')}): prelaunch run follow {heir} shows the result"
        )
    lease = lease_of_cluster(store, cluster)
    if lease is None or lease.gate_id != gate_id or is_dead(lease.owner, lease.expires_at, time.time()):
        return ""
    return f"{text} and goes on with it"


def _text(store: Store, key: str, name: str) -> str:
    """A text of a JSON document in the store; "" if it is not there, or cannot be read."""
    value = (table_at(store, key, FILE_BYTES) or {}).get(name)
    return one_line(value, 500) if isinstance(value, str) else ""
