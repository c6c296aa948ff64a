"""Keeps the text of notifications in the store, and says so in one line on stderr. This notifier is always there, and pages nobody.

The same plain text is kept of every notification, and sent by notifiers without a layout of their own.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

from tasks.notifiers.base import Keep, Notification, NotifyError, Status
from tasks.store.layout import page_key


def notification_text(page: Notification) -> str:
    """Title, text, and the results of earlier notifiers."""
    return f"{page.title}\n\n{body_text(page)}\n"


def body_text(page: Notification) -> str:
    """The same without the title."""
    return "\n".join([page.text.rstrip("\n"), *said_lines(page)])


def said_lines(page: Notification) -> tuple[str, ...]:
    """One line for each notifier that failed before this one; empty if none did."""
    return ("", *(f"Delivery failed: {line}" for line in page.said)) if page.said else ()


def keep_and_say(page: Notification, keep: Keep, stream: TextIO | None = None) -> str:
    """Store the text, and write one line about it to the stream (default stderr); returns where the text is.

    Raises NotifyError if it cannot be stored; then the whole text is written to the stream. It is no failure if nobody reads that.
    """
    try:
        where = keep(page_key(page.gate_id), notification_text(page))
    except NotifyError:
        _write(notification_text(page), stream)
        raise
    _write(f"{page.title}{f' (the text is in {where})' if where else ''}", stream)
    return where


def _write(said: str, stream: TextIO | None) -> None:
    with contextlib.suppress(OSError, ValueError):  # closed by whoever started us
        print(f"NOTIFICATION {said}", file=stream or sys.stderr, flush=True)


class LogNotifier:
    """Writes the notification to pages/<gate id>.txt in the store, and a line about it to a stream (stderr)."""

    name = "log"

    def __init__(self, keep: Keep, stream: TextIO | None = None) -> None:
        self.keep, self.stream = keep, stream

    def send(self, page: Notification) -> str:
        """Write to both. It is a failure if the notification cannot be stored, and none if nobody reads the stream."""
        return keep_and_say(page, self.keep, self.stream)

    def settle(self, page: Notification) -> str:
        """Nothing to do: there is no message to update."""
        return ""

    def show(self, status: Status) -> None:
        """Nothing to do: the person who started the gate sees its progress."""
