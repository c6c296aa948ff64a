"""Handles what Slack sends over the socket: each envelope is acknowledged at once and carried out once.

The work is done by a few threads and never in the socket's thread. They never keep the process alive.
"""

from __future__ import annotations

import collections
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tasks.slackbot.approvals import ApprovalHandler
from tasks.slackbot.commands import Commands
from tasks.slackbot.dialogs import CALLBACK, beside_field

if TYPE_CHECKING:
    from slack_sdk.socket_mode.client import BaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

LOG = logging.getLogger("prelaunch.slack")
WAITING = 100
Work = Callable[[], None]
# Slack waits 3 s for an acknowledgement: https://docs.slack.dev/interactivity/handling-user-interaction
SUBMISSION_S = 2.0
REMEMBERED = 10_000


class Workers:
    """`count` daemon threads behind a bounded queue."""

    def __init__(self, count: int = 4) -> None:
        self._queue: queue.Queue[Work | None] = queue.Queue(WAITING)
        self._threads = [
            threading.Thread(target=self._run, name=f"slack-work-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Work) -> bool:
        """Queue the work; False if too much is waiting already."""
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            return False
        return True

    def stop(self, patience_s: float) -> bool:
        """Accept no more work, and give running work `patience_s` to end. Returns whether it ended."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._queue.get_nowait()  # acknowledged and not begun: whoever clicked sees no answer, and clicks again
            except queue.Empty:
                break
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - one click that fails must not end the buttons of all
                LOG.error("a click or command could not be handled: %s: %s", type(error).__name__, error)


class Envelopes:
    """The listener of a Socket Mode client."""

    def __init__(self, answering: ApprovalHandler, commands: Commands, workers: Workers) -> None:
        self._answering, self._commands, self._workers = answering, commands, workers
        self._seen: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        """Acknowledge the envelope, and queue its work."""
        if self._again(request.envelope_id):
            LOG.info("envelope %s arrived again and was ignored", request.envelope_id)
            _acknowledge(client, request)
            return
        payload = request.payload
        if request.type == "interactive" and payload.get("type") == "view_submission":
            self._submission(client, request)
            return
        _acknowledge(client, request)
        if request.type == "interactive" and payload.get("type") == "block_actions":
            self._do(lambda: self._answering.clicked(payload))
        elif request.type == "slash_commands":
            self._do(lambda: self._commands.typed(payload, request.envelope_id))

    def _submission(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        """Acknowledge a submission with what is wrong with it. If that takes longer than Slack waits it is posted afterwards."""
        payload = request.payload
        if payload.get("view", {}).get("callback_id") != CALLBACK:
            _acknowledge(client, request)
            return
        reply = SubmissionReply()

        def check() -> None:
            against = self._answering.submitted(payload)
            if not reply.give(against) and against:
                self._answering.too_late(payload, against)

        if not self._do(check):
            _acknowledge(client, request, beside_field("The app is busy. Submit again in a minute."))
            return
        against = reply.wait(SUBMISSION_S)
        _acknowledge(client, request, beside_field(against) if against else None)

    def _do(self, work: Callable[[], None]) -> bool:
        if self._workers.submit(work):
            return True
        LOG.error("too many clicks and commands wait: one was dropped")
        return False

    def _again(self, envelope: str) -> bool:
        with self._lock:
            if envelope in self._seen:
                return True
            self._seen[envelope] = None
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            return False


class SubmissionReply:
    """The answer to a submission, if it is known before Slack stops waiting."""

    def __init__(self) -> None:
        self._given, self._text, self._closed = threading.Event(), "", False
        self._lock = threading.Lock()

    def give(self, text: str) -> bool:
        """Set the text; returns whether it was in time."""
        with self._lock:
            if self._closed:
                return False
            self._text = text
            self._given.set()
            return True

    def wait(self, seconds: float) -> str:
        """Wait for the text; "" if there is none yet, and from then on it is too late."""
        self._given.wait(seconds)
        with self._lock:
            self._closed = True
            return self._text


def _acknowledge(
    client: BaseSocketModeClient, request: SocketModeRequest, body: dict[str, Any] | None = None
) -> None:
    from slack_sdk.socket_mode.response import SocketModeResponse

    try:
        client.send_socket_mode_response(SocketModeResponse(request.envelope_id, body))
    except Exception as error:  # noqa: BLE001 - the connection was replaced just now: Slack delivers the envelope again
        LOG.warning("envelope %s was not acknowledged: %s", request.envelope_id, type(error).__name__)
