"""A page as an event of PagerDuty's Events API v2 (pure): https://developer.pagerduty.com/docs/send-alert-event.

The dedup key is "prelaunch/<cluster>/<culprit>": the same culprit again is the same incident, whichever gate saw it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from tasks.notifiers.base import Item, Kind, Page
from tasks.notifiers.plain import clipped

SUMMARY = 1024
DEDUP = 255
# PagerDuty refuses events above 512 KB; half of it is more than anybody reads.
EVENT_BYTES = 256 << 10
FIELD = 4000
LINKS = 10
# Each of these calls by itself: an answer that is missing, somebody's word against a FAIL, and machines that cost money.
ALONE = (Kind.QUESTION, Kind.OVERRIDDEN, Kind.MACHINES)
Event = Mapping[str, object]


def trigger(page: Page, routing_key: str) -> Event:
    """The event that opens an incident, or adds to the open one of its key."""
    items = [_item(item) for item in page.items]
    event = _event(page, routing_key, items)
    while items and len(json.dumps(event).encode()) > EVENT_BYTES:
        items.pop()
        event = _event(page, routing_key, items)
    return event


def resolve(dedup_key: str, routing_key: str) -> Event:
    """The event that closes it."""
    return {"routing_key": routing_key, "event_action": "resolve", "dedup_key": dedup_key}


def dedup_key(page: Page) -> str:
    """Which incident a page belongs to. Several culprits are one; too many names for a key are their digest."""
    opening = f"prelaunch/{page.cluster}"
    if page.kind in ALONE:
        which = page.question.key if page.question else page.gate_id
        return f"{opening}/{_word(page.kind)}/{page.gate_id}" + ("" if which == page.gate_id else f"/{which}")
    culprits = sorted(page.culprits)
    key = f"{opening}/{','.join(culprits) if culprits else _word(page.kind)}"
    if len(key) <= DEDUP:
        return key
    return f"{opening}/{len(culprits)}-nodes-{hashlib.sha256(','.join(culprits).encode()).hexdigest()[:32]}"


def _event(page: Page, routing_key: str, items: list[dict[str, object]]) -> Event:
    links = [
        {"href": link.url, "text": link.text}
        for link in page.links
        if link.url.startswith(("https://", "http://"))
    ]
    if page.url.startswith(("https://", "http://")):
        links.insert(0, {"href": page.url, "text": "report"})
    event: dict[str, object] = {
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": dedup_key(page),
        "client": "Prelaunch",
        "payload": {
            "summary": clipped(page.title, SUMMARY, "all of it is in the details"),
            "source": page.culprits[0] if page.culprits else page.cluster,
            "severity": page.severity.value,
            "component": page.items[0].check if page.items else "gate",
            "group": page.cluster,
            "class": f"{page.kind.value}: {page.items[0].cause}" if page.items else page.kind.value,
            "custom_details": _details(page, items),
        },
        "links": links[:LINKS],
    }
    run = [link["href"] for link in links if link["text"] == "run in Prefect"]
    return {**event, "client_url": run[0]} if run else event


def _details(page: Page, items: list[dict[str, object]]) -> dict[str, object]:
    left_out = len(page.items) - len(items) + page.more_items
    details: dict[str, object] = {key: clipped(value, FIELD) for key, value in page.facts}
    details |= {"findings": items} if items else {"said": clipped(page.text, FIELD)}
    details |= {"findings left out": f"{left_out} more are in the report"} if left_out else {}
    details |= {"cost": [clipped(line, FIELD) for line in page.costs]} if page.costs else {}
    details |= {"could not be told by": [clipped(line, FIELD) for line in page.said]} if page.said else {}
    return details | {"gate": page.gate, "gate id": page.gate_id, "report": page.url or "none was made"}


def _item(item: Item) -> dict[str, object]:
    what = f"{item.word} {item.cause} {item.where}: {item.check}: {item.message}"
    said: dict[str, object] = {"what": clipped(what, FIELD)}
    said |= {"remedy": clipped(item.remedy, FIELD)} if item.remedy else {}
    # A command that is cut does something else: whole, or left to the report.
    said |= {"type": [command for command in item.commands if len(command) <= FIELD]} if item.commands else {}
    return said | ({"evidence": clipped(item.evidence, FIELD)} if item.evidence else {})


def _word(kind: Kind) -> str:
    return kind.value.replace(" ", "-")
