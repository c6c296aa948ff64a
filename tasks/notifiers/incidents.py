"""Which incidents of a cluster are open: incidents/<cluster>.json in the store, so that the next GO can resolve them.

A routing key is kept as the gate file's reference ("env:NAME"), never as its value. Several gates, the reaper and a hook may write
at the same time: every change is read, made, and written only if nobody changed the file meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, dump_plain
from checks.model import SCHEMA_VERSION
from checks.value_types import DecodeError
from tasks.notifiers.base import NotifierAccess, NotifyError
from tasks.store.layout import incidents_key

FILE_BYTES = 1 << 20
TRIES = 10


@dataclass(frozen=True)
class Incident:
    """An incident that was opened: `routing_key` is a reference, `gate_id` is the gate that opened it."""

    dedup_key: str
    routing_key: str
    gate_id: str
    kind: str


Open = tuple[Incident, ...]


@dataclass(frozen=True)
class Incidents:
    """The open incidents of a cluster, as the file has them."""

    schema_version: Version
    cluster: str
    open: Open


def opened(means: NotifierAccess, cluster: str) -> Open:
    """The open incidents of the store. Raises NotifyError."""
    return _read(means.read(incidents_key(cluster)), cluster)


def remember(means: NotifierAccess, cluster: str, incident: Incident) -> None:
    """Record an incident before it is opened; one that is recorded stays as it is. Raises NotifyError."""
    _change(means, cluster, lambda found: found if _among(incident, found) else (*found, incident))


def forget(means: NotifierAccess, cluster: str, incident: Incident) -> None:
    """Remove an incident that was resolved. Raises NotifyError."""
    _change(means, cluster, lambda found: tuple(one for one in found if not _same(one, incident)))


def _change(means: NotifierAccess, cluster: str, edit: Callable[[Open], Open]) -> None:
    key = incidents_key(cluster)
    for _ in range(TRIES):
        data = means.read(key)
        found = _read(data, cluster)
        wanted = edit(found)
        if wanted == found:
            return
        if means.replace(key, data, dump_plain(Incidents(SCHEMA_VERSION, cluster, wanted))):
            return
    raise NotifyError(f"{key} changed {TRIES} times while it was written. Resolve the incident by hand.")


def _read(data: bytes | None, cluster: str) -> Open:
    if data is None:
        return ()
    try:
        return decode(Incidents, parse_json(data, FILE_BYTES)).open
    except DecodeError as error:
        raise NotifyError(
            f"{incidents_key(cluster)} cannot be read: {error}. Resolve the cluster's incidents by hand and remove the file."
        ) from error


def _among(incident: Incident, found: Open) -> bool:
    return any(_same(one, incident) for one in found)


def _same(one: Incident, other: Incident) -> bool:
    return (one.dedup_key, one.routing_key) == (other.dedup_key, other.routing_key)
