"""PagerDuty over its Events API v2: one incident per cluster and culprit. The next GO of a gate file resolves what it opened.

An incident is recorded in the store before it is opened, so that none is forgotten; resolving one that never opened does no
harm. An incident about machines that may still be billing does not depend on a verdict: no GO resolves it, a person does. One about a
repair that needs a person is over once its nodes are proven: a GO of other nodes says nothing of them.

Events: https://developer.pagerduty.com/docs/send-alert-event. The dedup key is "prelaunch/<cluster>/<culprit>", or what happened and
to whom ("prelaunch/<cluster>/cannot-tell/node-1"): the same again is the same incident, whichever gate saw it.

Each file in the folder incidents/<cluster> of the store is an open incident. A routing key is kept there as the gate file's reference,
never as its value.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, dump_plain
from checks.model import SCHEMA_VERSION
from checks.value_types import SPARSE, DecodeError
from tasks.gate_file.people import PagerDutyTable
from tasks.notifiers.base import Audience, Item, Notification, Notifier, NotifierAccess, NotifyError, PageKind
from tasks.store.base import Store, StoreError
from tasks.store.layout import incident_key
from tasks.text.redact import REMOVED, redact
from tasks.text.tables import counted, excerpt

SUMMARY = 1024
DEDUP = 255
# PagerDuty refuses events above 512 KB; half of it is more than anybody reads.
EVENT_BYTES = 256 << 10
FIELD = 4000
LINKS = 10
FILE_BYTES = 1 << 20
# Each of these calls by itself: an answer that is missing, somebody's word against a FAIL, machines that cost money, and a test.
SEPARATE = (PageKind.QUESTION, PageKind.OVERRIDDEN, PageKind.MACHINES, PageKind.TEST)
Event = Mapping[str, object]


def trigger(page: Notification, routing_key: str) -> Event:
    """The event that opens an incident, or adds to the open one of its key."""
    items = [_item(item) for item in page.items]
    event = _event(page, routing_key, items)
    while items and len(json.dumps(event).encode()) > EVENT_BYTES:
        items.pop()
        event = _event(page, routing_key, items)
    return event


def resolve(dedup_key: str, routing_key: str) -> Event:
    """The event that closes an incident."""
    return {"routing_key": routing_key, "event_action": "resolve", "dedup_key": dedup_key}


def dedup_key(page: Notification) -> str:
    """The incident to which a notification belongs. Several culprits, or nodes of which evidence is missing, make one; names too long
    for a key become their digest.
    """
    opening = f"prelaunch/{page.cluster}"
    if page.topic in SEPARATE:
        which = page.question.key if page.question else page.gate_id
        end = "" if which == page.gate_id else f"/{which}"
        return f"{opening}/{_slug(page.topic)}/{page.gate_id}{end}"
    if not page.culprits or page.topic is PageKind.REPAIR:
        opening = f"{opening}/{_slug(page.topic)}"
    names = sorted(page.culprits or page.about)
    if not names:
        return opening
    key = f"{opening}/{','.join(names)}"
    if len(key) <= DEDUP:
        return key
    return f"{opening}/{len(names)}-nodes-{hashlib.sha256(','.join(names).encode()).hexdigest()[:32]}"


def summary_of(page: Notification) -> str:
    """What a telephone shows."""
    return excerpt(page.title, SUMMARY, "all of it is in the details")


def _event(page: Notification, routing_key: str, items: list[dict[str, object]]) -> Event:
    places = (("report", page.url), *((link.text, link.url) for link in page.links))
    links = [{"href": url, "text": text} for text, url in places if url.startswith(("https://", "http://"))]
    event: dict[str, object] = {
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": dedup_key(page),
        "client": "Prelaunch",
        "payload": {
            "summary": summary_of(page),
            "source": page.culprits[0] if page.culprits else page.cluster,
            "severity": page.severity.value,
            "component": page.items[0].check if page.items else "gate",
            "group": page.cluster,
            "class": f"{page.topic.value}: {page.items[0].cause}" if page.items else page.topic.value,
            "custom_details": _details(page, items),
        },
        "links": links[:LINKS],
    }
    run = [link["href"] for link in links if link["text"] == "run in Prefect"]
    hrefs = run or [link["href"] for link in links[:1]]
    return {**event, "client_url": hrefs[0]} if hrefs else event


def _details(page: Notification, items: list[dict[str, object]]) -> dict[str, object]:
    left_out = len(page.items) - len(items) + page.more_items
    # PagerDuty links only to what a browser opens, and shows the details in this order.
    details: dict[str, object] = {key: excerpt(value, FIELD) for key, value in page.facts}
    details |= {"findings": items} if items else {"said": excerpt(page.text, FIELD)}
    details |= {"findings left out": f"{left_out} more are in the report"} if left_out else {}
    details |= {"cost": [excerpt(line, FIELD) for line in page.costs]} if page.costs else {}
    details |= {"failed deliveries": [excerpt(line, FIELD) for line in page.failed]} if page.failed else {}
    return {**details, "report": page.url or "none was written", "gate": page.gate, "gate id": page.gate_id}


def _item(item: Item) -> dict[str, object]:
    lines: dict[str, object] = {"what": excerpt(str(item), FIELD)}
    lines |= {"remedy": excerpt(item.remedy, FIELD)} if item.remedy else {}
    # A command that is cut does something else: whole, or left to the report.
    lines |= (
        {"commands": [command for command in item.commands if len(command) <= FIELD]} if item.commands else {}
    )
    return lines | ({"evidence": excerpt(item.evidence, FIELD)} if item.evidence else {})


def _slug(ending: PageKind) -> str:
    return ending.value.replace(" ", "-")


@dataclass(frozen=True)
class Patience:
    """In seconds: for all attempts together, for one of them, and before the second (each later pause is twice as long)."""

    total_s: float = 20.0
    attempt_s: float = 8.0
    pause_s: float = 0.5


class Later(Exception):
    """The call may succeed later; `after_s` is how long PagerDuty asked to wait."""

    def __init__(self, text: str, after_s: float = 0.0) -> None:
        super().__init__(text)
        self.after_s = after_s


class PagerDutyNotifier(Notifier):
    """Opens incidents, and resolves them."""

    name = "pagerduty"

    def __init__(self, table: PagerDutyTable, means: NotifierAccess, patience: Patience = Patience()) -> None:
        self.table, self.means, self.patience = table, means, patience

    def send(self, page: Notification) -> str:
        """Open the incident; a notification about an open incident is added to it. That of a test is resolved at once."""
        until = time.monotonic() + self.patience.total_s
        reference = (
            self.table.owner_routing_key if page.audience is Audience.OWNER else self.table.routing_key
        )
        if not reference:
            message = "the gate's owner has no routing key. Set [notify.pagerduty] owner_routing_key."
            raise NotifyError(message)
        routing_key = self.means.secret(reference)
        incident = Incident(
            SCHEMA_VERSION, dedup_key(page), reference, page.gate_id, page.topic.value, page.culprits, page.gate
        )  # fmt: skip
        untold = ""
        if page.topic is PageKind.TEST:
            self._post(trigger(page, routing_key), routing_key, until)
            self._post(resolve(incident.dedup_key, routing_key), routing_key, until)
            return f"incident {incident.dedup_key}, which was resolved at once"
        if page.topic is not PageKind.MACHINES:
            try:
                remember(self.means.store, page.cluster, incident)
            except StoreError as error:  # the call matters more than its bookkeeping
                untold = f" (it could not be recorded, so no GO will resolve it: {error})"
        self._post(trigger(page, routing_key), routing_key, until)
        return f"incident {incident.dedup_key}{untold}"

    def settle(self, page: Notification) -> str:
        """Resolve the open incidents that this end shows to be over, one by one: a GO of the gate file that opened them, or the return
        of nodes.
        """
        if page.topic is not PageKind.GO and not page.returned:
            return ""
        until = time.monotonic() + self.patience.total_s
        ours, done, failed = (self.table.routing_key, self.table.owner_routing_key), 0, []
        incidents = opened(self.means.store, page.cluster)
        related = {key: incident for key, incident in incidents.items() if incident.concerns(page)}
        ended = {key: item for key, item in related.items() if _is_over(item, page)}
        # Gate files that page about one node share its incident.
        shared = {(item.dedup_key, item.routing_key) for key, item in incidents.items() if key not in ended}
        for key, incident in related.items():
            left = incident.left(page)
            if left and left != incident.nodes:  # nodes are returned one by one
                self.means.store.put(key, dump_plain(replace(incident, nodes=left)))
        mine = {key: incident for key, incident in ended.items() if incident.routing_key in ours}
        for key, incident in mine.items():
            try:
                routing_key = self.means.secret(incident.routing_key)
                if (incident.dedup_key, incident.routing_key) not in shared:
                    self._post(resolve(incident.dedup_key, routing_key), routing_key, until)
                    done += 1
                self.means.store.delete(key)
            except (NotifyError, StoreError) as error:
                failed.append(f"{incident.dedup_key}: {error}")
        others = len(ended) - len(mine)
        if failed:
            message = f"{len(failed)} incidents are still open; resolve them by hand unless a later GO does: {'; '.join(failed[:3])}"
            raise NotifyError(message)
        notes = [f"{counted(done, 'incident')} resolved"] if done else []
        notes += [f"{others} left open, because other gates' routing keys opened them"] if others else []
        return ", ".join(notes)

    def _post(self, event: Event, routing_key: str, until: float) -> None:
        """Send the event until PagerDuty accepts it. Raises NotifyError when the time is up, or if trying again is no use."""
        pause = self.patience.pause_s
        while True:
            try:
                left = until - time.monotonic()
                return _attempt(self.table.url, event, max(0.1, min(self.patience.attempt_s, left)))
            except Later as error:
                wait = max(error.after_s, pause)
                if time.monotonic() + wait >= until:
                    message = _hidden(f"PagerDuty did not accept the event: {error}", routing_key)
                    raise NotifyError(f"{message}. Look at https://status.pagerduty.com.") from None
                time.sleep(wait)
                pause *= 2
            except NotifyError as error:
                raise NotifyError(_hidden(str(error), routing_key)) from None


def _attempt(url: str, event: Event, limit_s: float) -> None:
    """Send one POST. The dedup key makes it safe to repeat one that may have arrived. Raises Later, NotifyError."""
    import httpx

    try:
        with httpx.Client(timeout=limit_s, follow_redirects=False) as client:
            reply = client.post(url, json=event)
    except (httpx.HTTPError, OSError) as error:
        raise Later(f"{type(error).__name__}: {error}") from None
    except (ValueError, ImportError, httpx.InvalidURL) as error:
        # A proxy of the environment that httpx cannot use.
        raise NotifyError(f"{type(error).__name__}: {error}. Look at the proxy variables.") from None
    if reply.status_code == 202:
        return
    message = f"HTTP {reply.status_code} {' '.join(reply.text.split())[:400]}".rstrip()
    if reply.status_code == 429 or reply.status_code >= 500:
        after = reply.headers.get("Retry-After", "")
        raise Later(message, float(after) if after.isdigit() else 0.0)
    text = f"PagerDuty refused the event: {message}. Look at the routing key and url of [notify.pagerduty]."
    raise NotifyError(text)


def _hidden(text: str, routing_key: str) -> str:
    return redact(text.replace(routing_key, REMOVED), os.environ)


@dataclass(frozen=True)
class Incident:
    """An incident that was opened: `routing_key` is a reference, `gate_id` is the gate that opened it, `nodes` are to blame.

    `gate` is the name of its gate file, which older records do not say.
    """

    schema_version: Version
    dedup_key: str
    routing_key: str
    gate_id: str
    kind: str
    nodes: tuple[str, ...] = field(default=(), metadata=SPARSE)
    gate: str = field(default="", metadata=SPARSE)

    def concerns(self, page: Notification) -> bool:
        """Whether an end of this gate file may show that the incident is over: another one may have looked at other machines."""
        return self.kind == PageKind.REPAIR.value or self.gate in ("", page.gate)

    def left(self, page: Notification) -> tuple[str, ...]:
        """The nodes that were neither returned nor in this GO; those of a repair alone are waited for."""
        repaired = page.returned if self.kind == PageKind.REPAIR.value else ()
        return tuple(node for node in self.nodes if node not in repaired)


def _is_over(incident: Incident, page: Notification) -> bool:
    """Whether this GO, or this return of nodes, shows that the incident is over. Older records of repairs name no nodes."""
    if incident.kind == PageKind.REPAIR.value and incident.nodes:
        return not incident.left(page)
    is_shown = incident.kind != PageKind.TRAINING_FAILED.value or page.trained
    return page.topic is PageKind.GO and is_shown


def opened(store: Store, cluster: str) -> dict[str, Incident]:
    """The open incidents of a cluster by their keys in the store. Raises NotifyError, StoreError."""
    incidents = {}
    for key in store.list(incident_key(cluster)):
        data = store.get(key)
        if data is None:  # resolved just now
            continue
        try:
            incidents[key] = decode(Incident, parse_json(data, FILE_BYTES))
        except DecodeError as error:
            raise NotifyError(
                f"{key} cannot be read: {error}. Resolve the cluster's incidents by hand and remove the file."
            ) from error
    return incidents


def remember(store: Store, cluster: str, incident: Incident) -> None:
    """Record for its gate file an incident before it is opened; one that is recorded stays as it is. Raises StoreError."""
    key = f"{incident.dedup_key}\n{incident.routing_key}\n{incident.gate}"
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    store.put_if_absent(incident_key(cluster, name), dump_plain(incident))
