"""PagerDuty's Events API v2 on loopback HTTP: it accepts and refuses as the service does, and holds the incidents.

    with pagerduty_server() as pagerduty:
        table = PagerDutyTable(url=pagerduty.url)
        key = pagerduty.service()           # a routing key that it knows
        ...
        pagerduty.open(key)                 # the incidents of that service that are triggered

https://developer.pagerduty.com/docs/send-alert-event: 202 with the dedup key; 400 with reasons; 429; 5xx.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import ThreadingHTTPServer
from typing import Any

from tests.fakes.serving import QuietHandler, serving

EVENT_BYTES = 512 << 10
SEVERITIES = ("critical", "error", "warning", "info")
KEY_CHARACTERS = 32


class Failure(Enum):
    """What the service does instead. LOST_ANSWER: it takes the event, and the answer never arrives."""

    RATE_LIMIT = "429"
    SERVER_ERROR = "500"
    HANG = "hang"
    RESET = "reset"
    LOST_ANSWER = "lost answer"
    REDIRECT = "redirect"


@dataclass
class Incident:
    """One of a service: `events` are all that reached it, in order; only the first trigger called somebody."""

    dedup_key: str
    status: str
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def payload(self) -> dict[str, Any]:
        """Of the event that opened it: later ones of the same key change nothing that is shown."""
        found: dict[str, Any] = self.events[0]["payload"]
        return found


class PagerDuty:
    """Services by routing key, each with its incidents, newest last; and dials for what goes wrong."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.incidents: dict[str, list[Incident]] = {}
        self.answers: list[int] = []
        self.url = ""
        self.healed = threading.Event()
        self._failures: list[tuple[Failure, str]] = []

    def service(self) -> str:
        """A new service; its routing key."""
        key = secrets.token_hex(KEY_CHARACTERS // 2)
        with self.lock:
            self.incidents[key] = []
        return key

    def fail(self, failure: Failure, times: int = 1, retry_after: str = "") -> None:
        """The next `times` requests end so."""
        with self.lock:
            self._failures += [(failure, retry_after)] * times

    def heal(self) -> None:
        """Let everything work again; what hangs is let go."""
        with self.lock:
            self._failures.clear()
        self.healed.set()

    def open(self, key: str) -> list[Incident]:
        """The incidents of a service that wait for somebody."""
        return [incident for incident in self.incidents[key] if incident.status != "resolved"]

    def next_failure(self) -> tuple[Failure, str] | None:
        """What this request meets; None for nothing."""
        with self.lock:
            return self._failures.pop(0) if self._failures else None

    def take(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and answer for the bytes of an event."""
        if len(body) > EVENT_BYTES:
            return 413, _refusal(["the event is larger than 512 KB"])
        try:
            event = json.loads(body)
        except ValueError:
            return 400, _refusal(["the body is no JSON"])
        with self.lock:
            wrong = _wrong(event) or self._unknown(event["routing_key"])
            return (400, _refusal(wrong)) if wrong else (202, self._accept(event))

    def _unknown(self, key: str) -> list[str]:
        return [] if key in self.incidents else [f"Invalid routing key: {key}"]

    def _accept(self, event: dict[str, Any]) -> dict[str, Any]:
        key = event.get("dedup_key") or secrets.token_hex(16)
        found = self.incidents[event["routing_key"]]
        current = next((i for i in found if i.dedup_key == key and i.status != "resolved"), None)
        if event["event_action"] == "trigger":
            if current is None:
                current = Incident(key, "triggered")
                found.append(current)
            current.events.append(event)
        elif current is not None:  # an answer to nothing is accepted, and does nothing
            current.status = "resolved" if event["event_action"] == "resolve" else "acknowledged"
            current.events.append(event)
        return {"status": "success", "message": "Event processed", "dedup_key": key}


def _wrong(event: Any) -> list[str]:
    """Why the service refuses an event, in its words."""
    if not isinstance(event, dict):
        return ["the event is no object"]
    said = []
    if not event.get("routing_key") or len(str(event["routing_key"])) != KEY_CHARACTERS:
        said.append("'routing_key' is missing or invalid")
    if event.get("event_action") not in ("trigger", "acknowledge", "resolve"):
        said.append("'event_action' is invalid (must be one of: trigger, acknowledge, resolve)")
    if len(str(event.get("dedup_key", ""))) > 255:
        said.append("'dedup_key' is too long (maximum is 255 characters)")
    if event.get("event_action") != "trigger":
        return said + ([] if event.get("dedup_key") else ["'dedup_key' is missing or blank"])
    payload = event.get("payload")
    if not isinstance(payload, dict):
        return [*said, "'payload' is missing or blank"]
    lacks = [name for name in ("summary", "source") if not payload.get(name)]
    said += [f"'payload.{name}' is missing or blank" for name in lacks]
    if len(str(payload.get("summary", ""))) > 1024:
        said.append("'payload.summary' is too long (maximum is 1024 characters)")
    if payload.get("severity") not in SEVERITIES:
        said.append(f"'payload.severity' is invalid (must be one of: {', '.join(SEVERITIES)})")
    links = event.get("links", [])
    said += ["'links' is invalid: href is missing"] if any(not link.get("href") for link in links) else []
    return said


def _refusal(said: list[str]) -> dict[str, Any]:
    return {"status": "invalid event", "message": "Event object is invalid", "errors": said}


class _Server(ThreadingHTTPServer):
    def __init__(self, pagerduty: PagerDuty) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pagerduty = pagerduty


class _Handler(QuietHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """One event."""
        pagerduty = self.server.pagerduty
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        failure, retry_after = pagerduty.next_failure() or (None, "")
        if failure in (Failure.HANG, Failure.RESET, Failure.LOST_ANSWER):
            if failure is Failure.LOST_ANSWER:
                pagerduty.take(body)
            if failure is Failure.HANG:
                pagerduty.healed.wait()
            return self.reset()
        if failure is Failure.REDIRECT:
            return self._answer(307, {}, Location="http://127.0.0.1:9/")
        if failure is not None:
            more = {"Retry_After": retry_after} if retry_after else {}
            return self._answer(int(failure.value), {"status": "throttle exceeded", "errors": []}, **more)
        if self.path != "/v2/enqueue":
            return self._answer(404, {})
        return self._answer(*pagerduty.take(body))

    def _answer(self, status: int, said: dict[str, Any], **headers: str) -> None:
        with self.server.pagerduty.lock:
            self.server.pagerduty.answers.append(status)
        self.answer(status, json.dumps(said).encode(), Content_Type="application/json", **headers)


@contextmanager
def pagerduty_server() -> Iterator[PagerDuty]:
    """The service while the block lasts; requests that hang are let go at its end."""
    pagerduty = PagerDuty()
    server = _Server(pagerduty)
    pagerduty.url = f"http://127.0.0.1:{server.server_port}/v2/enqueue"
    with serving(server, pagerduty.heal):
        yield pagerduty
