"""Finds out whether another run took over the gate of a run that died, and what became of that gate. It changes nothing."""

from __future__ import annotations

import time

from checks.documents.decode import parse_json
from checks.value_types import DecodeError
from tasks.gate.lease.lease import lease_of_cluster
from tasks.gate.lease.owner import is_dead
from tasks.store.base import Store
from tasks.store.layout import outcome_key, request_key
from tasks.text.inert import one_line

FILE_BYTES = 1 << 24


def taken_over(store: Store, cluster: str, gate_id: str, flow_run_id: str) -> str:
    """What became of the gate in another run than this one, as a sentence without its end; "" if no other run has it.

    A successor that is dead itself, and did not end the gate, is none. Raises LeaseError, StoreError.
    """
    heir = _text(store, request_key(gate_id), "flow_run")
    if heir in ("", flow_run_id):
        return ""
    said = f"flow run {heir} has taken over its gate {gate_id}"
    # Its answer is that of the other run: quoted here, it would read as the answer of the run that died.
    ended = outcome_key(gate_id)
    if how := _text(store, ended, "decision") or _text(store, ended, "ending"):
        return f"{said} and has ended it ({how.replace('_', ' ')}): prelaunch watch {heir} shows the result"
    lease = lease_of_cluster(store, cluster)
    if lease is None or lease.gate_id != gate_id or is_dead(lease.owner, lease.expires_at, time.time()):
        return ""
    return f"{said} and goes on with it"


def _text(store: Store, key: str, name: str) -> str:
    """A text of a JSON document in the store; "" if it is not there, or cannot be read."""
    data = store.get(key)
    try:
        table = parse_json(data, FILE_BYTES) if data is not None else None
    except DecodeError:
        return ""
    found = table.get(name) if isinstance(table, dict) else None
    return one_line(found, 500) if isinstance(found, str) else ""
